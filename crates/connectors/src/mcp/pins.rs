//! What of a server was accepted, and what it says now. The first it ever says is taken: a human has accepted the program
//! that says it. From then on another definition of a tool stops that tool, and is kept aside for a human to look at.
//!
//! What cannot be read, or cannot be kept, is not taken for nothing: no tool of that server is called.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tool::{Failure, FailureKind};

use super::definitions::Definitions;
use super::upstreams::Upstreams;

/// What holds for one server.
#[derive(Debug)]
pub(crate) struct Pins {
    upstreams: Option<Upstreams>,
    id: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    held: Held,
    /// What the server said when that was last noted.
    noted: Option<Arc<Definitions>>,
}

#[derive(Debug)]
enum Held {
    /// It has not said anything yet.
    Nothing,
    Known(Arc<Definitions>),
    /// Something was accepted, and nobody can say what.
    Unreadable(String),
}

impl Pins {
    /// Those of the server of this manifest. Its id is a name that a file can have.
    pub(crate) fn of(upstreams: Option<&Upstreams>, id: &str) -> Pins {
        let held = match upstreams.map_or(Ok(None), |upstreams| upstreams.of(id)) {
            Ok(None) => Held::Nothing,
            Ok(Some(bytes)) => Definitions::from_bytes(&bytes).map_or_else(
                |error| Held::Unreadable(error.to_string()),
                |known| Held::Known(Arc::new(known)),
            ),
            Err(error) => Held::Unreadable(error.to_string()),
        };
        let state = Mutex::new(State { held, noted: None });
        Pins { upstreams: upstreams.cloned(), id: id.to_owned(), state }
    }

    /// What a tool is, as far as that is known: `null` where the server has none of that name.
    pub(crate) fn of_tool(&self, tool: &str) -> Option<Value> {
        match &self.state().held {
            Held::Nothing => None,
            // That it had no such tool was accepted too: one that it adds later is asked about.
            Held::Known(known) => Some(known.get(tool).cloned().unwrap_or_default()),
            // Not what was accepted before, whatever that was.
            Held::Unreadable(why) => Some(json!({"unreadable": why})),
        }
    }

    /// Whether there is nothing to be noted of what a server says.
    pub(crate) fn has_noted(&self, said: &Arc<Definitions>) -> bool {
        self.state().noted.as_ref().is_some_and(|noted| noted == said)
    }

    /// Takes note of what a server says. Blocks on the disk. What it says first counts once it is kept.
    pub(crate) fn note(&self, said: &Arc<Definitions>) -> Result<(), Failure> {
        let mut state = self.state();
        match &state.held {
            Held::Unreadable(why) => return Err(self.unreadable(why)),
            Held::Nothing => {
                self.keep(|upstreams, id| upstreams.keep_first(id, &said.to_bytes()))
                    .map_err(|error| self.unkept(&error))?;
                state.held = Held::Known(Arc::clone(said));
            }
            Held::Known(held) => {
                let kept = match held == said {
                    true => self.keep(Upstreams::forget_newer),
                    false => self.keep(|upstreams, id| upstreams.keep_newer(id, &said.to_bytes())),
                };
                if let Err(error) = kept {
                    tracing::warn!(%error, server = self.id, "what a server says now cannot be kept for a human");
                    return Ok(());
                }
            }
        }
        state.noted = Some(Arc::clone(said));
        Ok(())
    }

    /// Whether a tool is what was accepted.
    pub(crate) fn holds(&self, tool: &str, said: &Definitions) -> Result<(), Failure> {
        let Some(now) = said.get(tool) else {
            let names: Vec<&str> = said.names().collect();
            tracing::info!(
                server = self.id,
                tool,
                has = names.join(" "),
                "a server lacks a tool of its manifest"
            );
            let message = format!("the server of `{}` has no tool `{tool}`", self.id);
            let hint = format!("it has {} others; the daemon's log names them", names.len());
            return Err(Failure::new(FailureKind::NotFound, message).hint(hint));
        };
        match &self.state().held {
            Held::Known(held) if held.get(tool) == Some(now) => Ok(()),
            Held::Unreadable(why) => Err(self.unreadable(why)),
            Held::Known(_) | Held::Nothing => {
                let message =
                    format!("the server of `{}` defines `{tool}` in another way than was accepted", self.id);
                Err(Failure::new(FailureKind::Conflict, message)
                    .hint("nothing was run; `sinew reload --accept` shows the difference and takes it"))
            }
        }
    }

    fn keep(&self, how: impl FnOnce(&Upstreams, &str) -> io::Result<()>) -> io::Result<()> {
        self.upstreams.as_ref().map_or(Ok(()), |upstreams| how(upstreams, &self.id))
    }

