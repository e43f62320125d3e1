//! File system view of a confined program: everything is read-only, granted folders are writable, scratch
//! space is private, and hidden paths are covered.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, move_mount, open_tree};

use crate::launch::spec::Spec;
use crate::launch::status::{Problem, Step};
use crate::layers::{self, Guard};
use crate::linux::raw_syscalls::{self, Reach};
use crate::prepare::environment::SCRATCH;
use crate::scan::file_identity::{self, Held};

// Flags of the kernel's `mount_setattr`.
const READ_ONLY: u64 = 1;
const NO_SETUID: u64 = 2;
const NO_DEVICES: u64 = 4;

/// Further scratch folders. `/var/tmp` shares the tmpfs of `/tmp`.
const SHARED_MEMORY: &str = "/dev/shm";
const OTHER_SCRATCH: &str = "/var/tmp";

/// Rebuilds the file systems of this mount namespace.
pub(crate) fn build(spec: &Spec) -> Result<(), Problem> {
    let granted = take_granted(spec)?;
    for path in layers::held(Guard::Pinned, spec.pinned.as_slice()) {
        pin(path)?;
    }
    let root = open("/")?;
    let flags = layers::held(Guard::ReadOnlyRoot, READ_ONLY) | layers::held(Guard::NoSetuid, NO_SETUID);
    at("/", raw_syscalls::set_mount_flags(&root, Reach::AllBelow, flags))?;
    let masks = (!spec.hidden.is_empty()).then(Masks::make).transpose()?;
    if layers::stands(Guard::Scratch) {
        scratch(spec.limits.memory_bytes)?;
    }
    for (path, tree) in granted {
        put(&tree, &path)?;
    }
    // Fault injection point in the middle of the mounts: a half-built view must not start a program.
    layers::may(Step::Mounts)?;
    for held in layers::held(Guard::Kept, spec.kept.as_slice()) {
        keep(held)?;
    }
    if let Some(masks) = masks {
        layers::held(Guard::Hidden, spec.hidden.as_slice()).iter().try_for_each(|held| masks.cover(held))?;
    }
    Ok(())
}

/// Clones the mounts of the granted folders while they are still writable, outer folders first, so that inner
/// ones end up on top.
fn take_granted(spec: &Spec) -> Result<Vec<(PathBuf, OwnedFd)>, Problem> {
    let writable = spec.writable.iter().map(|path| (path, 0));
    let readable = spec.readable.iter().map(|path| (path, layers::held(Guard::ReadOnlyGrant, READ_ONLY)));
    let always = layers::held(Guard::NoSetuid, NO_SETUID) | layers::held(Guard::NoDevices, NO_DEVICES);
    let mut wanted: Vec<_> = writable.chain(readable).collect();
    wanted.sort_by_key(|(path, _)| path.components().count());
    let mut taken = Vec::new();
    for (path, flags) in wanted {
        let tree = copy_of(&open(path)?, path)?;
        at(path, raw_syscalls::set_mount_flags(&tree, Reach::AllBelow, flags | always))?;
        taken.push((path.clone(), tree));
    }
    Ok(taken)
}

/// Opens a path without following symbolic links: one could have been created since the path was checked.
fn open(path: impl AsRef<Path>) -> Result<OwnedFd, Problem> {
    let path = path.as_ref();
    let (mut flags, mut resolve) = (OFlags::PATH | OFlags::CLOEXEC, ResolveFlags::empty());
    if layers::stands(Guard::NoLinks) {
        flags |= OFlags::NOFOLLOW;
        resolve |= ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    }
    at(path, openat2(CWD, path, flags, Mode::empty(), resolve))
}

/// Clones the mount tree below a descriptor.
fn copy_of(descriptor: &OwnedFd, path: &Path) -> Result<OwnedFd, Problem> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    at(path, open_tree(descriptor, "", flags))
}

/// Attaches a mount at its path, creating the parent folders if the scratch mount covers them.
fn put(tree: &OwnedFd, path: &Path) -> Result<(), Problem> {
    if let Err(cause) = std::fs::create_dir_all(path)
        && cause.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(Problem::new(Step::Mounts, path.display().to_string(), &cause));
    }
    attach(tree, path)
}

fn attach(tree: impl AsFd, path: &Path) -> Result<(), Problem> {
    attach_to(tree, &open(path)?, path)
}

/// Attaches a mount over an open descriptor, even if its path has been renamed since.
fn attach_to(tree: impl AsFd, target: &OwnedFd, path: &Path) -> Result<(), Problem> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    at(path, move_mount(tree, "", target, "", flags))
}

/// Opens the file that was found at this path, and fails if it is another one. Another run could have moved
/// the file away, so that this sandbox neither hides nor protects it, and then back.
fn open_held(held: &Held) -> Result<OwnedFd, Problem> {
    let found = open(&held.path)?;
    let is_same = at(&held.path, file_identity::of_open(&found))? == held.file;
    match is_same || !layers::stands(Guard::SameFile) {
        true => Ok(found),
        false => at(&held.path, Err(io::Error::from_raw_os_error(libc::ESTALE))),
    }
}

