//! Component-wise resolution of a path that could not be opened, to find the path it refers to.
//!
//! The kernel takes each step from the handle of the previous one. A symbolic link that cannot be
//! followed is replaced by its target, so that the result names the target and not the link. Otherwise a link to a forbidden name
//! would give another result once the target exists.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use crate::opened::{CreationTarget, EntryLocation};
use crate::platform;
use crate::request::PathEnding;
use crate::unresolved::is_resource_exhaustion;

/// Maximum number of missing names at the end of a path.
const MAX_MISSING_NAMES: usize = 33;

/// A finished walk.
#[derive(Debug)]
pub(crate) struct PathWalk {
    /// Last object that could be opened.
    pub(crate) current: OwnedFd,
    /// Path of that object, as walked.
    walked_path: PathBuf,
    /// Components that were not opened, starting with the one that failed.
    remaining: VecDeque<OsString>,
    links: usize,
    /// Reason for the end of the walk.
    pub(crate) stop: WalkStop,
}

/// Reason why a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkStop {
    /// Every component could be opened.
    Completed,
    /// The next name does not exist.
    Absent,
    /// A link was replaced by its text, and that name does not exist.
    DanglingLink,
    LinkLoop,
    MagicLink,
    Failed(Errno),
}

impl PathWalk {
    /// Walks an absolute path. Fails only if resources are exhausted.
    pub(crate) fn follow(path: &Path) -> Result<Self, Errno> {
        let (current, walked) = root()?;
        let mut walk = PathWalk {
            current,
            walked_path: walked,
            remaining: components(path),
            links: 0,
            stop: WalkStop::Completed,
        };
        while let Some(step) = walk.remaining.pop_front() {
            let Err(errno) = walk.enter(&step) else { continue };
            if is_resource_exhaustion(errno) {
                return Err(errno);
            }
            if let Some(halt) = walk.expand_link(&step, errno)? {
                walk.remaining.push_front(step);
                walk.stop = halt;
                break;
            }
        }
        Ok(walk)
    }

    fn enter(&mut self, step: &OsStr) -> Result<(), Errno> {
        self.current = platform::open_handle_at(&self.current, step)?;
        self.walked_path.push(step);
        Ok(())
    }

    /// Replaces a link by the components of its text, or returns the reason why the walk ends.
    fn expand_link(&mut self, step: &OsStr, errno: Errno) -> Result<Option<WalkStop>, Errno> {
        let Ok(target) = rustix::fs::readlinkat(&self.current, step, Vec::new()) else {
            return Ok(Some(match errno {
                Errno::NOENT if self.links > 0 => WalkStop::DanglingLink,
                Errno::NOENT => WalkStop::Absent,
                other => WalkStop::Failed(other),
            }));
        };
        if platform::is_magic_link(&self.current, errno) {
            return Ok(Some(WalkStop::MagicLink));
        }
        self.links += 1;
        if self.links > platform::MAX_SYMLINKS {
            return Ok(Some(WalkStop::LinkLoop));
        }
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            (self.current, self.walked_path) = root()?;
        }
        for step in components(&target).into_iter().rev() {
            self.remaining.push_front(step);
        }
        Ok(None)
    }

    /// Returns the path that the walk resolves to, up to a `..` that cannot be resolved.
    pub(crate) fn name(&self) -> PathBuf {
        if let Some(spelled) = self.magic_link_path() {
            return spelled;
        }
        let status = platform::status(&self.current);
        let here = status.and_then(|status| platform::path_of(&self.current, &status.facts));
        let mut name = here.unwrap_or_else(|_| self.walked_path.clone());
        name.extend(self.remaining.iter().take_while(|step| *step != ".."));
        name
    }

    /// Returns the walked text of a path through a magic link. The canonical name of `/proc/self` is a
    /// process id, so the text is clearer.
    fn magic_link_path(&self) -> Option<PathBuf> {
        let spelled: PathBuf =
            self.walked_path.iter().chain(self.remaining.iter().map(OsString::as_os_str)).collect();
        let is_plain = spelled.components().all(|part| part != Component::ParentDir);
        let is_there = ["/proc", "/dev"].iter().any(|root| spelled.starts_with(root));
        (self.stop == WalkStop::MagicLink && is_plain && is_there).then_some(spelled)
    }

    /// Returns the missing name, if it is the last component and its folder was opened.
    pub(crate) fn leaf(&self) -> Option<&OsStr> {
        let only = if self.remaining.len() == 1 { self.remaining.front() } else { None };
        only.map(OsString::as_os_str).filter(|leaf| *leaf != "..")
    }

    pub(crate) fn is_at_leaf(&self) -> bool {
        self.leaf().is_some()
    }

    /// Returns the location where the missing object can be created. A path with `..` after a missing name
    /// has none.
    pub(crate) fn into_creation_target(mut self, ending: PathEnding) -> Option<CreationTarget> {
        if self.remaining.len() > MAX_MISSING_NAMES || self.remaining.iter().any(|step| step == "..") {
            return None;
        }
        let leaf = self.remaining.pop_front()?;
        let facts = platform::status(&self.current).ok()?.facts;
        let folder_name = platform::path_of(&self.current, &facts).ok()?;
        let location = EntryLocation { folder: self.current, folder_path: folder_name, leaf };
        Some(CreationTarget { location, missing_below: self.remaining.into(), ending })
    }
}

fn root() -> Result<(OwnedFd, PathBuf), Errno> {
    let path = PathBuf::from("/");
    Ok((platform::open_handle(&path)?, path))
}

fn components(path: &Path) -> VecDeque<OsString> {
    let named = |part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(named).collect()
}
