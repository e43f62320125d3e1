//! Runs that are not over, each noted in a file of the daemon's own before it begins. What a daemon that was killed could
//! not see to is seen to by the next one. Nothing is synced: a machine that lost its power lost the run as well.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::aftermath::Before;
use crate::inventory::Kept;
use crate::line::{self, Writer};

/// Where they are noted.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    folder: PathBuf,
}

/// A run that is noted. Dropped as it is, the note stays.
#[derive(Debug)]
pub(crate) struct Noted {
    path: PathBuf,
}

impl Noted {
    /// Its run is over and seen to.
    pub(crate) fn over(self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "the note of a run could not be removed");
        }
    }
}

/// A run that another daemon began.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unfinished {
    pub(crate) before: Before,
    /// The process that watched it.
    pub(crate) launcher: u32,
    /// By when it was to be over.
    pub(crate) latest: SystemTime,
}

impl Runs {
    /// In this folder, which is made when the first of them is. Others' files do not belong there.
    pub(crate) fn at(folder: &Path) -> Runs {
        Runs { folder: folder.to_owned() }
    }

    /// Notes a run.
    pub(crate) fn note(&self, run: &Unfinished) -> io::Result<Noted> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        std::fs::DirBuilder::new().mode(0o700).recursive(true).create(&self.folder)?;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = self.folder.join(format!("{}-{number}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                // Of a process that had the same number, and could not be seen to.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                file => {
                    file?.write_all(&run.framed())?;
                    return Ok(Noted { path });
                }
            }
        }
    }

    /// Every run that is noted. A note that was not written to its end is of a run that never began.
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

    /// Reads what `framed` wrote. The length before it tells whether it is all there.
    fn read(bytes: &[u8]) -> io::Result<Unfinished> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let (head, body) = bytes.split_first_chunk().ok_or_else(invalid)?;
        if line::length(*head)? != body.len() {
            return Err(invalid());
        }
        let (mut before, mut launcher, mut latest) = (Before::default(), 0, SystemTime::UNIX_EPOCH);
        let mut pairs = line::pairs(body)?.into_iter();
        while let Some((name, value)) = pairs.next() {
            match name.as_str() {
                "launcher" => launcher = u32::try_from(line::number(&value)?).map_err(|_| invalid())?,
                "latest" => latest += Duration::from_secs(line::number(&value)?),
                "writable" => before.writable.push(value.into()),
                "hidden" => {
                    before.hidden.insert(value.into());
                }
                "repository" => {
                    before.repositories.insert(value.into());
                }
                "kept" => {
                    let mut fact = || line::number(&pairs.next().ok_or_else(invalid)?.1);
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
    fn a_note_is_read_as_it_was_written_until_its_run_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let runs = Runs::at(&folder.path().join("runs"));
        assert!(runs.unfinished().unwrap().is_empty(), "there is no folder yet");
        let (one, other) = (runs.note(&run()).unwrap(), runs.note(&run()).unwrap());
        one.over();
        let left = runs.unfinished().unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].1.as_ref(), Some(&run()));
        let whole = std::fs::read(&other.path).unwrap();
        std::fs::write(&other.path, &whole[..whole.len() - 8]).unwrap();
        assert_eq!(runs.unfinished().unwrap()[0].1, None, "what is cut off is no note");
    }
}
