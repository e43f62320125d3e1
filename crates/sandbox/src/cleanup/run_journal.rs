//! Journal of unfinished runs, one file per run, written before the run starts. If the daemon is killed, the
//! next one cleans up from these files. Nothing is synced: after a power failure the run is gone as well.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::cleanup::Before;
use crate::launch::wire_format::{self, Writer};
use crate::scan::inventory::Kept;

/// Folder of the journal.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    folder: PathBuf,
}

/// Journal entry of a run. Dropping it keeps the file.
#[derive(Debug)]
pub(crate) struct Noted {
    path: PathBuf,
}

impl Noted {
    /// Removes the entry after the run is over and cleaned up.
    pub(crate) fn over(self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "could not remove a journal entry");
        }
    }
}

/// A run that an earlier daemon started.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unfinished {
    pub(crate) before: Before,
    /// Process id of the launcher that watched it.
    pub(crate) launcher: u32,
    /// Time by which it had to be over.
    pub(crate) latest: SystemTime,
}

impl Runs {
    /// Creates a journal in this folder, which is created with the first entry. It must contain no other
    /// files.
    pub(crate) fn at(folder: &Path) -> Runs {
        Runs { folder: folder.to_owned() }
    }

    /// Writes the entry of a run.
    pub(crate) fn note(&self, run: &Unfinished) -> io::Result<Noted> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        std::fs::DirBuilder::new().mode(0o700).recursive(true).create(&self.folder)?;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = self.folder.join(format!("{}-{number}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                // The entry of an earlier process with the same id, whose cleanup failed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                file => {
                    file?.write_all(&run.framed())?;
                    return Ok(Noted { path });
                }
            }
        }
    }

    /// Returns every entry. An incomplete entry belongs to a run that never started.
    pub(crate) fn unfinished(&self) -> io::Result<Vec<(Noted, Option<Unfinished>)>> {
        let entries = match std::fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let run = std::fs::read(&path).and_then(|bytes| Unfinished::read(&bytes)).ok();
            found.push((Noted { path }, run));
        }
        Ok(found)
    }
}

impl Unfinished {
    fn framed(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.number("launcher", u64::from(self.launcher));
        let latest = self.latest.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        writer.number("latest", latest.as_secs());
        self.before.writable.iter().for_each(|path| writer.put("writable", path));
        self.before.hidden.iter().for_each(|path| writer.put("hidden", path));
        self.before.repositories.iter().for_each(|path| writer.put("repository", path));
        for (path, kept) in &self.before.kept {
            writer.put("kept", path);
            for (one, other) in [kept.file, kept.made, kept.folder] {
                writer.number("of", one);
                writer.number("of", other);
            }
            writer.number("of", u64::from(kept.is_link));
            writer.number("of", u64::from(kept.is_of_repository));
        }
        writer.framed()
    }

    /// Parses an entry. The length prefix shows if it is complete.
    fn read(bytes: &[u8]) -> io::Result<Unfinished> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let (head, body) = bytes.split_first_chunk().ok_or_else(invalid)?;
        if wire_format::length(*head)? != body.len() {
            return Err(invalid());
        }
        let (mut before, mut launcher, mut latest) = (Before::default(), 0, SystemTime::UNIX_EPOCH);
        let mut pairs = wire_format::pairs(body)?.into_iter();
        while let Some((name, value)) = pairs.next() {
            match name.as_str() {
                "launcher" => {
                    launcher = u32::try_from(wire_format::number(&value)?).map_err(|_| invalid())?
                }
                "latest" => latest += Duration::from_secs(wire_format::number(&value)?),
                "writable" => before.writable.push(value.into()),
                "hidden" => {
                    before.hidden.insert(value.into());
                }
                "repository" => {
                    before.repositories.insert(value.into());
                }
                "kept" => {
                    let mut fact = || wire_format::number(&pairs.next().ok_or_else(invalid)?.1);
                    let kept = Kept {
                        file: (fact()?, fact()?),
                        made: (fact()?, fact()?),
                        folder: (fact()?, fact()?),
                        is_link: fact()? == 1,
                        is_of_repository: fact()? == 1,
                    };
                    before.kept.insert(value.into(), kept);
                }
                _ => return Err(invalid()),
            }
        }
        Ok(Unfinished { before, launcher, latest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Unfinished {
        let kept = |is_link| Kept {
            file: (1, u64::MAX),
            made: (5, 6),
            folder: (3, 4),
            is_link,
            is_of_repository: !is_link,
        };
        Unfinished {
            before: Before {
                writable: vec!["/w".into(), "/w 2".into()],
                hidden: ["/w/.env".into()].into(),
                repositories: ["/w/bare".into()].into(),
                kept: [("/w/.bashrc".into(), kept(true)), ("/w/.git/config".into(), kept(false))].into(),
            },
            launcher: 7,
            latest: SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 32),
        }
    }

    #[test]
    fn journal_entry_round_trips_until_the_run_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let runs = Runs::at(&folder.path().join("runs"));
        assert!(runs.unfinished().unwrap().is_empty(), "the folder does not exist yet");
        let (one, other) = (runs.note(&run()).unwrap(), runs.note(&run()).unwrap());
        one.over();
        let left = runs.unfinished().unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].1.as_ref(), Some(&run()));
        let whole = std::fs::read(&other.path).unwrap();
        std::fs::write(&other.path, &whole[..whole.len() - 8]).unwrap();
        assert_eq!(runs.unfinished().unwrap()[0].1, None, "a truncated entry is ignored");
    }
}
