//! Component-wise walk along a path that could not be opened, to find the name it aims at.
//!
//! The kernel takes each step from the handle of the previous one. A link that cannot be followed is replaced
//! by its text, so that the result names the target and not the link. Otherwise a link to a forbidden name
//! would give another result once the target exists.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use crate::obstacle::is_exhaustion;
use crate::opened::{Place, Vacancy};
use crate::platform;
use crate::request::Ending;

/// Maximum number of missing names at the end of a path.
const MOST_MISSING: usize = 33;

/// A finished walk.
#[derive(Debug)]
pub(crate) struct Walk {
    /// Last object that could be opened.
    pub(crate) here: OwnedFd,
    /// Path of that object, as walked.
    walked: PathBuf,
    /// Components not taken. The first one is the one that failed.
    ahead: VecDeque<OsString>,
    links: usize,
    /// Reason for the end of the walk.
    pub(crate) halt: Halt,
}

/// Reason why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// Every component could be opened.
    Arrived,
    /// The next name does not exist.
    Absent,
    /// A link was replaced by its text, and that name does not exist.
    DanglingLink,
    LinkLoop,
    MagicLink,
    Failed(Errno),
}

impl Walk {
    /// Walks an absolute path. Fails only if resources are exhausted.
    pub(crate) fn along(path: &Path) -> Result<Self, Errno> {
        let (here, walked) = root()?;
        let mut walk = Walk { here, walked, ahead: steps(path), links: 0, halt: Halt::Arrived };
        while let Some(step) = walk.ahead.pop_front() {
            let Err(errno) = walk.take(&step) else { continue };
            if is_exhaustion(errno) {
                return Err(errno);
            }
            if let Some(halt) = walk.take_link(&step, errno)? {
                walk.ahead.push_front(step);
                walk.halt = halt;
                break;
            }
        }
        Ok(walk)
    }

    fn take(&mut self, step: &OsStr) -> Result<(), Errno> {
        self.here = platform::reach_from(&self.here, step)?;
        self.walked.push(step);
        Ok(())
    }

    /// Replaces a link by the components of its text, or returns the reason why the walk ends.
    fn take_link(&mut self, step: &OsStr, errno: Errno) -> Result<Option<Halt>, Errno> {
        let Ok(target) = rustix::fs::readlinkat(&self.here, step, Vec::new()) else {
            return Ok(Some(match errno {
                Errno::NOENT if self.links > 0 => Halt::DanglingLink,
                Errno::NOENT => Halt::Absent,
                other => Halt::Failed(other),
            }));
        };
        if platform::is_magic(&self.here, errno) {
            return Ok(Some(Halt::MagicLink));
        }
        self.links += 1;
        if self.links > platform::MOST_LINKS {
            return Ok(Some(Halt::LinkLoop));
        }
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            (self.here, self.walked) = root()?;
        }
        for step in steps(&target).into_iter().rev() {
            self.ahead.push_front(step);
        }
        Ok(None)
    }

    /// Returns the path that the walk aims at, up to a `..` that cannot be resolved.
    pub(crate) fn name(&self) -> PathBuf {
        if let Some(spelled) = self.spelling_of_a_process() {
            return spelled;
        }
        let status = platform::status(&self.here);
        let here = status.and_then(|status| platform::name_of(&self.here, &status.facts));
        let mut name = here.unwrap_or_else(|_| self.walked.clone());
        name.extend(self.ahead.iter().take_while(|step| *step != ".."));
        name
    }

    /// Returns the walked text of a path through a magic link. The canonical name of `/proc/self` is a
    /// process id, so the text is clearer.
    fn spelling_of_a_process(&self) -> Option<PathBuf> {
        let spelled: PathBuf = self.walked.iter().chain(self.ahead.iter().map(OsString::as_os_str)).collect();
        let is_plain = spelled.components().all(|part| part != Component::ParentDir);
        let is_there = ["/proc", "/dev"].iter().any(|root| spelled.starts_with(root));
        (self.halt == Halt::MagicLink && is_plain && is_there).then_some(spelled)
    }

    /// Returns the missing name, if it is the last component and its folder was opened.
    pub(crate) fn leaf(&self) -> Option<&OsStr> {
        let only = if self.ahead.len() == 1 { self.ahead.front() } else { None };
        only.map(OsString::as_os_str).filter(|leaf| *leaf != "..")
    }

    pub(crate) fn is_at_leaf(&self) -> bool {
        self.leaf().is_some()
    }

    /// Returns the location where the missing object can be created. A path with `..` after a missing name
    /// has none.
    pub(crate) fn into_vacancy(mut self, ending: Ending) -> Option<Vacancy> {
        if self.ahead.len() > MOST_MISSING || self.ahead.iter().any(|step| step == "..") {
            return None;
        }
        let leaf = self.ahead.pop_front()?;
        let facts = platform::status(&self.here).ok()?.facts;
        let folder_name = platform::name_of(&self.here, &facts).ok()?;
        let place = Place { folder: self.here, folder_name, leaf };
        Some(Vacancy { place, beyond: self.ahead.into(), ending })
    }
}

fn root() -> Result<(OwnedFd, PathBuf), Errno> {
    let path = PathBuf::from("/");
    Ok((platform::reach(&path)?, path))
}

fn steps(path: &Path) -> VecDeque<OsString> {
    let named = |part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(named).collect()
}
