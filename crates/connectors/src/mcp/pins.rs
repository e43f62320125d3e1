//! What of a server was accepted, and what it says now. The first it ever says is taken: a human has accepted the program
//! that says it. From then on another definition of a tool stops that tool, and is kept aside for a human to look at.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde_json::Value;
use tool::{Failure, FailureKind};

use super::definitions::Definitions;

/// Where it is kept what servers say of their tools.
#[derive(Clone, Debug)]
pub struct Upstreams {
    /// A private folder, made when it is first needed.
    pub folder: PathBuf,
    /// Which of it holds.
    pub taking: Taking,
}

/// Which definitions hold where a server has come up with others since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// Those that were accepted.
    Accepted,
    /// The newest, because a human is about to be asked about them.
    Newest,
}

impl Upstreams {
    /// The ending of what was accepted, and of what waits to be.
    pub const PINNED: &str = "json";
    /// The ending of what waits to be accepted.
    pub const SEEN: &str = "seen";

    fn file(&self, id: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{id}.{ending}"))
    }
}

/// What holds for one server.
#[derive(Debug)]
pub(crate) struct Pins {
    upstreams: Option<Upstreams>,
    id: String,
    held: OnceLock<Definitions>,
}

impl Pins {
    /// Those of the server of this manifest. Its id is a name that a file can have.
    pub(crate) fn of(upstreams: Option<&Upstreams>, id: &str) -> Pins {
        let held = OnceLock::new();
        if let Some(upstreams) = upstreams {
            let read = |ending| fs::read(upstreams.file(id, ending)).ok();
            let seen = || (upstreams.taking == Taking::Newest).then(|| read(Upstreams::SEEN)).flatten();
            let bytes = seen().or_else(|| read(Upstreams::PINNED));
            if let Some(known) = bytes.as_deref().and_then(Definitions::from_bytes) {
                // It is empty until here.
                let _ = held.set(known);
            }
        }
        Pins { upstreams: upstreams.cloned(), id: id.to_owned(), held }
    }

    /// What a tool is, as far as that is known.
    pub(crate) fn of_tool(&self, tool: &str) -> Option<Value> {
        self.held.get()?.get(tool).cloned()
    }

    /// Takes note of what a server says. Blocks on the disk.
    pub(crate) fn note(&self, said: &Definitions) -> io::Result<()> {
        let is_first = self.held.get().is_none();
        let held = self.held.get_or_init(|| said.clone());
        let Some(upstreams) = &self.upstreams else { return Ok(()) };
        let (pinned, seen) =
            (upstreams.file(&self.id, Upstreams::PINNED), upstreams.file(&self.id, Upstreams::SEEN));
        if held != said {
            return keep(&seen, &said.to_bytes());
        }
        if is_first && !pinned.exists() {
            return keep(&pinned, &said.to_bytes());
        }
        match fs::remove_file(&seen) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether a tool is what was accepted.
    pub(crate) fn holds(&self, tool: &str, said: &Definitions) -> Result<(), Failure> {
        let Some(now) = said.get(tool) else {
            let names: Vec<&str> = said.names().take(20).collect();
            let names = tool::visible_line(&names.join(", "));
            let message = format!("the server of `{}` has no tool `{tool}`", self.id);
            return Err(Failure::new(FailureKind::NotFound, message).hint(format!("it has: {names}")));
        };
        match self.held.get().and_then(|held| held.get(tool)) {
            Some(accepted) if accepted == now => Ok(()),
            _ => {
                let message =
                    format!("the server of `{}` defines `{tool}` in another way than was accepted", self.id);
                Err(Failure::new(FailureKind::Conflict, message)
                    .hint("nothing was run; `sinew reload --accept` shows the difference and takes it"))
            }
        }
    }
}

/// Writes a private file whole, or not at all.
fn keep(file: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
    if fs::read(file).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(folder) = file.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let new = file.with_extension("new");
    let mut options = fs::OpenOptions::new();
    let mut written = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    written.write_all(bytes)?;
    written.sync_all()?;
    fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(description: &str) -> Definitions {
        let mut said = Definitions::default();
        said.add(json!([{"name": "t", "description": description}])).unwrap();
        said
    }

    #[test]
    fn the_first_word_is_kept_and_another_stops_the_tool_until_it_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let of = |taking| Upstreams { folder: folder.path().join("u"), taking };
        let first = Pins::of(Some(&of(Taking::Accepted)), "s");
        assert_eq!(first.of_tool("t"), None);
        first.note(&said("one")).unwrap();
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
    }
}
