//! What opening a call's paths gives: the call itself, and for each path the object that was reached.
//!
//! Only [`open`](crate::open) makes these, so a verdict on them is a verdict on what was really opened. The
//! operations through the handles are in `read`, `list`, `tree`, `replace`, `make` and `remove`.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::SystemTime;

use rustix::fs::FileType;
use rustix::io::Errno;
use tool::{PathAccess, SharedText};

use crate::error::AccessError;
use crate::links::{self, OtherNames};
use crate::obstacle::Obstacle;
use crate::platform;
use crate::request::{Ending, PathRequest, Spelling};

/// A call together with everything it named, opened.
#[derive(Debug)]
pub struct Opened<T> {
    call: T,
    paths: Vec<OpenedPath>,
}

impl<T> Opened<T> {
    pub(crate) fn new(call: T, paths: Vec<OpenedPath>) -> Self {
        Opened { call, paths }
    }

    /// The call whose paths these are.
    pub fn call(&self) -> &T {
        &self.call
    }

    /// The paths, in the order the call named them.
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
    pub(crate) typed: PathBuf,
    pub(crate) canonical: PathBuf,
    pub(crate) access: PathAccess,
    pub(crate) object: Object,
    pub(crate) other_names: OtherNames,
    /// The whole content, where it was small and in memory when it was about to be read.
    pub(crate) in_hand: OnceLock<Vec<u8>>,
}

/// What was reached, with the handles that may be used for it and no others.
#[derive(Debug)]
pub(crate) enum Object {
    File {
        handle: OwnedFd,
        facts: ObjectFacts,
        place: Option<Place>,
    },
    Directory {
        handle: OwnedFd,
        facts: ObjectFacts,
        place: Option<Place>,
    },
    /// The link itself: only who removes a name does not follow it.
    Link {
        text: OsString,
        facts: ObjectFacts,
        place: Place,
    },
    Special {
        name: &'static str,
        facts: ObjectFacts,
    },
    NotThere {
        obstacle: Obstacle,
        vacancy: Option<Vacancy>,
    },
}

/// Where something that is not there can come into being.
#[derive(Debug)]
pub(crate) struct Vacancy {
    /// The first name that is not there, in a folder that is.
    pub(crate) place: Place,
    /// The names below that one: where there are any, its folder is not there either.
    pub(crate) beyond: Vec<OsString>,
    pub(crate) ending: Ending,
}

/// Where a write lands: one plain name in an opened folder.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) folder: OwnedFd,
    pub(crate) folder_name: PathBuf,
    pub(crate) leaf: OsString,
}

impl Place {
    /// The canonical name it stands for.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder_name.join(&self.leaf)
    }

    /// The folder as it can be synced. One that may not be listed cannot be; its names are then as safe as the file
    /// system makes them.
    pub(crate) fn folder_to_sync(&self) -> Result<Option<OwnedFd>, Errno> {
        match platform::reopen_directory(&self.folder) {
            Ok(folder) => Ok(Some(folder)),
            Err(Errno::ACCESS) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Makes the names in the folder last.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        self.folder_to_sync()?.map_or(Ok(()), rustix::fs::fsync)
    }
}

/// What kind of object a path reached.
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
    /// Nothing is there.
    Missing,
    /// Something stands in the way; see [`OpenedPath::obstacle`].
    Unreachable,
}

/// What the operating system says of an object. Taken when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFacts {
    /// In bytes. A sparse file counts in full.
    pub size: u64,
    /// What it takes on the disk, in bytes: of a sparse file, what is there.
    pub allocated: u64,
    /// How many names the object has; more than one means that another name leads to the same content.
    pub links: u64,
    /// Permission bits, with setuid, setgid and sticky.
    pub mode: u32,
    /// When anything of it last changed, its permissions and names included. Nobody can set it.
    pub changed: SystemTime,
    /// When the content last changed.
    pub modified: SystemTime,
    /// Which object it is.
    pub identity: Identity,
}