/// Mounts a protected path read-only.
fn keep(held: &Held) -> Result<(), Problem> {
    let (path, found) = (held.path.as_path(), open_held(held)?);
    let tree = copy_of(&found, path)?;
    at(path, raw_syscalls::set_mount_flags(&tree, Reach::AllBelow, READ_ONLY | NO_SETUID | NO_DEVICES))?;
    attach_to(&tree, &found, path)
}

/// Prevents a folder from being renamed: a mount point anywhere in this namespace cannot be renamed anywhere
/// in it. The mount is attached below the place where the granted folder is mounted next, so that it is
/// invisible inside the folder. A visible mount would also stop files from being moved in and out.
fn pin(path: &Path) -> Result<(), Problem> {
    let found = open(path)?;
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    attach_to(at(path, open_tree(&found, "", flags))?, &found, path)
}

/// Mounts private scratch space, limited to the memory limit of the run because it is memory.
fn scratch(bytes: u64) -> Result<(), Problem> {
    let size = layers::held(Guard::ScratchSize, format!("size={bytes},nr_inodes=100000,"));
    let options = format!("{size}mode=1777");
    memory_at(SCRATCH, &options)?;
    if Path::new(SHARED_MEMORY).is_dir() {
        memory_at(SHARED_MEMORY, &options)?;
    }
    match Path::new(OTHER_SCRATCH).symlink_metadata() {
        Ok(facts) if facts.is_dir() => {
            attach(copy_of(&open(SCRATCH)?, Path::new(SCRATCH))?, Path::new(OTHER_SCRATCH))
        }
        _ => Ok(()),
    }
}

/// Mounts a tmpfs.
fn memory_at(path: &str, options: &str) -> Result<(), Problem> {
    let options = CString::new(options).unwrap_or_default();
    at(path, mount("tmpfs", path, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str()))
}

/// Mounts a `/proc` that shows only the processes of this namespace.
pub(crate) fn processes() -> Result<(), Problem> {
    if !layers::stands(Guard::ProcessList) {
        return Ok(());
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    at("/proc", mount("proc", "/proc", "proc", flags, None))
}

/// Limit of terminals of a run. The machine has a fixed number.
const MOST_TERMINALS: u32 = 32;
const TERMINALS: &str = "/dev/pts";

/// States if a run has its own terminals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminals {
    Own,
    None,
}

/// Mounts a private devpts. Where the machine does not allow that, the run continues with the other layers
/// and without any terminal.
pub(crate) fn terminals() -> Terminals {
    if !layers::stands(Guard::Terminals) {
        return Terminals::Own;
    }
    let options = CString::new(format!("newinstance,ptmxmode=0666,mode=0620,max={MOST_TERMINALS}"));
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    match mount("devpts", TERMINALS, "devpts", flags, options.unwrap_or_default().as_c_str()) {
        Ok(()) => Terminals::Own,
        Err(_) => Terminals::None,
    }
}

/// An empty file and an empty folder without permissions, mounted over hidden paths.
struct Masks {
    file: OwnedFd,
    folder: OwnedFd,
}

impl Masks {
    /// Creates both in a tmpfs that the scratch mount covers afterwards.
    fn make() -> Result<Masks, Problem> {
        memory_at(SCRATCH, "size=16k,mode=0755")?;
        let base = Path::new(SCRATCH);
        let (file, folder) = (base.join("file"), base.join("folder"));
        at(&file, std::fs::write(&file, ""))?;
        at(&folder, std::fs::create_dir(&folder))?;
        for path in [&file, &folder] {
            at(path, rustix::fs::chmod(path, Mode::empty()))?;
        }
        let root = open(base)?;
        at(base, raw_syscalls::set_mount_flags(&root, Reach::This, READ_ONLY | NO_SETUID | NO_DEVICES))?;
        Ok(Masks { file: open(&file)?, folder: open(&folder)? })
    }

    fn cover(&self, held: &Held) -> Result<(), Problem> {
        let (path, found) = (held.path.as_path(), open_held(held)?);
        let facts = at(path, rustix::fs::fstat(&found))?;
        let is_folder = FileType::from_raw_mode(facts.st_mode) == FileType::Directory;
        let mask = if is_folder { &self.folder } else { &self.file };
        attach_to(copy_of(mask, path)?, &found, path)
    }
}

/// Converts an error into a failure of the mount step for this path.
fn at<T, E: Into<io::Error>>(path: impl AsRef<Path>, result: Result<T, E>) -> Result<T, Problem> {
    result.map_err(|cause| Problem::new(Step::Mounts, path.as_ref().display().to_string(), &cause.into()))
}
