//! Outputs that are longer than an answer, kept whole for a while in files of the daemon's own, and read on in pages.
//! An id is random, and its file is named by the id and the party it was told to, so that nobody else finds it. Kept for a
//! day and up to a bound; nothing here survives for long.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tool::canonical;

/// The most that is kept of one output.
const MOST_OF_ONE: u64 = 64 * 1024 * 1024;
/// The most that is kept of all of them.
const MOST_OF_ALL: u64 = 512 * 1024 * 1024;
/// How long they are kept.
const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// The bytes of a name, each two letters.
const NAME_BYTES: usize = 16;

/// Where outputs are kept, and whose are looked for.
#[derive(Clone, Debug)]
pub struct Spills {
    folder: PathBuf,
    party: String,
}

/// An output that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spilled {
    /// What it is read on by.
    pub id: String,
    /// How much of it is kept, from its beginning.
    pub bytes: u64,
}

/// A part of an output that is kept.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    /// As they were written.
    pub bytes: Vec<u8>,
    /// How much there is in all.
    pub total: u64,
}

impl Spills {
    /// Outputs are kept in this folder, which is made when the first of them is. Others' files do not belong there.
    pub fn at(folder: impl Into<PathBuf>) -> Spills {
        Spills { folder: folder.into(), party: String::new() }
    }

    /// The outputs of one party.
    pub fn of(&self, party: &str) -> Spills {
        Spills { folder: self.folder.clone(), party: party.to_owned() }
    }

    /// The file of an output: another party's id leads to a name that is not there.
    fn file(&self, id: &str) -> PathBuf {
        let digest = Sha256::digest(format!("{id} {}", self.party));
        self.folder.join(canonical::hex(&digest))
    }

    /// A part of an output; nothing if there is none of this name, or not any more.
    pub fn page(&self, id: &str, offset: u64, most: u64) -> io::Result<Option<Page>> {
        if id.len() != NAME_BYTES * 2 || !id.bytes().all(|letter| letter.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let mut file = match File::open(self.file(id)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let total = file.metadata()?.len();
        // Past the end there is nothing, and a place that no file can have is no error of the disk's.
        file.seek(SeekFrom::Start(offset.min(total)))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(Some(Page { bytes, total }))
    }

    /// Begins a file of its own, after making room for it.
    pub(crate) fn begin(&self) -> io::Result<Spill> {
        std::fs::DirBuilder::new().mode(0o700).recursive(true).create(&self.folder)?;
        self.sweep(SystemTime::now(), MOST_OF_ALL - MOST_OF_ONE);
        let mut bytes = [0; NAME_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let id = canonical::hex(&bytes);
        let path = self.file(&id);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Spill { file, id, written: 0 })
    }

    /// Removes what is too old, and the oldest until the rest has at most this many bytes. What cannot be removed stays:
    /// an output is not lost for it.
    fn sweep(&self, now: SystemTime, most: u64) {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let facts = |path: PathBuf| {
            let facts = path.metadata().ok()?;
            Some((facts.modified().ok()?, facts.len(), path))
        };
        let mut kept: Vec<(SystemTime, u64, PathBuf)> = entries.filter_map(|one| facts(one.path())).collect();
        kept.sort();
        let mut total: u64 = kept.iter().map(|(_, bytes, _)| bytes).sum();
        for (written, bytes, path) in kept {
            let is_old = now.duration_since(written).is_ok_and(|age| age > KEPT_FOR);
            if (is_old || total > most) && remove(&path) {
                total -= bytes;
            }
        }
    }
}

fn remove(path: &Path) -> bool {
    std::fs::remove_file(path).is_ok()
}

/// A file that an output is being written to.
#[derive(Debug)]
pub(crate) struct Spill {
    file: File,
    id: String,
    written: u64,
}

impl Spill {
    /// Adds to it, up to the bound. A disk that is full ends it where it stands.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let room = usize::try_from(MOST_OF_ONE - self.written).unwrap_or(usize::MAX);
        let part = bytes.get(..room.min(bytes.len())).unwrap_or(bytes);
        self.written = match self.file.write_all(part) {
            Ok(()) => self.written + part.len() as u64,
            Err(_) => MOST_OF_ONE,
        };
    }

    pub(crate) fn finish(self) -> Spilled {
        let bytes = self.file.metadata().map_or(self.written, |facts| facts.len());
        Spilled { id: self.id, bytes }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn spilled(spills: &Spills, bytes: &[u8]) -> Spilled {
        let mut spill = spills.begin().unwrap();
        spill.take(bytes);
        spill.finish()
    }

    #[test]
    fn an_output_is_kept_privately_and_read_in_pages() {
        let folder = tempfile::tempdir().unwrap();
        let spills = Spills::at(folder.path().join("output"));
        let kept = spilled(&spills, &[0, 255, b'a', b'b', b'c']);
        assert_eq!(kept.bytes, 5);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder.path().join("output")), 0o700);
        assert_eq!(mode(&spills.file(&kept.id)), 0o600);
        let page = |offset, most| spills.page(&kept.id, offset, most).unwrap().unwrap();
        assert_eq!(page(0, 3), Page { bytes: vec![0, 255, b'a'], total: 5 });
        assert_eq!(page(3, 100), Page { bytes: b"bc".to_vec(), total: 5 });
        for past in [9, 1 << 63, u64::MAX] {
            assert_eq!(page(past, 100), Page { bytes: Vec::new(), total: 5 });
        }
    }

    #[test]
    fn an_id_leads_nobody_else_anywhere() {
        let folder = tempfile::tempdir().unwrap();
        let all = Spills::at(folder.path());
        let (one, other) = (all.of("one"), all.of("other"));
        let id = spilled(&one, b"x").id;
        assert_eq!(one.page(&id, 0, 10).unwrap().unwrap().bytes, b"x");
        assert_eq!(other.page(&id, 0, 10).unwrap(), None);
        assert_eq!(all.page(&id, 0, 10).unwrap(), None);
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert!(names.iter().all(|entry| entry.file_name() != id.as_str()), "the id is not in the folder");
    }

    #[test]
    fn only_names_of_ours_are_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), "secret").unwrap();
        let spills = Spills::at(folder.path().join("output"));
        spilled(&spills, b"x");
        for id in ["../secret", "", "secret", "/etc/passwd", &"a".repeat(32), &"../".repeat(11)[..32]] {
            assert_eq!(spills.page(id, 0, 10).unwrap(), None, "{id}");
        }
    }

    #[test]
    fn what_is_old_goes_and_then_the_oldest() {
        let folder = tempfile::tempdir().unwrap();
        let spills = Spills::at(folder.path());
        let ids: Vec<String> = (0..3).map(|_| spilled(&spills, &[b'x'; 100]).id).collect();
        let now = SystemTime::now();
        for (id, age) in ids.iter().zip([KEPT_FOR * 2, Duration::from_secs(60), Duration::from_secs(1)]) {
            File::open(spills.file(id)).unwrap().set_modified(now - age).unwrap();
        }
        let left = || ids.iter().filter(|id| spills.file(id).exists()).collect::<Vec<_>>();
        spills.sweep(now, 1000);
        assert_eq!(left(), [&ids[1], &ids[2]]);
        spills.sweep(now, 150);
        assert_eq!(left(), [&ids[2]]);
    }
}
