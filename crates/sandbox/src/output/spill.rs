//! Store of outputs that are too long for a response. They are kept in private files for a limited time and
//! read in pages. An id is random, and the file name is derived from the id and its owner, so that no other
//! party can find it. Files are kept for a day and up to a total size.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tool::canonical;

/// Largest size of one output.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;
/// Largest size of all outputs together.
const MAX_STORE_BYTES: u64 = 512 * 1024 * 1024;
/// Time for which outputs are kept.
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
/// Random bytes of an id, each written as two hexadecimal digits.
const ID_BYTES: usize = 16;

/// Store of outputs, limited to one owner.
#[derive(Clone, Debug)]
pub struct SpillStore {
    folder: PathBuf,
    owner: String,
}

/// An output in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpilledOutput {
    /// Id by which it is read.
    pub id: String,
    /// Number of bytes kept, from the beginning.
    pub bytes: u64,
}

/// Part of an output.
#[derive(Debug, PartialEq, Eq)]
pub struct OutputPage {
    /// Unchanged bytes.
    pub bytes: Vec<u8>,
    /// Size of the whole output.
    pub total: u64,
}

impl SpillStore {
    /// Creates a store in this folder, which is created with the first output. It must contain no other
    /// files.
    pub fn at(folder: impl Into<PathBuf>) -> SpillStore {
        SpillStore { folder: folder.into(), owner: String::new() }
    }

    /// Returns the store for the outputs of one owner.
    pub fn for_owner(&self, party: &str) -> SpillStore {
        SpillStore { folder: self.folder.clone(), owner: party.to_owned() }
    }

    /// Returns the file of an output. With the id of another owner's output the file does not exist.
    fn file(&self, id: &str) -> PathBuf {
        let digest = Sha256::digest(format!("{id} {}", self.owner));
        self.folder.join(canonical::hex(&digest))
    }

    /// Reads a part of an output; `None` if it does not exist or has been removed.
    pub fn page(&self, id: &str, offset: u64, most: u64) -> io::Result<Option<OutputPage>> {
        if id.len() != ID_BYTES * 2 || !id.bytes().all(|letter| letter.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let mut file = match File::open(self.file(id)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let total = file.metadata()?.len();
        // An offset past the end reads nothing; clamping avoids an error for offsets that no file can have.
        file.seek(SeekFrom::Start(offset.min(total)))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(Some(OutputPage { bytes, total }))
    }

    /// Creates the file of a new output, after removing old ones to make space.
    pub(crate) fn create(&self) -> io::Result<SpillWriter> {
        std::fs::DirBuilder::new().mode(0o700).recursive(true).create(&self.folder)?;
        self.sweep(SystemTime::now(), MAX_STORE_BYTES - MAX_OUTPUT_BYTES);
        let mut bytes = [0; ID_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let id = canonical::hex(&bytes);
        let path = self.file(&id);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(SpillWriter { file, id, written: 0 })
    }

    /// Removes expired outputs, and then the oldest until the rest fits. A failure to remove one is ignored,
    /// so that the new output is not lost.
    fn sweep(&self, now: SystemTime, most: u64) {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let facts = |path: PathBuf| {
            let facts = path.metadata().ok()?;
            Some((facts.modified().ok()?, facts.len(), path))
        };
        let mut spill_files: Vec<(SystemTime, u64, PathBuf)> =
            entries.filter_map(|one| facts(one.path())).collect();
        spill_files.sort();
        let mut total: u64 = spill_files.iter().map(|(_, bytes, _)| bytes).sum();
        for (written, bytes, path) in spill_files {
            let is_old = now.duration_since(written).is_ok_and(|age| age > RETENTION);
            if (is_old || total > most) && remove(&path) {
                total -= bytes;
            }
        }
    }
}

fn remove(path: &Path) -> bool {
    std::fs::remove_file(path).is_ok()
}

/// File to which an output is written.
#[derive(Debug)]
pub(crate) struct SpillWriter {
    file: File,
    id: String,
    written: u64,
}

impl SpillWriter {
    /// Appends bytes, up to the largest size. A full disk ends the output at that point.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let space = usize::try_from(MAX_OUTPUT_BYTES - self.written).unwrap_or(usize::MAX);
        let part = bytes.get(..space.min(bytes.len())).unwrap_or(bytes);
        self.written = match self.file.write_all(part) {
            Ok(()) => self.written + part.len() as u64,
            Err(_) => MAX_OUTPUT_BYTES,
        };
    }

    pub(crate) fn finish(self) -> SpilledOutput {
        let bytes = self.file.metadata().map_or(self.written, |facts| facts.len());
        SpilledOutput { id: self.id, bytes }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn spilled(spills: &SpillStore, bytes: &[u8]) -> SpilledOutput {
        let mut spill = spills.create().unwrap();
        spill.write(bytes);
        spill.finish()
    }

    #[test]
    fn output_is_private_and_read_in_pages() {
        let folder = tempfile::tempdir().unwrap();
        let spills = SpillStore::at(folder.path().join("output"));
        let spill_files = spilled(&spills, &[0, 255, b'a', b'b', b'c']);
        assert_eq!(spill_files.bytes, 5);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder.path().join("output")), 0o700);
        assert_eq!(mode(&spills.file(&spill_files.id)), 0o600);
        let page = |offset, most| spills.page(&spill_files.id, offset, most).unwrap().unwrap();
        assert_eq!(page(0, 3), OutputPage { bytes: vec![0, 255, b'a'], total: 5 });
        assert_eq!(page(3, 100), OutputPage { bytes: b"bc".to_vec(), total: 5 });
        for past in [9, 1 << 63, u64::MAX] {
            assert_eq!(page(past, 100), OutputPage { bytes: Vec::new(), total: 5 });
        }
    }

    #[test]
    fn id_works_only_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let all = SpillStore::at(folder.path());
        let (one, other) = (all.for_owner("one"), all.for_owner("other"));
        let id = spilled(&one, b"x").id;
        assert_eq!(one.page(&id, 0, 10).unwrap().unwrap().bytes, b"x");
        assert_eq!(other.page(&id, 0, 10).unwrap(), None);
        assert_eq!(all.page(&id, 0, 10).unwrap(), None);
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert!(names.iter().all(|entry| entry.file_name() != id.as_str()), "the id is not a file name");
    }

    #[test]
    fn malformed_ids_are_not_looked_up() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), "secret").unwrap();
        let spills = SpillStore::at(folder.path().join("output"));
        spilled(&spills, b"x");
        for id in ["../secret", "", "secret", "/etc/passwd", &"a".repeat(32), &"../".repeat(11)[..32]] {
            assert_eq!(spills.page(id, 0, 10).unwrap(), None, "{id}");
        }
    }

    #[test]
    fn expired_outputs_go_first_and_then_the_oldest() {
        let folder = tempfile::tempdir().unwrap();
        let spills = SpillStore::at(folder.path());
        let ids: Vec<String> = (0..3).map(|_| spilled(&spills, &[b'x'; 100]).id).collect();
        let now = SystemTime::now();
        for (id, age) in ids.iter().zip([RETENTION * 2, Duration::from_secs(60), Duration::from_secs(1)]) {
            File::open(spills.file(id)).unwrap().set_modified(now - age).unwrap();
        }
        let left = || ids.iter().filter(|id| spills.file(id).exists()).collect::<Vec<_>>();
        spills.sweep(now, 1000);
        assert_eq!(left(), [&ids[1], &ids[2]]);
        spills.sweep(now, 150);
        assert_eq!(left(), [&ids[2]]);
    }
}
