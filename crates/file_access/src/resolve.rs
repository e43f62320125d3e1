//! Resolution of a path request to an object.
//!
//! The kernel resolves the whole path once, and the handle gives the canonical name. If the path does not
//! resolve, `path_walk` computes the path it refers to, so that a forbidden name is refused in the same way
//! whether or not the object exists.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use rustix::io::Errno;
use tool::definition::PathAccess;

use crate::cached_open;
use crate::error::OpenError;
use crate::links;
use crate::opened::{
    EntryLocation, ObjectFacts, ObjectIdentity, OpenedCall, OpenedObject, OpenedPath, special_kind_name,
};
use crate::path_walk::{PathWalk, WalkStop};
use crate::platform;
use crate::request::{CheckedPathText, PathEnding, PathRequest, PathSource};
use crate::unresolved::{UnresolvedReason, is_resource_exhaustion};

/// Opens every path that a call names. Blocks; run it on the blocking pool.
///
/// A missing or unreachable object is not an error but a kind of object: governance judges its name, and the
/// tool reports it to a caller who may know. Only invalid path texts and exhausted resources are errors.
pub fn open<T: PathSource>(call: T) -> Result<OpenedCall<T>, OpenError> {
    let requests = call.path_requests();
    if let Some(excess) = requests.get(MAX_PATHS) {
        let (key, count) = (excess.key.to_string(), requests.len());
        return Err(OpenError::TooManyPaths { key, count, limit: MAX_PATHS });
    }
    let mut paths: Vec<OpenedPath> = requests.into_iter().map(resolve).collect::<Result<_, _>>()?;
    if paths.iter().any(|path| links::needs_search(&path.object))
        && let Some(search) = call.link_search()
    {
        paths.iter_mut().for_each(|path| links::find_other_names(path, &search));
    }
    cached_open::remember_local_volumes(&paths);
    Ok(OpenedCall::new(call, paths))
}

/// Returns the canonical path of a directory. Used for workspace roots.
pub fn canonical_directory(path: &Path) -> io::Result<PathBuf> {
    let handle = platform::open_handle(path)?;
    let status = platform::status(&handle)?;
    if status.kind != FileType::Directory {
        return Err(Errno::NOTDIR.into());
    }
    Ok(platform::path_of(&handle, &status.facts)?)
}

/// Maximum number of paths of one call. Each holds up to two descriptors, and all calls share the descriptor
/// limit.
pub(crate) const MAX_PATHS: usize = 128;

/// Maximum number of attempts to open a path that is replaced while it is opened. A file that is replaced
/// more often is under attack or unusable.
const MAX_ATTEMPTS: usize = 8;

fn resolve(request: PathRequest) -> Result<OpenedPath, OpenError> {
    let spelling = CheckedPathText::check(&request)?;
    let attempt =
        || resolve_once(&spelling, request.access).map_err(|errno| OpenError::exhausted(&request.key, errno));
    let (mut canonical, mut object) = attempt()?;
    for _ in 1..MAX_ATTEMPTS {
        if !matches!(object, OpenedObject::Unresolved { reason: UnresolvedReason::Changed, .. }) {
            break;
        }
        (canonical, object) = attempt()?;
    }
    Ok(OpenedPath::new(request, spelling, canonical, object))
}

/// Fails only if resources are exhausted.
fn resolve_once(spelling: &CheckedPathText, access: PathAccess) -> Result<(PathBuf, OpenedObject), Errno> {
    if access == PathAccess::Remove
        && let Some(link) = final_symlink(spelling)?
    {
        return Ok(link);
    }
    let reach = || platform::open_handle(&spelling.raw);
    let found = reach().and_then(|handle| {
        let status = platform::status(&handle)?;
        opened_object((handle, status), (&spelling.raw, access), reach)
    });
    found.or_else(|errno| unresolved_object(spelling, errno, access))
}

