//! A call with its opened paths, and the object that each path reached.
//!
//! Only `open` and `try_open_cached` create these values, so a verdict on them is a verdict on what was
//! really opened. The operations through the handles are in `read`, `list`, `tree`, `replace`,
//! `create_folders` and `remove`.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use rustix::fs::FileType;
use rustix::io::Errno;
use tool::definition::PathAccess;
use tool::git::GitEntry;
use tool::text::SharedText;

use crate::error::AccessError;
use crate::git_directory;
use crate::links::{self, HardLinkNames};
use crate::platform;
use crate::request::{CheckedPathText, PathEnding, PathRequest};
use crate::resolve::has_path;
use crate::unresolved::UnresolvedReason;

/// A call together with the objects that its paths reached.
#[derive(Debug)]
pub struct OpenedCall<T> {
    call: T,
    paths: Vec<OpenedPath>,
}

impl<T> OpenedCall<T> {
    pub(crate) fn new(call: T, paths: Vec<OpenedPath>) -> Self {
        OpenedCall { call, paths }
    }

    /// Returns the call.
    pub fn call(&self) -> &T {
        &self.call
    }

    /// Returns the paths, in the order in which the call names them.
    pub fn paths(&self) -> &[OpenedPath] {
        &self.paths
    }

    #[cfg(test)]
    pub(crate) fn into_paths(self) -> Vec<OpenedPath> {
        self.paths
    }
}

/// One path of a call and the object it reached.
#[derive(Debug)]
pub struct OpenedPath {
    pub(crate) key: SharedText,
    pub(crate) as_typed: PathBuf,
    pub(crate) canonical: PathBuf,
    pub(crate) access: PathAccess,
    pub(crate) object: OpenedObject,
    pub(crate) other_names: HardLinkNames,
    /// Relation of a change to the git directories on the way, if no tool may make it.
    pub(crate) git_entry: Option<GitEntry>,
    /// Whole content, if `try_prefetch` read it.
    pub(crate) prefetched: OnceLock<Vec<u8>>,
}

/// Object that a path reached, with the only handles that may be used for it.
#[derive(Debug)]
pub(crate) enum OpenedObject {
    File {
        handle: OwnedFd,
        facts: ObjectFacts,
        location: Option<EntryLocation>,
    },
    Directory {
        handle: OwnedFd,
        facts: ObjectFacts,
        location: Option<EntryLocation>,
    },
    /// The symbolic link itself. Only removals do not follow a link.
    Link {
        text: OsString,
        facts: ObjectFacts,
        location: EntryLocation,
    },
    Special {
        name: &'static str,
        facts: ObjectFacts,
    },
    Unresolved {
        reason: UnresolvedReason,
        creation_target: Option<CreationTarget>,
    },
}

/// Location at which a missing object can be created.
#[derive(Debug)]
pub(crate) struct CreationTarget {
    /// First missing name, in an existing folder.
    pub(crate) location: EntryLocation,
    /// Names below the first missing one. If there are any, the parent folder of the object is missing too.
    pub(crate) missing_below: Vec<OsString>,
    pub(crate) ending: PathEnding,
}

/// One plain name in an opened folder.
#[derive(Debug)]
pub(crate) struct EntryLocation {
    pub(crate) folder: OwnedFd,
    pub(crate) folder_path: PathBuf,
    pub(crate) leaf: OsString,
}

impl EntryLocation {
    /// Returns the canonical path.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder_path.join(&self.leaf)
    }

    /// Returns the folder as a handle that can be synced, or `None` if the folder may not be read. Its
    /// entries are then only as durable as the file system makes them.
    pub(crate) fn syncable_folder(&self) -> Result<Option<OwnedFd>, Errno> {
        match platform::reopen_directory(&self.folder) {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::ACCESS) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Syncs the folder, so that its entries are durable.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        self.syncable_folder()?.map_or(Ok(()), rustix::fs::fsync)
    }
}