    fn unreadable(&self, why: &str) -> Failure {
        let message = format!("what was accepted of the server of `{}` cannot be read: {why}", self.id);
        let place = self.upstreams.as_ref().map(|upstreams| upstreams.place(&self.id)).unwrap_or_default();
        let place = place.display();
        Failure::new(FailureKind::Conflict, message).hint(format!(
            "nothing was run; remove `{place}`, then `sinew reload --accept`: what the server says next is taken"
        ))
    }

    fn unkept(&self, error: &io::Error) -> Failure {
        let message = format!("what the server of `{}` says of its tools cannot be kept: {error}", self.id);
        Failure::new(FailureKind::Conflict, message)
            .hint("nothing was run: without it nobody could tell when the server changes its tools")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A value is put in whole, so a panic elsewhere cannot have broken it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::upstreams::Taking;
    use super::*;

    fn said(description: &str) -> Arc<Definitions> {
        let mut said = Definitions::default();
        said.add(json!([{"name": "t", "description": description}])).unwrap();
        Arc::new(said)
    }

    #[test]
    fn the_first_word_is_kept_and_another_stops_the_tool_until_it_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let of = |taking| Upstreams::at(folder.path().join("u"), taking);
        let first = Pins::of(Some(&of(Taking::Accepted)), "s");
        assert_eq!(first.of_tool("t"), None);
        first.note(&said("one")).unwrap();
        assert!(first.has_noted(&said("one")) && !first.has_noted(&said("two")));
        assert!(first.holds("t", &said("one")).is_ok());
        assert_eq!(first.holds("t", &said("two")).unwrap_err().kind, FailureKind::Conflict);
        assert_eq!(first.holds("x", &said("one")).unwrap_err().kind, FailureKind::NotFound);
        // After a restart, and whoever is about to be asked sees the other.
        first.note(&said("two")).unwrap();
        let again = Pins::of(Some(&of(Taking::Accepted)), "s");
        assert!(again.holds("t", &said("one")).is_ok() && again.holds("t", &said("two")).is_err());
        let newest = Pins::of(Some(&of(Taking::Newest)), "s");
        assert_eq!(newest.of_tool("t"), Some(json!({"description": "two"})));
        again.note(&said("one")).unwrap();
        let newest = Pins::of(Some(&of(Taking::Newest)), "s");
        assert_eq!(newest.of_tool("t"), Some(json!({"description": "one"})), "it took that back");
        assert_eq!(newest.of_tool("x"), Some(Value::Null), "that it has no such tool is known");
    }

    #[test]
    fn what_cannot_be_read_or_kept_is_not_taken_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let upstreams = Upstreams::at(folder.path().join("u"), Taking::Accepted);
        std::fs::create_dir(folder.path().join("u")).unwrap();
        std::fs::write(upstreams.place("s"), "{\"t\":").unwrap();
        let broken = Pins::of(Some(&upstreams), "s");
        assert_eq!(broken.note(&said("one")).unwrap_err().kind, FailureKind::Conflict);
        let refused = broken.holds("t", &said("one")).unwrap_err();
        assert!(refused.hint.unwrap().contains("sinew reload --accept"));
        assert_ne!(broken.of_tool("t"), None, "a reload shows that it is not what it was");
        // A folder in the place of the file cannot be read either; a file in the place of the folder takes no pin.
        std::fs::create_dir(upstreams.place("d")).unwrap();
        assert!(Pins::of(Some(&upstreams), "d").note(&said("one")).is_err());
        let nowhere = Upstreams::at(upstreams.place("s").join("u"), Taking::Accepted);
        let unkept = Pins::of(Some(&nowhere), "x");
        assert_eq!(unkept.note(&said("one")).unwrap_err().kind, FailureKind::Conflict);
        assert!(unkept.holds("t", &said("one")).is_err(), "what is not kept does not hold");
    }

    #[test]
    fn the_first_word_counts_once_it_is_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let refusing = Upstreams::at(folder.path().join("u"), Taking::Accepted)
            .sealed_by(Arc::new(|_, _| Err(io::Error::other("no seal"))));
        let pins = Pins::of(Some(&refusing), "s");
        assert_eq!(pins.note(&said("one")).unwrap_err().kind, FailureKind::Conflict);
        assert!(pins.holds("t", &said("one")).is_err());
        // What was sealed holds, whatever became of the other file.
        let copy = folder.path().join("copy");
        document::replace_private(&copy.join("s.json"), &said("one").to_bytes()).unwrap();
        std::fs::write(refusing.place("s"), said("two").to_bytes()).unwrap();
        let copied =
            Pins::of(Some(&Upstreams::at(folder.path().join("u"), Taking::Accepted).as_copied(copy)), "s");
        assert!(copied.holds("t", &said("one")).is_ok() && copied.holds("t", &said("two")).is_err());
    }
}
