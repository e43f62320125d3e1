//! Journal of unfinished runs, one file per run, written before the run starts. If the daemon is killed, the
//! next one cleans up from these files. Nothing is synced: a power failure ends the run as well.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::cleanup::WorkspaceBaseline;
use crate::launch::wire_format::{self, MessageWriter};
use crate::scan::inventory::ProtectedFile;

/// Folder of the journal.
#[derive(Clone, Debug)]
pub(crate) struct RunJournal {
    folder: PathBuf,
}

/// Journal entry of a run. Dropping it keeps the file.
#[derive(Debug)]
pub(crate) struct JournalEntry {
    path: PathBuf,
}

impl JournalEntry {
    /// Removes the entry after the run is over and cleaned up.
    pub(crate) fn remove(self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "could not remove a journal entry");
        }
    }
}

/// A run that an earlier daemon started.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnfinishedRun {
    pub(crate) baseline: WorkspaceBaseline,
    /// Process id of the launcher that watched it.
    pub(crate) launcher: u32,
    /// Time by which it had to be over.
    pub(crate) ends_before: SystemTime,
}

impl RunJournal {
    /// Creates a journal in this folder, which is created with the first entry. It must contain no other
    /// files.
    pub(crate) fn at(folder: &Path) -> RunJournal {
        RunJournal { folder: folder.to_owned() }
    }

    /// Writes the entry of a run.
    pub(crate) fn record(&self, run: &UnfinishedRun) -> io::Result<JournalEntry> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        std::fs::DirBuilder::new().mode(0o700).recursive(true).create(&self.folder)?;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = self.folder.join(format!("{}-{number}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                // The entry of an earlier process with the same id, whose cleanup failed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                file => {
                    file?.write_all(&run.to_frame())?;
                    return Ok(JournalEntry { path });
                }
            }
        }
    }

    /// Returns every entry. An incomplete entry belongs to a run that never started.
    pub(crate) fn unfinished(&self) -> io::Result<Vec<(JournalEntry, Option<UnfinishedRun>)>> {
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let run = std::fs::read(&path).and_then(|bytes| UnfinishedRun::parse(&bytes)).ok();
            found.push((JournalEntry { path }, run));
        }
        Ok(found)
    }
}

impl UnfinishedRun {
    fn to_frame(&self) -> Vec<u8> {
        let mut writer = MessageWriter::default();
        writer.put_number("launcher", u64::from(self.launcher));
        let latest = self.ends_before.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        writer.put_number("latest", latest.as_secs());
        self.baseline.writable.iter().for_each(|path| writer.put("writable", path));
        self.baseline.hidden.iter().for_each(|path| writer.put("hidden", path));
        self.baseline.repositories.iter().for_each(|path| writer.put("repository", path));
        for (path, protected_file) in &self.baseline.protected {
            writer.put("protected", path);
            for (one, other) in [protected_file.file, protected_file.created, protected_file.parent] {
                writer.put_number("of", one);
                writer.put_number("of", other);
            }
            writer.put_number("of", u64::from(protected_file.is_symlink));
            writer.put_number("of", u64::from(protected_file.is_in_repository));
        }
        writer.into_frame()
    }

    /// Parses an entry. The length prefix shows if it is complete.
    fn parse(bytes: &[u8]) -> io::Result<UnfinishedRun> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let (head, body) = bytes.split_first_chunk().ok_or_else(invalid)?;
        if wire_format::parse_length(*head)? != body.len() {
            return Err(invalid());
        }
        let (mut before, mut launcher, mut latest) =
            (WorkspaceBaseline::default(), 0, SystemTime::UNIX_EPOCH);
        let mut pairs = wire_format::parse_pairs(body)?.into_iter();
        while let Some((name, value)) = pairs.next() {
            match name.as_str() {
                "launcher" => {
                    launcher = u32::try_from(wire_format::parse_number(&value)?).map_err(|_| invalid())?
                }
                "latest" => latest += Duration::from_secs(wire_format::parse_number(&value)?),
                "writable" => before.writable.push(value.into()),
                "hidden" => {
                    before.hidden.insert(value.into());
                }
                "repository" => {
                    before.repositories.insert(value.into());
                }
                "protected" | "kept" => {
                    let mut fact = || wire_format::parse_number(&pairs.next().ok_or_else(invalid)?.1);
                    let protected_file = ProtectedFile {
                        file: (fact()?, fact()?),
                        created: (fact()?, fact()?),
                        parent: (fact()?, fact()?),
                        is_symlink: fact()? == 1,
                        is_in_repository: fact()? == 1,
                    };
                    before.protected.insert(value.into(), protected_file);
                }
                _ => return Err(invalid()),
            }
        }
        Ok(UnfinishedRun { baseline: before, launcher, ends_before: latest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> UnfinishedRun {
        let kept = |is_link| ProtectedFile {
            file: (1, u64::MAX),
            created: (5, 6),
            parent: (3, 4),
            is_symlink: is_link,
            is_in_repository: !is_link,
        };
        UnfinishedRun {
            baseline: WorkspaceBaseline {
                writable: vec!["/w".into(), "/w 2".into()],
                hidden: ["/w/.env".into()].into(),
                repositories: ["/w/bare".into()].into(),
                protected: [("/w/.bashrc".into(), kept(true)), ("/w/.git/config".into(), kept(false))].into(),
            },
            launcher: 7,
            ends_before: SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 32),
        }
    }

    #[test]
    fn journal_entry_round_trips_until_the_run_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let runs = RunJournal::at(&folder.path().join("runs"));
        assert!(runs.unfinished().unwrap().is_empty(), "the folder does not exist yet");
        let (one, other) = (runs.record(&run()).unwrap(), runs.record(&run()).unwrap());
        one.remove();
        let left = runs.unfinished().unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].1.as_ref(), Some(&run()));
        let whole = std::fs::read(&other.path).unwrap();
        std::fs::write(&other.path, &whole[..whole.len() - 8]).unwrap();
        assert_eq!(runs.unfinished().unwrap()[0].1, None, "a truncated entry is ignored");
    }
}
