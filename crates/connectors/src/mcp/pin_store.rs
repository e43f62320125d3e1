//! Storage of the tool definitions of servers: one file with the accepted definitions of each server, and one
//! with newer definitions. The accepted ones are also in the sealed copy of the configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Extension of accepted definitions.
const ACCEPTED_EXTENSION: &str = "json";
/// Extension of newer definitions that wait for review.
const NEWER_EXTENSION: &str = "seen";

/// Adds the first definitions of a server, by its id, to the sealed copy of the configuration.
pub type PinSealer = Arc<dyn Fn(&str, &[u8]) -> io::Result<()> + Send + Sync>;

/// Store of the tool definitions of servers.
#[derive(Clone)]
pub struct PinStore {
    /// Private folder, created when it is first needed.
    folder: PathBuf,
    /// Folder of the accepted copy, which is read first.
    copy: Option<PathBuf>,
    version: PinVersion,
    seal: Option<PinSealer>,
}

/// Version of definitions to use if a server has newer ones than accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinVersion {
    /// Accepted definitions.
    Accepted,
    /// Newest definitions, for a reload that asks the operator about them.
    Newest,
}

impl PinStore {
    /// Creates a store in this private folder.
    pub fn new(folder: PathBuf, pin_version: PinVersion) -> PinStore {
        PinStore { folder, copy: None, version: pin_version, seal: None }
    }

    /// Reads definitions from this copy first: a folder with one file per server, under the same names.
    pub fn with_copy(self, copy: PathBuf) -> PinStore {
        PinStore { copy: Some(copy), ..self }
    }

    /// Seals the first definitions of a server before they apply.
    pub fn with_sealer(self, seal: PinSealer) -> PinStore {
        PinStore { seal: Some(seal), ..self }
    }

    /// Returns the file name of the accepted definitions of a server, here and in a copy.
    pub fn file_name(id: &str) -> String {
        format!("{id}.{ACCEPTED_EXTENSION}")
    }

    /// Returns the definitions in force by server id.
    pub fn read_all(&self) -> io::Result<BTreeMap<String, Vec<u8>>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
            entries => entries?,
        };
        let mut found = BTreeMap::new();
        for entry in entries {
            let name = entry?.file_name();
            let id = name.to_str().and_then(|name| name.rsplit_once('.')).and_then(|(id, ending)| {
                let counts = ending == ACCEPTED_EXTENSION
                    || (ending == NEWER_EXTENSION && self.version == PinVersion::Newest);
                counts.then(|| id.to_owned())
            });
            let Some(id) = id else { continue };
            if let Some(holds) = self.read(&id)? {
                found.insert(id, holds);
            }
        }
        Ok(found)
    }

    /// Stores definitions as accepted. Newer definitions that differ stay for review.
    pub fn accept(&self, id: &str, text: &[u8]) -> io::Result<()> {
        let (pinned, seen) = (self.accepted_path(id), self.newer_path(id));
        if read_if_exists(&pinned)?.as_deref() != Some(text) {
            strict_yaml::replace_private_file(&pinned, text)?;
        }
        match read_if_exists(&seen)?.as_deref() == Some(text) {
            true => remove_if_exists(&seen),
            false => Ok(()),
        }
    }

    /// Returns the definitions in force for a server.
    pub(crate) fn read(&self, id: &str) -> io::Result<Option<Vec<u8>>> {
        let first = match (&self.copy, self.version) {
            (Some(copy), _) => read_if_exists(&copy.join(PinStore::file_name(id)))?,
            (None, PinVersion::Newest) => read_if_exists(&self.newer_path(id))?,
            (None, PinVersion::Accepted) => None,
        };
        // A crash may have come after the file was written and before the copy was sealed.
        first.map_or_else(|| read_if_exists(&self.accepted_path(id)), |first| Ok(Some(first)))
    }

    /// Stores and seals the first definitions of a server.
    pub(crate) fn store_first(&self, id: &str, text: &[u8]) -> io::Result<()> {
        strict_yaml::replace_private_file(&self.accepted_path(id), text)?;
        self.seal.as_ref().map_or(Ok(()), |seal| seal(id, text))
    }

    /// Stores newer definitions for the operator's review.
    pub(crate) fn store_newer(&self, id: &str, text: &[u8]) -> io::Result<()> {
        let seen = self.newer_path(id);
        if read_if_exists(&seen)?.as_deref() == Some(text) {
            Ok(())
        } else {
            strict_yaml::replace_private_file(&seen, text)
        }
    }

    /// Removes newer definitions, because the server has returned to the accepted ones.
    pub(crate) fn remove_newer(&self, id: &str) -> io::Result<()> {
        remove_if_exists(&self.newer_path(id))
    }

    /// Returns the path of the accepted definitions.
    pub(crate) fn accepted_path(&self, id: &str) -> PathBuf {
        self.folder.join(PinStore::file_name(id))
    }

    fn newer_path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.{NEWER_EXTENSION}"))
    }
}

impl fmt::Debug for PinStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Upstreams");
        shown.field("folder", &self.folder).field("copy", &self.copy).field("taking", &self.version);
        shown.finish_non_exhaustive()
    }
}

fn read_if_exists(file: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        bytes => bytes.map(Some),
    }
}

fn remove_if_exists(file: &Path) -> io::Result<()> {
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
        let of = |taking| PinStore::new(folder.path().to_owned(), taking);
        let (accepted, newest) = (of(PinVersion::Accepted), of(PinVersion::Newest));
        let all = |upstreams: &PinStore| -> Vec<(String, Vec<u8>)> {
            upstreams.read_all().unwrap().into_iter().collect()
        };
        accepted.store_first("a.b", b"1").unwrap();
        accepted.store_newer("a.b", b"2").unwrap();
        accepted.store_newer("c", b"3").unwrap();
        let pair = |id: &str, bytes: &[u8]| (id.to_owned(), bytes.to_vec());
        assert_eq!(all(&accepted), [pair("a.b", b"1")]);
        assert_eq!(all(&newest), [pair("a.b", b"2"), pair("c", b"3")]);
        accepted.accept("a.b", b"2").unwrap();
        assert_eq!(all(&accepted), [pair("a.b", b"2")]);
        accepted.store_newer("a.b", b"4").unwrap();
        accepted.accept("a.b", b"2").unwrap();
        assert_eq!(newest.read("a.b").unwrap().as_deref(), Some(b"4".as_slice()), "newer definitions stay");
    }
}
