//! File system view of a confined program: names outside of what is granted do not exist, everything else is
//! read-only unless it is granted for writing, scratch space is private, and hidden paths are covered.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use governance::policy_environment::SYSTEM_FOLDERS;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, move_mount, open_tree};

use crate::launch::spec::RunSpec;
use crate::launch::status::{SetupFailure, SetupStep};
use crate::layers::{self, SandboxLayer};
use crate::linux::open_without_links;
use crate::linux::raw_syscalls::{self, MountScope};
use crate::prepare::environment::SCRATCH_DIR;
use crate::scan::file_identity::{self, ExpectedFile};

// Flags of the kernel's `mount_setattr`.
const READ_ONLY: u64 = 1;
const NO_SETUID: u64 = 2;
const NO_DEVICES: u64 = 4;

/// Further scratch folders. `/var/tmp` shares the tmpfs of `/tmp`.
const SHARED_MEMORY_DIR: &str = "/dev/shm";
const OTHER_SCRATCH_DIR: &str = "/var/tmp";

/// Rebuilds the file systems of this mount namespace.
pub(crate) fn build(spec: &RunSpec) -> Result<(), SetupFailure> {
    let granted = clone_granted(spec)?;
    for path in layers::if_enabled(SandboxLayer::PinnedFolders, spec.pinned.as_slice()) {
        pin(path)?;
    }
    let root = open("/")?;
    let flags = layers::if_enabled(SandboxLayer::ReadOnlyRoot, READ_ONLY)
        | layers::if_enabled(SandboxLayer::NoSetuid, NO_SETUID);
    with_path("/", raw_syscalls::set_mount_flags(&root, MountScope::Recursive, flags))?;
    let covers = match layers::is_enabled(SandboxLayer::OutsideHidden) {
        true => hide_outside(spec)?,
        false => Vec::new(),
    };
    let masks = (!spec.hidden.is_empty()).then(HidingMounts::make).transpose()?;
    if layers::is_enabled(SandboxLayer::PrivateScratch) {
        mount_scratch(spec.limits.memory_bytes)?;
    }
    for (path, tree) in granted {
        mount_at(&tree, &path)?;
    }
    // Writable until here, for the mount points of the granted folders.
    for (path, cover) in &covers {
        with_path(path, raw_syscalls::set_mount_flags(cover, MountScope::Single, READ_ONLY))?;
    }
    // Fault injection point in the middle of the mounts: a half-built view must not start a program.
    layers::check_injected_fault(SetupStep::Mounts)?;
    for expected in layers::if_enabled(SandboxLayer::ProtectedPaths, spec.protected.as_slice()) {
        protect(expected)?;
    }
    if let Some(masks) = masks {
        layers::if_enabled(SandboxLayer::HiddenPaths, spec.hidden.as_slice())
            .iter()
            .try_for_each(|expected| masks.cover(expected))?;
    }
    Ok(())
}

/// Folders of the kernel, restricted by Landlock, and the scratch folder.
const KERNEL_DIRS: &[&str] = &["/proc", "/dev", "/sys", SCRATCH_DIR];

/// Covers every folder of `/` that is not for all programs with an empty one, so that the names below it do not exist:
/// Landlock restricts opening, but not `stat`, `readlink`, extended attributes and inotify. Returns the covers, still
/// writable.
fn hide_outside(spec: &RunSpec) -> Result<Vec<(PathBuf, OwnedFd)>, SetupFailure> {
    let is_retained = |path: &Path| {
        KERNEL_DIRS.iter().chain(SYSTEM_FOLDERS).any(|system_path| path == Path::new(system_path))
    };
    let entries = with_path("/", std::fs::read_dir("/"))?.flatten();
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let folders: Vec<PathBuf> =
        entries.filter(is_folder).map(|entry| entry.path()).filter(|path| !is_retained(path)).collect();
    let is_covered = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
    let is_granted =
        |path: &Path| spec.writable.iter().chain(&spec.readable).any(|granted| path.starts_with(granted));
    // The program must exist under its own path, because the interpreter of a script opens it by name.
    let program = Some(spec.program.as_path()).filter(|path| !is_granted(path));
    let system = SYSTEM_FOLDERS.iter().map(Path::new).filter(|path| path.is_dir());
    let mut retained = Vec::new();
    for path in system.chain(program).filter(|path| is_covered(path)) {
        retained.push((path, clone_mount(&open(path)?, path)?));
    }
    let has_other_scratch = Path::new(OTHER_SCRATCH_DIR).symlink_metadata().is_ok_and(|facts| facts.is_dir());
    let mut covers = Vec::new();
    for path in &folders {
        mount_tmpfs(path, "size=1m,mode=0755")?;
        covers.push((path.clone(), open(path)?));
    }
    if has_other_scratch && is_covered(Path::new(OTHER_SCRATCH_DIR)) {
        with_path(OTHER_SCRATCH_DIR, std::fs::create_dir(OTHER_SCRATCH_DIR))?;
    }
    for (path, tree) in retained {
        mount_at(&tree, path)?;
    }
    Ok(covers)
}

