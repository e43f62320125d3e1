//! Storage of the tool definitions of servers: one file with the accepted definitions of each server, and one
//! with newer definitions. The accepted ones are also in the sealed copy of the configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Extension of accepted definitions.
const PINNED: &str = "json";
/// Extension of newer definitions that wait for review.
const SEEN: &str = "seen";

/// Adds the first definitions of a server, by its id, to the sealed copy of the configuration.
pub type Seal = Arc<dyn Fn(&str, &[u8]) -> io::Result<()> + Send + Sync>;

/// Store of the tool definitions of servers.
#[derive(Clone)]
pub struct Upstreams {
    /// Private folder, created when it is first needed.
    folder: PathBuf,
    /// Folder of the accepted copy, which is read first.
    copy: Option<PathBuf>,
    taking: Taking,
    seal: Option<Seal>,
}

/// Version of definitions to use if a server has newer ones than accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// Accepted definitions.
    Accepted,
    /// Newest definitions, for a reload that asks the operator about them.
    Newest,
}

impl Upstreams {
    /// Creates a store in this private folder.
    pub fn at(folder: PathBuf, taking: Taking) -> Upstreams {
        Upstreams { folder, copy: None, taking, seal: None }
    }

    /// Reads definitions from this copy first: a folder with one file per server, under the same names.
    pub fn as_copied(self, copy: PathBuf) -> Upstreams {
        Upstreams { copy: Some(copy), ..self }
    }

    /// Seals the first definitions of a server before they apply.
    pub fn sealed_by(self, seal: Seal) -> Upstreams {
        Upstreams { seal: Some(seal), ..self }
    }

    /// Returns the file name of the accepted definitions of a server, here and in a copy.
    pub fn file_name(id: &str) -> String {
        format!("{id}.{PINNED}")
    }

    /// Returns the definitions in force by server id.
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

    /// Stores definitions as accepted. Newer definitions that differ stay for review.
    pub fn take(&self, id: &str, said: &[u8]) -> io::Result<()> {
        let (pinned, seen) = (self.place(id), self.seen(id));
        if read(&pinned)?.as_deref() != Some(said) {
            strict_yaml::replace_private(&pinned, said)?;
        }
        match read(&seen)?.as_deref() == Some(said) {
            true => remove(&seen),
            false => Ok(()),
        }
    }

    /// Returns the definitions in force for a server.
    pub(crate) fn of(&self, id: &str) -> io::Result<Option<Vec<u8>>> {
        let first = match (&self.copy, self.taking) {
            (Some(copy), _) => read(&copy.join(Upstreams::file_name(id)))?,
            (None, Taking::Newest) => read(&self.seen(id))?,
            (None, Taking::Accepted) => None,
        };
        // A crash may have come after the file was written and before the copy was sealed.
        first.map_or_else(|| read(&self.place(id)), |first| Ok(Some(first)))
    }

    /// Stores and seals the first definitions of a server.
    pub(crate) fn keep_first(&self, id: &str, said: &[u8]) -> io::Result<()> {
        strict_yaml::replace_private(&self.place(id), said)?;
        self.seal.as_ref().map_or(Ok(()), |seal| seal(id, said))
    }

    /// Stores newer definitions for the operator's review.
    pub(crate) fn keep_newer(&self, id: &str, said: &[u8]) -> io::Result<()> {
        let seen = self.seen(id);
        if read(&seen)?.as_deref() == Some(said) { Ok(()) } else { strict_yaml::replace_private(&seen, said) }
    }

    /// Removes newer definitions, because the server has returned to the accepted ones.
    pub(crate) fn forget_newer(&self, id: &str) -> io::Result<()> {
        remove(&self.seen(id))
    }

    /// Returns the path of the accepted definitions.
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
    fn accepting_replaces_pins_but_keeps_newer_ones() {
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
        assert_eq!(newest.of("a.b").unwrap().as_deref(), Some(b"4".as_slice()), "newer definitions stay");
    }
}
