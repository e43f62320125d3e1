//! Resolution of a path request to an object.
//!
//! The kernel resolves the whole path once, and the handle gives the canonical name. If the path does not
//! resolve, `path_walk` computes the name it aims at, so that a forbidden name is refused in the same way
//! whether or not the object exists.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;
use tool::PathAccess;

use crate::at_hand;
use crate::error::OpenError;
use crate::links;
use crate::obstacle::{Obstacle, is_exhaustion};
use crate::opened::{Identity, Object, ObjectFacts, Opened, OpenedPath, Place, special_name};
use crate::platform;
use crate::request::{Ending, NamesPaths, PathRequest, Spelling};
use crate::walk::{Halt, Walk};

/// Opens every path that a call names. Blocks; run it on the blocking pool.
///
/// A missing or unreachable object is not an error but a kind of object: governance judges its name, and the
/// tool reports it to a caller who may know. Only invalid path texts and exhausted resources are errors.
pub fn open<T: NamesPaths>(call: T) -> Result<Opened<T>, OpenError> {
    let requests = call.path_requests();
    if let Some(excess) = requests.get(MOST_PATHS) {
        let (key, count) = (excess.key.to_string(), requests.len());
        return Err(OpenError::TooMany { key, count, limit: MOST_PATHS });
    }
    let mut paths: Vec<OpenedPath> = requests.into_iter().map(resolve).collect::<Result<_, _>>()?;
    if paths.iter().any(|path| links::is_due(&path.object))
        && let Some(search) = call.link_search()
    {
        paths.iter_mut().for_each(|path| links::look(path, &search));
    }
    at_hand::learn(&paths);
    Ok(Opened::new(call, paths))
}

/// Returns the canonical path of a directory. Used for workspace roots.
pub fn canonical_directory(path: &Path) -> io::Result<PathBuf> {
    let handle = platform::reach(path)?;
    let status = platform::status(&handle)?;
    if status.kind != FileType::Directory {
        return Err(Errno::NOTDIR.into());
    }
    Ok(platform::name_of(&handle, &status.facts)?)
}

/// Maximum number of paths of one call. Each holds up to two descriptors, and all calls share the descriptor
/// limit.
pub(crate) const MOST_PATHS: usize = 128;

/// Maximum number of attempts to open a path that is replaced while it is opened. A file that is replaced
/// more often is under attack or unusable.
const MOST_ATTEMPTS: usize = 8;

fn resolve(request: PathRequest) -> Result<OpenedPath, OpenError> {
    let spelling = Spelling::check(&request)?;
    let attempt =
        || attempt(&spelling, request.access).map_err(|errno| OpenError::exhausted(&request.key, errno));
    let (mut canonical, mut object) = attempt()?;
    for _ in 1..MOST_ATTEMPTS {
        if !matches!(object, Object::NotThere { obstacle: Obstacle::Changed, .. }) {
            break;
        }
        (canonical, object) = attempt()?;
    }
    Ok(OpenedPath::new(request, spelling, canonical, object))
}

/// Fails only if resources are exhausted.
fn attempt(spelling: &Spelling, access: PathAccess) -> Result<(PathBuf, Object), Errno> {
    if access == PathAccess::Remove
        && let Some(link) = link(spelling)?
    {
        return Ok(link);
    }
    let reach = || platform::reach(&spelling.raw);
    let found = reach().and_then(|handle| {
        let status = platform::status(&handle)?;
        reached((handle, status), (&spelling.raw, access), reach)
    });
    found.or_else(|errno| unreached(spelling, errno, access))
}