/// Clones the mounts of the granted folders while they are still writable, outer folders first, so that inner
/// ones end up on top.
fn clone_granted(spec: &RunSpec) -> Result<Vec<(PathBuf, OwnedFd)>, SetupFailure> {
    let writable = spec.writable.iter().map(|path| (path, 0));
    let readable =
        spec.readable.iter().map(|path| (path, layers::if_enabled(SandboxLayer::ReadOnlyGrant, READ_ONLY)));
    let always = layers::if_enabled(SandboxLayer::NoSetuid, NO_SETUID)
        | layers::if_enabled(SandboxLayer::NoDeviceFiles, NO_DEVICES);
    let mut wanted: Vec<_> = writable.chain(readable).collect();
    wanted.sort_by_key(|(path, _)| path.components().count());
    let mut clones = Vec::new();
    for (path, flags) in wanted {
        let tree = clone_mount(&open(path)?, path)?;
        with_path(path, raw_syscalls::set_mount_flags(&tree, MountScope::Recursive, flags | always))?;
        clones.push((path.clone(), tree));
    }
    Ok(clones)
}

/// Opens a path without following symbolic links: one could have been created since the path was checked.
fn open(path: impl AsRef<Path>) -> Result<OwnedFd, SetupFailure> {
    let path = path.as_ref();
    with_path(
        path,
        match layers::is_enabled(SandboxLayer::NoSymlinks) {
            true => open_without_links::open(path, OFlags::PATH | OFlags::NOFOLLOW),
            false => rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()),
        },
    )
}

/// Clones the mount tree below a descriptor.
fn clone_mount(descriptor: &OwnedFd, path: &Path) -> Result<OwnedFd, SetupFailure> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    with_path(path, open_tree(descriptor, "", flags))
}

/// Attaches a mount at its path, creating the mount point if another mount covers it.
fn mount_at(tree: &OwnedFd, path: &Path) -> Result<(), SetupFailure> {
    let facts = with_path(path, rustix::fs::fstat(tree))?;
    let made = match (FileType::from_raw_mode(facts.st_mode), path.parent()) {
        (FileType::Directory, _) | (_, None) => std::fs::create_dir_all(path),
        (_, Some(_)) if path.exists() => Ok(()),
        (_, Some(folder)) => {
            std::fs::create_dir_all(folder).and_then(|()| std::fs::File::create_new(path).map(drop))
        }
    };
    match made {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => with_path(path, Err(cause)),
        _ => attach(tree, path),
    }
}

fn attach(tree: impl AsFd, path: &Path) -> Result<(), SetupFailure> {
    attach_to(tree, &open(path)?, path)
}

/// Attaches a mount over an open descriptor, even if its path has been renamed since.
fn attach_to(tree: impl AsFd, target: &OwnedFd, path: &Path) -> Result<(), SetupFailure> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    with_path(path, move_mount(tree, "", target, "", flags))
}

/// Opens the file that was found at this path, and fails if it is another one. Another run could have moved
/// the file away, so that this sandbox neither hides nor protects it, and then back.
fn open_expected(expected: &ExpectedFile) -> Result<OwnedFd, SetupFailure> {
    let found = open(&expected.path)?;
    let is_same = with_path(&expected.path, file_identity::file_id_of_open(&found))? == expected.file;
    match is_same || !layers::is_enabled(SandboxLayer::FileIdentity) {
        true => Ok(found),
        false => with_path(&expected.path, Err(io::Error::from_raw_os_error(libc::ESTALE))),
    }
}

/// Mounts a protected path read-only.
fn protect(expected: &ExpectedFile) -> Result<(), SetupFailure> {
    let (path, found) = (expected.path.as_path(), open_expected(expected)?);
    let tree = clone_mount(&found, path)?;
    with_path(
        path,
        raw_syscalls::set_mount_flags(&tree, MountScope::Recursive, READ_ONLY | NO_SETUID | NO_DEVICES),
    )?;
    attach_to(&tree, &found, path)
}