/// Kind of the object that a path reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link that is not followed.
    Link,
    /// A `fifo`, `socket`, `character device`, `block device` or `unknown object`. Never opened for data.
    Special(&'static str),
    /// The object does not exist.
    Missing,
    /// The path could not be resolved; see `OpenedPath::unresolved_reason`.
    Unreachable,
}

/// Metadata of an object at the time it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFacts {
    /// Size in bytes. A sparse file counts in full.
    pub size: u64,
    /// Size on disk in bytes, without the holes of a sparse file.
    pub allocated: u64,
    /// Number of hard links. More than one means that another name leads to the same content.
    pub links: u64,
    /// Permission bits, with setuid, setgid and sticky.
    pub mode: u32,
    /// Time of the last change to content, permissions or names (`ctime`). No user can set it.
    pub changed: SystemTime,
    /// Time of the last change to the content.
    pub modified: SystemTime,
    /// Identity of the object.
    pub identity: ObjectIdentity,
}

/// Device and inode, which identify an object on this machine while it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectIdentity {
    /// Device number of the volume.
    pub device: u64,
    /// Inode number on the volume.
    pub inode: u64,
}

impl OpenedPath {
    /// Combines a request with the object it reached. The other names of a file with several hard links are
    /// unknown until they are searched for.
    pub(crate) fn new(
        request: PathRequest,
        spelling: CheckedPathText,
        canonical: PathBuf,
        object: OpenedObject,
    ) -> Self {
        let other_names = if links::needs_search(&object) {
            HardLinkNames::Unknown
        } else {
            HardLinkNames::Known(Vec::new())
        };
        let git_entry = match request.access {
            PathAccess::Read => None,
            PathAccess::Write => git_directory::entry_at(&canonical),
            PathAccess::Remove => {
                git_directory::entry_at(&canonical).filter(|entry| *entry == GitEntry::Existing)
            }
        };
        OpenedPath {
            key: request.key,
            as_typed: spelling.normalized,
            canonical,
            access: request.access,
            object,
            other_names,
            git_entry,
            prefetched: OnceLock::new(),
        }
    }

    /// Returns the same path with another object, which has appeared since it was opened.
    pub(crate) fn with_object(&self, object: OpenedObject) -> Self {
        OpenedPath {
            key: self.key.clone(),
            as_typed: self.as_typed.clone(),
            canonical: self.canonical.clone(),
            access: self.access,
            object,
            other_names: HardLinkNames::Known(Vec::new()),
            git_entry: self.git_entry,
            prefetched: OnceLock::new(),
        }
    }

    /// Returns the argument that named the path.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the absolute path as the caller wrote it, including `..` and links.
    pub fn as_typed(&self) -> &Path {
        &self.as_typed
    }

    /// Returns the canonical path of the object, or of the location where it would be.
    pub fn canonical(&self) -> &Path {
        &self.canonical
    }

    /// Returns the access that the tool declared.
    pub fn access(&self) -> PathAccess {
        self.access
    }

    /// Returns the kind of the object.
    pub fn kind(&self) -> ObjectKind {
        match &self.object {
            OpenedObject::File { .. } => ObjectKind::File,
            OpenedObject::Directory { .. } => ObjectKind::Directory,
            OpenedObject::Link { .. } => ObjectKind::Link,
            OpenedObject::Special { name, .. } => ObjectKind::Special(name),
            OpenedObject::Unresolved {
                reason: UnresolvedReason::Absent | UnresolvedReason::ParentMissing,
                ..
            } => ObjectKind::Missing,
            OpenedObject::Unresolved { .. } => ObjectKind::Unreachable,
        }
    }

    /// Returns the metadata of the object.
    pub fn metadata(&self) -> Option<&ObjectFacts> {
        match &self.object {
            OpenedObject::File { facts, .. }
            | OpenedObject::Directory { facts, .. }
            | OpenedObject::Link { facts, .. }
            | OpenedObject::Special { facts, .. } => Some(facts),
            OpenedObject::Unresolved { .. } => None,
        }
    }