/// Tells one object from every other on the machine while it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The volume.
    pub device: u64,
    /// The object on it.
    pub inode: u64,
}

impl OpenedPath {
    /// What a request reached. A file with several names may have others anywhere until they were looked for.
    pub(crate) fn new(request: PathRequest, spelling: Spelling, canonical: PathBuf, object: Object) -> Self {
        let other_names =
            if links::is_due(&object) { OtherNames::Unknown } else { OtherNames::Known(Vec::new()) };
        let (key, access, in_hand) = (request.key, request.access, OnceLock::new());
        OpenedPath { key, typed: spelling.typed, canonical, access, object, other_names, in_hand }
    }

    /// The same path, which has reached this by now.
    pub(crate) fn with_object(&self, object: Object) -> Self {
        let (key, access, other_names) = (self.key.clone(), self.access, OtherNames::Known(Vec::new()));
        let (typed, canonical, in_hand) = (self.typed.clone(), self.canonical.clone(), OnceLock::new());
        OpenedPath { key, typed, canonical, access, object, other_names, in_hand }
    }

    /// The argument it came from.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The absolute path as it was typed, `..` and links included.
    pub fn typed(&self) -> &Path {
        &self.typed
    }

    /// The name of what was reached; for what is not there, of where it would be.
    pub fn canonical(&self) -> &Path {
        &self.canonical
    }

    /// What the tool said it would do.
    pub fn access(&self) -> PathAccess {
        self.access
    }

    /// What was reached.
    pub fn kind(&self) -> ObjectKind {
        match &self.object {
            Object::File { .. } => ObjectKind::File,
            Object::Directory { .. } => ObjectKind::Directory,
            Object::Link { .. } => ObjectKind::Link,
            Object::Special { name, .. } => ObjectKind::Special(name),
            Object::NotThere { obstacle: Obstacle::Absent | Obstacle::NoFolder, .. } => ObjectKind::Missing,
            Object::NotThere { .. } => ObjectKind::Unreachable,
        }
    }

    /// The facts of what was reached.
    pub fn metadata(&self) -> Option<&ObjectFacts> {
        match &self.object {
            Object::File { facts, .. }
            | Object::Directory { facts, .. }
            | Object::Link { facts, .. }
            | Object::Special { facts, .. } => Some(facts),
            Object::NotThere { .. } => None,
        }
    }

    /// What is known of the other names of a file that has several.
    pub fn other_names(&self) -> &OtherNames {
        &self.other_names
    }

    /// Why nothing was reached.
    pub fn obstacle(&self) -> Option<Obstacle> {
        match &self.object {
            Object::NotThere { obstacle, .. } => Some(*obstacle),
            Object::File { .. } | Object::Directory { .. } | Object::Link { .. } | Object::Special { .. } => {
                None
            }
        }
    }

    /// The folders on the way that are not there and could be made, the outermost first.
    pub fn missing_folders(&self) -> Vec<PathBuf> {
        let Object::NotThere { vacancy: Some(vacancy), .. } = &self.object else { return Vec::new() };
        let mut name = vacancy.place.path();
        let below = vacancy.beyond.iter().map(|step| {
            let inner = name.join(step);
            std::mem::replace(&mut name, inner)
        });
        below.collect()
    }

    /// The error of an operation that needs something else than what was reached.
    pub(crate) fn unsuitable(&self, wanted: &'static str) -> AccessError {
        let path = self.canonical.clone();
        let found = match &self.object {
            Object::NotThere { obstacle, .. } => return AccessError::NotThere { path, obstacle: *obstacle },
            Object::File { .. } => "file",
            Object::Directory { .. } => "directory",
            Object::Link { .. } => "symbolic link",
            Object::Special { name, .. } => name,
        };
        AccessError::WrongKind { path, found, wanted }
    }
}

/// The word for an object that is neither a file nor a directory nor a link.
pub(crate) fn special_name(kind: FileType) -> &'static str {
    match kind {
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character device",
        FileType::BlockDevice => "block device",
        _ => "unknown object",
    }
}