/// Prevents a folder from being renamed: a mount point anywhere in this namespace cannot be renamed anywhere
/// in it. The mount is attached below the place where the granted folder is mounted next, so that it is
/// invisible inside the folder. A visible mount would also stop files from being moved in and out.
fn pin(path: &Path) -> Result<(), SetupFailure> {
    let found = open(path)?;
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    attach_to(with_path(path, open_tree(&found, "", flags))?, &found, path)
}

/// Mounts private scratch space, limited to the memory limit of the run because it is memory.
fn mount_scratch(bytes: u64) -> Result<(), SetupFailure> {
    let size = layers::if_enabled(SandboxLayer::ScratchSize, format!("size={bytes},nr_inodes=100000,"));
    let options = format!("{size}mode=1777");
    mount_tmpfs(SCRATCH_DIR, &options)?;
    if Path::new(SHARED_MEMORY_DIR).is_dir() {
        mount_tmpfs(SHARED_MEMORY_DIR, &options)?;
    }
    match Path::new(OTHER_SCRATCH_DIR).symlink_metadata() {
        Ok(facts) if facts.is_dir() => {
            attach(clone_mount(&open(SCRATCH_DIR)?, Path::new(SCRATCH_DIR))?, Path::new(OTHER_SCRATCH_DIR))
        }
        _ => Ok(()),
    }
}

/// Mounts a tmpfs.
fn mount_tmpfs(path: impl AsRef<Path>, options: &str) -> Result<(), SetupFailure> {
    let options = CString::new(options).unwrap_or_default();
    let path = path.as_ref();
    with_path(path, mount("tmpfs", path, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str()))
}

/// Mounts a `/proc` that shows only the processes of this namespace.
pub(crate) fn mount_proc() -> Result<(), SetupFailure> {
    if !layers::is_enabled(SandboxLayer::PrivateProc) {
        return Ok(());
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    with_path("/proc", mount("proc", "/proc", "proc", flags, None))
}

/// Limit of terminals of a run. The machine has a fixed number.
const MAX_TERMINALS: u32 = 32;
const DEVPTS_DIR: &str = "/dev/pts";

/// Access of a run to terminals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TerminalAccess {
    Own,
    None,
}

/// Mounts a private devpts. Where the machine does not allow that, the run continues with the other layers
/// and without any terminal.
pub(crate) fn mount_devpts() -> TerminalAccess {
    if !layers::is_enabled(SandboxLayer::PrivateTerminals) {
        return TerminalAccess::Own;
    }
    let options = CString::new(format!("newinstance,ptmxmode=0666,mode=0620,max={MAX_TERMINALS}"));
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    match mount("devpts", DEVPTS_DIR, "devpts", flags, options.unwrap_or_default().as_c_str()) {
        Ok(()) => TerminalAccess::Own,
        Err(_) => TerminalAccess::None,
    }
}

/// An empty file and an empty folder without permissions, mounted over hidden paths.
struct HidingMounts {
    file: OwnedFd,
    folder: OwnedFd,
}

impl HidingMounts {
    /// Creates both in a tmpfs that the scratch mount covers afterwards.
    fn make() -> Result<HidingMounts, SetupFailure> {
        mount_tmpfs(SCRATCH_DIR, "size=16k,mode=0755")?;
        let base = Path::new(SCRATCH_DIR);
        let (file, folder) = (base.join("file"), base.join("folder"));
        with_path(&file, std::fs::write(&file, ""))?;
        with_path(&folder, std::fs::create_dir(&folder))?;
        for path in [&file, &folder] {
            with_path(path, rustix::fs::chmod(path, Mode::empty()))?;
        }
        let root = open(base)?;
        with_path(
            base,
            raw_syscalls::set_mount_flags(&root, MountScope::Single, READ_ONLY | NO_SETUID | NO_DEVICES),
        )?;
        Ok(HidingMounts { file: open(&file)?, folder: open(&folder)? })
    }

    fn cover(&self, expected: &ExpectedFile) -> Result<(), SetupFailure> {
        let (path, found) = (expected.path.as_path(), open_expected(expected)?);
        let facts = with_path(path, rustix::fs::fstat(&found))?;
        let is_folder = FileType::from_raw_mode(facts.st_mode) == FileType::Directory;
        let mask = if is_folder { &self.folder } else { &self.file };
        attach_to(clone_mount(mask, path)?, &found, path)
    }
}

/// Converts an error into a failure of the mount step for this path.
fn with_path<T, E: Into<io::Error>>(path: impl AsRef<Path>, result: Result<T, E>) -> Result<T, SetupFailure> {
    result.map_err(|cause| {
        SetupFailure::new(SetupStep::Mounts, path.as_ref().display().to_string(), &cause.into())
    })
}