    /// Returns what is known about the other hard links of the file.
    pub fn other_names(&self) -> &HardLinkNames {
        &self.other_names
    }

    /// Returns the relation of a change to the git directories above the path, if no tool may make the change.
    pub fn git_entry(&self) -> Option<GitEntry> {
        self.git_entry
    }

    /// Returns the reason why the path did not resolve to an object.
    pub fn unresolved_reason(&self) -> Option<UnresolvedReason> {
        match &self.object {
            OpenedObject::Unresolved { reason: obstacle, .. } => Some(*obstacle),
            OpenedObject::File { .. }
            | OpenedObject::Directory { .. }
            | OpenedObject::Link { .. }
            | OpenedObject::Special { .. } => None,
        }
    }

    /// Returns the missing folders of the path that could be created, the outermost first.
    pub fn missing_folders(&self) -> Vec<PathBuf> {
        let OpenedObject::Unresolved { creation_target: Some(target), .. } = &self.object else {
            return Vec::new();
        };
        let mut name = target.location.path();
        let missing_steps = target.missing_below.iter().map(|step| {
            let inner = name.join(step);
            std::mem::replace(&mut name, inner)
        });
        missing_steps.collect()
    }

    /// Opens the judged file or directory for reading, without a path lookup. Fails if the result is another
    /// object, which can happen only where the platform has no handle that can be reopened.
    pub(crate) fn reopen(&self, wanted: ObjectKind) -> Result<OwnedFd, AccessError> {
        let (reopened, facts, doing) = match (&self.object, wanted) {
            (OpenedObject::File { handle, facts, .. }, ObjectKind::File) => {
                (platform::reopen_for_reading(handle), facts, "opening")
            }
            (OpenedObject::Directory { handle, facts, .. }, ObjectKind::Directory) => {
                (platform::reopen_directory(handle), facts, "listing")
            }
            (_, ObjectKind::File) => return Err(self.wrong_kind_error("file")),
            _ => return Err(self.wrong_kind_error("directory")),
        };
        let failed = |errno| AccessError::io(doing, &self.canonical, errno);
        let reopened = reopened.map_err(failed)?;
        match platform::status(&reopened).map_err(failed)?.facts.identity == facts.identity {
            true => Ok(reopened),
            false => Err(self.conflict_error("another object is there now")),
        }
    }

    /// Checks that the folder of a location still has the path that was judged.
    pub(crate) fn still_there<'a>(
        &self,
        location: &'a EntryLocation,
    ) -> Result<&'a EntryLocation, AccessError> {
        match has_path(&location.folder, &location.folder_path) {
            true => Ok(location),
            false => Err(self.conflict_error("its folder was moved")),
        }
    }

    pub(crate) fn conflict_error(&self, found: &str) -> AccessError {
        AccessError::Conflict { path: self.canonical.clone(), found: found.to_owned() }
    }

    /// Returns the error of an operation that needs another kind of object.
    pub(crate) fn wrong_kind_error(&self, wanted: &'static str) -> AccessError {
        let path = self.canonical.clone();
        let found = match &self.object {
            OpenedObject::Unresolved { reason: obstacle, .. } => {
                return AccessError::Unresolved { path, reason: *obstacle };
            }
            OpenedObject::File { .. } => "file",
            OpenedObject::Directory { .. } => "directory",
            OpenedObject::Link { .. } => "symbolic link",
            OpenedObject::Special { name, .. } => name,
        };
        AccessError::WrongKind { path, found, expected: wanted }
    }
}

/// Returns the name of an object kind other than file, directory and symbolic link.
pub(crate) fn special_kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character device",
        FileType::BlockDevice => "block device",
        _ => "unknown object",
    }
}
