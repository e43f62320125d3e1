//! Pinned tool definitions of a server (trust on first use). The first definitions are accepted, because the
//! operator has accepted the server itself. A tool whose definition differs later is not called, and the new
//! definition is stored for the operator's review.
//!
//! Pins that cannot be read or stored are an error: no tool of that server is called.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tool::{Failure, FailureKind};

use super::definitions::Definitions;
use super::upstreams::Upstreams;

/// Pins of one server.
#[derive(Debug)]
pub(crate) struct Pins {
    upstreams: Option<Upstreams>,
    id: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    held: Held,
    /// Definitions that were last compared and stored.
    noted: Option<Arc<Definitions>>,
}

#[derive(Debug)]
enum Held {
    /// The server has not listed its tools yet.
    Nothing,
    Known(Arc<Definitions>),
    /// Pins exist but cannot be read, with the reason.
    Unreadable(String),
}

impl Pins {
    /// Loads the pins of the server of a manifest. The id is a valid file name.
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

    /// Returns the pinned definition of a tool: `None` without pins, `null` if the server has no such tool.
    pub(crate) fn of_tool(&self, tool: &str) -> Option<Value> {
        match &self.state().held {
            Held::Nothing => None,
            // The absence of a tool is pinned too: a tool added later needs approval.
            Held::Known(known) => Some(known.get(tool).cloned().unwrap_or_default()),
            // Differs from every accepted definition, so that a reload reports a change.
            Held::Unreadable(why) => Some(json!({"unreadable": why})),
        }
    }

    /// Returns true if these definitions have already been noted.
    pub(crate) fn has_noted(&self, said: &Arc<Definitions>) -> bool {
        self.state().noted.as_ref().is_some_and(|noted| noted == said)
    }

    /// Compares the definitions with the pins and stores what is new. The first definitions apply only once
    /// they are stored. Blocking.
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
                    tracing::warn!(%error, server = self.id, "changed tool definitions cannot be stored for review");
                    return Ok(());
                }
            }
        }
        state.noted = Some(Arc::clone(said));
        Ok(())
    }

    /// Checks that the definition of a tool is the accepted one.
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
            let hint = format!("it has {} other tools; the daemon's log lists them", names.len());
            return Err(Failure::new(FailureKind::NotFound, message).hint(hint));
        };
        match &self.state().held {
            Held::Known(held) if held.get(tool) == Some(now) => Ok(()),
            Held::Unreadable(why) => Err(self.unreadable(why)),
            Held::Known(_) | Held::Nothing => {
                let message =
                    format!("the server of `{}` now defines `{tool}` differently than accepted", self.id);
                Err(Failure::new(FailureKind::Conflict, message)
                    .hint("nothing was run; `sinew reload --accept` shows the difference and accepts it"))
            }
        }
    }

    fn keep(&self, how: impl FnOnce(&Upstreams, &str) -> io::Result<()>) -> io::Result<()> {
        self.upstreams.as_ref().map_or(Ok(()), |upstreams| how(upstreams, &self.id))
    }

    fn unreadable(&self, why: &str) -> Failure {
        let message = format!("the pinned definitions of the server of `{}` cannot be read: {why}", self.id);
        let place = self.upstreams.as_ref().map(|upstreams| upstreams.place(&self.id)).unwrap_or_default();
        let place = place.display();
        Failure::new(FailureKind::Conflict, message).hint(format!(
            "nothing was run; remove `{place}`, then run `sinew reload --accept` to pin its tools again"
        ))
    }

    fn unkept(&self, error: &io::Error) -> Failure {
        let message = format!("the tools of the server of `{}` cannot be pinned: {error}", self.id);
        Failure::new(FailureKind::Conflict, message)
            .hint("nothing was run: without stored definitions, later changes could not be detected")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Values are replaced as a whole, so a poisoned lock is safe to use.
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
    fn a_changed_definition_stops_the_tool_until_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let of = |taking| Upstreams::at(folder.path().join("u"), taking);
        let first = Pins::of(Some(&of(Taking::Accepted)), "s");
        assert_eq!(first.of_tool("t"), None);
        first.note(&said("one")).unwrap();
        assert!(first.has_noted(&said("one")) && !first.has_noted(&said("two")));
        assert!(first.holds("t", &said("one")).is_ok());
        assert_eq!(first.holds("t", &said("two")).unwrap_err().kind, FailureKind::Conflict);
        assert_eq!(first.holds("x", &said("one")).unwrap_err().kind, FailureKind::NotFound);
        // After a restart the accepted definition applies; the reload sees the newer one.
        first.note(&said("two")).unwrap();
        let again = Pins::of(Some(&of(Taking::Accepted)), "s");
        assert!(again.holds("t", &said("one")).is_ok() && again.holds("t", &said("two")).is_err());
        let newest = Pins::of(Some(&of(Taking::Newest)), "s");
        assert_eq!(newest.of_tool("t"), Some(json!({"description": "two"})));
        again.note(&said("one")).unwrap();
        let newest = Pins::of(Some(&of(Taking::Newest)), "s");
        assert_eq!(newest.of_tool("t"), Some(json!({"description": "one"})), "the change was reverted");
        assert_eq!(newest.of_tool("x"), Some(Value::Null), "the absence of a tool is known");
    }

    #[test]
    fn unreadable_or_unstored_pins_stop_all_tools() {
        let folder = tempfile::tempdir().unwrap();
        let upstreams = Upstreams::at(folder.path().join("u"), Taking::Accepted);
        std::fs::create_dir(folder.path().join("u")).unwrap();
        std::fs::write(upstreams.place("s"), "{\"t\":").unwrap();
        let broken = Pins::of(Some(&upstreams), "s");
        assert_eq!(broken.note(&said("one")).unwrap_err().kind, FailureKind::Conflict);
        let refused = broken.holds("t", &said("one")).unwrap_err();
        assert!(refused.hint.unwrap().contains("sinew reload --accept"));
        assert_ne!(broken.of_tool("t"), None, "a reload reports the change");
        // A folder in place of the file is unreadable; a file in place of the folder cannot store a pin.
        std::fs::create_dir(upstreams.place("d")).unwrap();
        assert!(Pins::of(Some(&upstreams), "d").note(&said("one")).is_err());
        let nowhere = Upstreams::at(upstreams.place("s").join("u"), Taking::Accepted);
        let unkept = Pins::of(Some(&nowhere), "x");
        assert_eq!(unkept.note(&said("one")).unwrap_err().kind, FailureKind::Conflict);
        assert!(unkept.holds("t", &said("one")).is_err(), "a definition that is not stored does not apply");
    }

    #[test]
    fn the_first_definition_applies_once_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let refusing = Upstreams::at(folder.path().join("u"), Taking::Accepted)
            .sealed_by(Arc::new(|_, _| Err(io::Error::other("no seal"))));
        let pins = Pins::of(Some(&refusing), "s");
        assert_eq!(pins.note(&said("one")).unwrap_err().kind, FailureKind::Conflict);
        assert!(pins.holds("t", &said("one")).is_err());
        // The sealed copy takes precedence over the other file.
        let copy = folder.path().join("copy");
        strict_yaml::replace_private(&copy.join("s.json"), &said("one").to_bytes()).unwrap();
        std::fs::write(refusing.place("s"), said("two").to_bytes()).unwrap();
        let copied =
            Pins::of(Some(&Upstreams::at(folder.path().join("u"), Taking::Accepted).as_copied(copy)), "s");
        assert!(copied.holds("t", &said("one")).is_ok() && copied.holds("t", &said("two")).is_err());
    }
}