/// Returns the symbolic link at the end of a path that is to be removed, since a removal does not follow it.
/// A path that ends in a slash names the target of the link and is resolved like any other path.
fn final_symlink(spelling: &CheckedPathText) -> Result<Option<(PathBuf, OpenedObject)>, Errno> {
    let names = spelling.raw.parent().zip(spelling.raw.file_name());
    let Some((folder, leaf)) = names.filter(|_| spelling.ending != PathEnding::Directory) else {
        return Ok(None);
    };
    match symlink_in(folder, leaf) {
        Ok(link) => Ok(link),
        // The normal resolution meets and reports these errors as well. Any other error may be temporary, and
        // ignoring it would resolve the target of the link instead of the link.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP | Errno::NAMETOOLONG) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn symlink_in(folder: &Path, leaf: &OsStr) -> Result<Option<(PathBuf, OpenedObject)>, Errno> {
    let folder = platform::open_handle(folder)?;
    let status = platform::status_at(&folder, leaf)?;
    if status.kind != FileType::Symlink {
        return Ok(None);
    }
    let text = rustix::fs::readlinkat(&folder, leaf, Vec::new())?;
    let text = OsString::from_vec(text.into_bytes());
    let folder_name = platform::path_of(&folder, &platform::status(&folder)?.facts)?;
    let name = folder_name.join(leaf);
    let location = EntryLocation { folder, folder_path: folder_name, leaf: leaf.to_owned() };
    Ok(Some((name, OpenedObject::Link { text, facts: status.facts, location })))
}

/// Returns the object that a handle refers to. `reach` opens the same path once more.
pub(crate) fn opened_object(
    (handle, status): (OwnedFd, platform::FileStatus),
    (path, access): (&Path, PathAccess),
    reach: impl Fn() -> Result<OwnedFd, Errno>,
) -> Result<(PathBuf, OpenedObject), Errno> {
    let platform::FileStatus { kind, facts } = status;
    let name = platform::path_of(&handle, &facts)?;
    // A file that is being replaced may already have another name, or none. If the name of the handle is the
    // requested path, the path still leads to this object and no second lookup is needed.
    let is_as_asked = name.as_os_str() == path.as_os_str();
    if !is_as_asked && platform::status(reach()?)?.facts.identity != facts.identity {
        return Ok((
            name,
            OpenedObject::Unresolved { reason: UnresolvedReason::Changed, creation_target: None },
        ));
    }
    let object = match (kind, access) {
        (FileType::RegularFile, PathAccess::Read) => OpenedObject::File { handle, facts, location: None },
        (FileType::RegularFile, PathAccess::Write | PathAccess::Remove) => {
            match locate(&name, facts.identity)? {
                Some(location) => OpenedObject::File { handle, facts, location: Some(location) },
                None => OpenedObject::Unresolved { reason: UnresolvedReason::Changed, creation_target: None },
            }
        }
        (FileType::Directory, PathAccess::Remove) => {
            let location = locate(&name, facts.identity)?;
            OpenedObject::Directory { handle, facts, location }
        }
        (FileType::Directory, PathAccess::Read | PathAccess::Write) => {
            OpenedObject::Directory { handle, facts, location: None }
        }
        (kind, _) => OpenedObject::Special { name: special_kind_name(kind), facts },
    };
    Ok((name, object))
}

/// Returns the folder and name under which an opened file can be replaced, or `None` if they no longer lead
/// to it.
fn locate(name: &Path, identity: ObjectIdentity) -> Result<Option<EntryLocation>, Errno> {
    let (Some(folder_name), Some(leaf)) = (name.parent(), name.file_name()) else { return Ok(None) };
    let folder = match platform::open_handle_nofollow(folder_name) {
        Ok(folder) => folder,
        Err(errno) if is_resource_exhaustion(errno) => return Err(errno),
        Err(_) => return Ok(None),
    };
    let is_same = platform::status_at(&folder, leaf).is_ok_and(|status| status.facts.identity == identity);
    let location = EntryLocation { folder, folder_path: folder_name.to_owned(), leaf: leaf.to_owned() };
    Ok(is_same.then_some(location))
}

/// Returns true if a handle still has the path that was judged.
pub(crate) fn has_path(handle: &OwnedFd, name: &Path) -> bool {
    let current = platform::status(handle).and_then(|status| platform::path_of(handle, &status.facts));
    current.is_ok_and(|current| current == name)
}

fn unresolved_object(
    spelling: &CheckedPathText,
    errno: Errno,
    access: PathAccess,
) -> Result<(PathBuf, OpenedObject), Errno> {
    if is_resource_exhaustion(errno) {
        return Err(errno);
    }
    let walk = PathWalk::follow(&spelling.raw)?;
    let name = walk.name();
    if let Some((kind, facts)) = unopenable_special(&walk) {
        return Ok((name, OpenedObject::Special { name: special_kind_name(kind), facts }));
    }
    let reason = match walk.stop {
        WalkStop::Absent if walk.is_at_leaf() => UnresolvedReason::Absent,
        WalkStop::Absent => UnresolvedReason::ParentMissing,
        WalkStop::DanglingLink => UnresolvedReason::DanglingLink,
        WalkStop::LinkLoop => UnresolvedReason::LinkLoop,
        WalkStop::MagicLink => UnresolvedReason::MagicLink,
        WalkStop::Failed(errno) => UnresolvedReason::from_errno(errno),
        // Each component could be opened, but not the whole path: the path was replaced meanwhile, unless the
        // whole path failed with another error than `ENOENT`.
        WalkStop::Completed if errno == Errno::NOENT => UnresolvedReason::Changed,
        WalkStop::Completed => UnresolvedReason::from_errno(errno),
    };
    let creatable = matches!(reason, UnresolvedReason::Absent | UnresolvedReason::ParentMissing)
        && access == PathAccess::Write;
    let target = if creatable { walk.into_creation_target(spelling.ending) } else { None };
    Ok((name, OpenedObject::Unresolved { reason, creation_target: target }))
}

/// Returns a special file that the platform cannot open. macOS has no handle that only refers to an object,
/// so special files are never opened there.
fn unopenable_special(walk: &PathWalk) -> Option<(FileType, ObjectFacts)> {
    let leaf = matches!(walk.stop, WalkStop::Failed(Errno::OPNOTSUPP)).then(|| walk.leaf())??;
    let status = platform::status_at(&walk.current, leaf).ok()?;
    let special = !matches!(status.kind, FileType::RegularFile | FileType::Directory | FileType::Symlink);
    special.then_some((status.kind, status.facts))
}

#[cfg(test)]
mod tests;
