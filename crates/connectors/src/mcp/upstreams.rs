//! Where it is kept what servers say of their tools: a file for what was accepted of each, and one for what it says since
//! then. What was accepted is also in the copy of the configuration that whoever puts the parts together seals.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What was accepted.
const PINNED: &str = "json";
/// What waits to be.
const SEEN: &str = "seen";

/// Seals what the server of an id said first.
pub type Seal = Arc<dyn Fn(&str, &[u8]) -> io::Result<()> + Send + Sync>;

/// Where it is kept what servers say of their tools.
#[derive(Clone)]
pub struct Upstreams {
    /// A private folder, made when it is first needed.
    folder: PathBuf,
    /// Where what holds is read first.
    copy: Option<PathBuf>,
    taking: Taking,
    seal: Option<Seal>,
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
    /// In this folder, which belongs to nobody else.
    pub fn at(folder: PathBuf, taking: Taking) -> Upstreams {
        Upstreams { folder, copy: None, taking, seal: None }
    }

    /// The same, where what this copy has holds before all: a folder with a file for each server, under the same names.
    pub fn as_copied(self, copy: PathBuf) -> Upstreams {
        Upstreams { copy: Some(copy), ..self }
    }

    /// The same, where what a server says first counts once it is sealed.
    pub fn sealed_by(self, seal: Seal) -> Upstreams {
        Upstreams { seal: Some(seal), ..self }
    }

    /// The name of the file of what was accepted of a server, here and in a copy.
    pub fn file_name(id: &str) -> String {
        format!("{id}.{PINNED}")
    }

    /// What holds for each server, by its id.
    pub fn all(&self) -> io::Result<BTreeMap<String, Vec<u8>>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
            entries => entries?,
        };
        let mut found = BTreeMap::new();
        for entry in entries {
            let name = entry?.file_name();
            let id = name.to_str().and_then(|name| name.rsplit_once('.')).and_then(|(id, ending)| {
                let counts = ending == PINNED || (ending == SEEN && self.taking == Taking::Newest);
                counts.then(|| id.to_owned())
            });
            let Some(id) = id else { continue };
            if let Some(holds) = self.of(&id)? {
                found.insert(id, holds);
            }
        }
        Ok(found)
    }

    /// Takes what a server says: from now on that is what was accepted. What it has said since then is another matter.
    pub fn take(&self, id: &str, said: &[u8]) -> io::Result<()> {
        let (pinned, seen) = (self.place(id), self.seen(id));
        if read(&pinned)?.as_deref() != Some(said) {
            document::replace_private(&pinned, said)?;
        }
        match read(&seen)?.as_deref() == Some(said) {
            true => remove(&seen),
            false => Ok(()),
        }
    }

    /// What holds for a server, if anything does.
    pub(crate) fn of(&self, id: &str) -> io::Result<Option<Vec<u8>>> {
        let first = match (&self.copy, self.taking) {
            (Some(copy), _) => read(&copy.join(Upstreams::file_name(id)))?,
            (None, Taking::Newest) => read(&self.seen(id))?,
            (None, Taking::Accepted) => None,
        };
        // What is not in a copy may have been on its way there.
        first.map_or_else(|| read(&self.place(id)), |first| Ok(Some(first)))
    }

    /// Keeps what a server says first.
    pub(crate) fn keep_first(&self, id: &str, said: &[u8]) -> io::Result<()> {
        document::replace_private(&self.place(id), said)?;
        self.seal.as_ref().map_or(Ok(()), |seal| seal(id, said))
    }

    /// Keeps what a server says now for a human to look at.
    pub(crate) fn keep_newer(&self, id: &str, said: &[u8]) -> io::Result<()> {
        let seen = self.seen(id);
        if read(&seen)?.as_deref() == Some(said) { Ok(()) } else { document::replace_private(&seen, said) }
    }

    /// It says again what was accepted.
    pub(crate) fn forget_newer(&self, id: &str) -> io::Result<()> {
        remove(&self.seen(id))
    }

    /// The file of what was accepted.
    pub(crate) fn place(&self, id: &str) -> PathBuf {
        self.folder.join(Upstreams::file_name(id))
    }

    fn seen(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.{SEEN}"))
    }
}

impl fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Upstreams");
        shown.field("folder", &self.folder).field("copy", &self.copy).field("taking", &self.taking);
        shown.finish_non_exhaustive()
    }
}

fn read(file: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        bytes => bytes.map(Some),
    }
}

fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_takes_the_place_of_what_was_accepted_unless_more_was_said_since() {
        let folder = tempfile::tempdir().unwrap();
        let of = |taking| Upstreams::at(folder.path().to_owned(), taking);
        let (accepted, newest) = (of(Taking::Accepted), of(Taking::Newest));
        let all = |upstreams: &Upstreams| -> Vec<(String, Vec<u8>)> {
            upstreams.all().unwrap().into_iter().collect()
        };
        accepted.keep_first("a.b", b"1").unwrap();
        accepted.keep_newer("a.b", b"2").unwrap();
        accepted.keep_newer("c", b"3").unwrap();
        let pair = |id: &str, bytes: &[u8]| (id.to_owned(), bytes.to_vec());
        assert_eq!(all(&accepted), [pair("a.b", b"1")]);
        assert_eq!(all(&newest), [pair("a.b", b"2"), pair("c", b"3")]);
        accepted.take("a.b", b"2").unwrap();
        assert_eq!(all(&accepted), [pair("a.b", b"2")]);
        accepted.keep_newer("a.b", b"4").unwrap();
        accepted.take("a.b", b"2").unwrap();
        assert_eq!(newest.of("a.b").unwrap().as_deref(), Some(b"4".as_slice()), "that is another matter");
    }
}