/// Returns the symbolic link at the end of a path that is to be removed, since a removal does not follow it.
/// A path that ends in a slash names the target of the link and is resolved like any other path.
fn link(spelling: &Spelling) -> Result<Option<(PathBuf, Object)>, Errno> {
    let names = spelling.raw.parent().zip(spelling.raw.file_name());
    let Some((folder, leaf)) = names.filter(|_| spelling.ending != Ending::Directory) else {
        return Ok(None);
    };
    match link_in(folder, leaf) {
        Ok(link) => Ok(link),
        // The normal resolution meets and reports these errors as well. Any other error may be temporary, and
        // ignoring it would resolve the target of the link instead of the link.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP | Errno::NAMETOOLONG) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn link_in(folder: &Path, leaf: &OsStr) -> Result<Option<(PathBuf, Object)>, Errno> {
    let folder = platform::reach(folder)?;
    let status = platform::status_at(&folder, leaf)?;
    if status.kind != FileType::Symlink {
        return Ok(None);
    }
    let text = rustix::fs::readlinkat(&folder, leaf, Vec::new())?;
    let text = OsString::from_vec(text.into_bytes());
    let folder_name = platform::name_of(&folder, &platform::status(&folder)?.facts)?;
    let name = folder_name.join(leaf);
    let place = Place { folder, folder_name, leaf: leaf.to_owned() };
    Ok(Some((name, Object::Link { text, facts: status.facts, place })))
}

/// Returns the object that a handle refers to. `reach` opens the same path once more.
pub(crate) fn reached(
    (handle, status): (OwnedFd, platform::Status),
    (path, access): (&Path, PathAccess),
    reach: impl Fn() -> Result<OwnedFd, Errno>,
) -> Result<(PathBuf, Object), Errno> {
    let platform::Status { kind, facts } = status;
    let name = platform::name_of(&handle, &facts)?;
    // A file that is being replaced may already have another name, or none. If the name of the handle is the
    // requested path, the path still leads to this object and no second lookup is needed.
    let is_as_asked = name.as_os_str() == path.as_os_str();
    if !is_as_asked && platform::status(reach()?)?.facts.identity != facts.identity {
        return Ok((name, Object::NotThere { obstacle: Obstacle::Changed, vacancy: None }));
    }
    let object = match (kind, access) {
        (FileType::RegularFile, PathAccess::Read) => Object::File { handle, facts, place: None },
        (FileType::RegularFile, PathAccess::Write | PathAccess::Remove) => {
            match place_of(&name, facts.identity)? {
                Some(place) => Object::File { handle, facts, place: Some(place) },
                None => Object::NotThere { obstacle: Obstacle::Changed, vacancy: None },
            }
        }
        (FileType::Directory, PathAccess::Remove) => {
            let place = place_of(&name, facts.identity)?;
            Object::Directory { handle, facts, place }
        }
        (FileType::Directory, PathAccess::Read | PathAccess::Write) => {
            Object::Directory { handle, facts, place: None }
        }
        (kind, _) => Object::Special { name: special_name(kind), facts },
    };
    Ok((name, object))
}

/// Returns the folder and name under which an opened file can be replaced, or `None` if they no longer lead
/// to it.
fn place_of(name: &Path, identity: Identity) -> Result<Option<Place>, Errno> {
    let (Some(folder_name), Some(leaf)) = (name.parent(), name.file_name()) else { return Ok(None) };
    let folder = match platform::reach_without_links(folder_name) {
        Ok(folder) => folder,
        Err(errno) if is_exhaustion(errno) => return Err(errno),
        Err(_) => return Ok(None),
    };
    let is_same = platform::status_at(&folder, leaf).is_ok_and(|status| status.facts.identity == identity);
    let place = Place { folder, folder_name: folder_name.to_owned(), leaf: leaf.to_owned() };
    Ok(is_same.then_some(place))
}

/// Returns true if a handle still has the path that was judged.
pub(crate) fn is_named(handle: &OwnedFd, name: &Path) -> bool {
    let current = platform::status(handle).and_then(|status| platform::name_of(handle, &status.facts));
    current.is_ok_and(|current| current == name)
}

fn unreached(spelling: &Spelling, errno: Errno, access: PathAccess) -> Result<(PathBuf, Object), Errno> {
    if is_exhaustion(errno) {
        return Err(errno);
    }
    let walk = Walk::along(&spelling.raw)?;
    let name = walk.name();
    if let Some((kind, facts)) = special_that_cannot_be_opened(&walk) {
        return Ok((name, Object::Special { name: special_name(kind), facts }));
    }
    let obstacle = match walk.halt {
        Halt::Absent if walk.is_at_leaf() => Obstacle::Absent,
        Halt::Absent => Obstacle::NoFolder,
        Halt::DanglingLink => Obstacle::DanglingLink,
        Halt::LinkLoop => Obstacle::LinkLoop,
        Halt::MagicLink => Obstacle::MagicLink,
        Halt::Failed(errno) => Obstacle::from_errno(errno),
        // Each component could be opened, but not the whole path: the path was replaced meanwhile, unless the
        // whole path failed with another error than `ENOENT`.
        Halt::Arrived if errno == Errno::NOENT => Obstacle::Changed,
        Halt::Arrived => Obstacle::from_errno(errno),
    };
    let creatable = matches!(obstacle, Obstacle::Absent | Obstacle::NoFolder) && access == PathAccess::Write;
    let vacancy = if creatable { walk.into_vacancy(spelling.ending) } else { None };
    Ok((name, Object::NotThere { obstacle, vacancy }))
}

/// Returns a special file that the platform cannot open. macOS has no handle that only refers to an object,
/// so special files are never opened there.
fn special_that_cannot_be_opened(walk: &Walk) -> Option<(FileType, ObjectFacts)> {
    let leaf = matches!(walk.halt, Halt::Failed(Errno::OPNOTSUPP)).then(|| walk.leaf())??;
    let status = platform::status_at(&walk.here, leaf).ok()?;
    let special = !matches!(status.kind, FileType::RegularFile | FileType::Directory | FileType::Symlink);
    special.then_some((status.kind, status.facts))
}

#[cfg(test)]
mod tests;
