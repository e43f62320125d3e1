//! Opens a path one component at a time, for a kernel without `openat2`, and takes the place of two of its
//! flags: `RESOLVE_NO_SYMLINKS` and `RESOLVE_NO_MAGICLINKS`.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::MAX_SYMLINKS;

/// Magic number of the file system of AppArmor, whose links jump to an object like those of a process.
const APPARMOR_FS: i128 = 0x5a3c_69f0;

/// Inode number of the root of every procfs.
const PROC_ROOT: u64 = 1;

/// Treatment of symbolic links.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// Refuses every link.
    Refuse,
    /// Follows links that are text, and refuses magic links.
    FollowText,
}

/// Opens a path as a handle that only refers to the object; `ELOOP` if it goes through a link that may not
/// be followed.
pub(super) fn open(folder: BorrowedFd<'_>, path: &OsStr, links: Links) -> Result<OwnedFd, Errno> {
    let mut remaining = VecDeque::new();
    let mut current = match push_components(&mut remaining, path) {
        PathStart::Root => root()?,
        PathStart::Folder => step(folder, OsStr::new("."))?,
    };
    let mut followed = 0;
    while let Some(name) = remaining.pop_front() {
        let next = step(current.as_fd(), &name)?;
        if FileType::from_raw_mode(rustix::fs::fstat(&next)?.st_mode) != FileType::Symlink {
            current = next;
            continue;
        }
        followed += 1;
        if links == Links::Refuse || followed > MAX_SYMLINKS || is_magic(&current)? {
            return Err(Errno::LOOP);
        }
        let target = rustix::fs::readlinkat(&next, "", Vec::new())?;
        if push_components(&mut remaining, OsStr::from_bytes(target.as_bytes())) == PathStart::Root {
            current = root()?;
        }
    }
    Ok(current)
}

#[derive(PartialEq, Eq)]
enum PathStart {
    Root,
    Folder,
}

/// Puts the components of a path in front of the remaining ones.
fn push_components(remaining: &mut VecDeque<OsString>, path: &OsStr) -> PathStart {
    let bytes = path.as_bytes();
    let names = bytes.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    for name in names.rev() {
        remaining.push_front(OsStr::from_bytes(name).to_owned());
    }
    if bytes.starts_with(b"/") { PathStart::Root } else { PathStart::Folder }
}

fn root() -> Result<OwnedFd, Errno> {
    step(CWD, OsStr::new("/"))
}

/// Opens one name, and a link as the link itself.
fn step(folder: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    retry_on_intr(|| rustix::fs::openat(folder, name, flags, Mode::empty()))
}

/// Returns true if the links of a folder may be magic. The kernel does not say which links are. In procfs
/// they are all below the folders of processes; a link at its root, such as `self`, is text.
fn is_magic(folder: &OwnedFd) -> Result<bool, Errno> {
    let fs = rustix::fs::fstatfs(folder)?;
    Ok(match fs.f_type {
        rustix::fs::PROC_SUPER_MAGIC => rustix::fs::fstat(folder)?.st_ino != PROC_ROOT,
        other => i128::from(other) == APPARMOR_FS,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::platform;
    use crate::testing::WorkspaceFixture;

    /// Checks that the walk gives the same object or error as `openat2`.
    fn check(path: &Path, links: Links) {
        use rustix::fs::ResolveFlags;
        let resolve = match links {
            Links::Refuse => ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
            Links::FollowText => ResolveFlags::NO_MAGICLINKS,
        };
        let identity = |handle: OwnedFd| platform::status(handle).unwrap().facts.identity;
        let kernel = rustix::fs::openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve);
        let walked = open(CWD, path.as_os_str(), links);
        assert_eq!(walked.map(identity), kernel.map(identity), "{}", path.display());
    }

    #[test]
    fn walks_agree_with_the_kernel() {
        let fixture = WorkspaceFixture::new();
        fixture.file("ws/sub/f", "f");
        fixture.link("ws/to_sub", "sub");
        fixture.link("ws/absolute", fixture.path("ws/sub"));
        fixture.link("ws/out", "../outside");
        fixture.link("ws/dangling", "nothing");
        fixture.link("ws/loop", "loop");
        fixture.link("ws/process", "/proc/self");
        fixture.link("ws/into_process", "/proc/self/root");
        fixture.file("ws/l0", "end");
        for number in 1..=MAX_SYMLINKS + 1 {
            fixture.link(&format!("ws/l{number}"), format!("l{}", number - 1));
        }
        let last = [format!("ws/l{MAX_SYMLINKS}"), format!("ws/l{}", MAX_SYMLINKS + 1)];
        let names = [
            "ws/sub/f",
            "ws//sub/./f",
            "ws/sub/../sub/f",
            "ws/to_sub/f",
            "ws/to_sub/../sub",
            "ws/absolute/f",
            "ws/out/secret",
            "ws/out/../ws",
            "ws/dangling",
            "ws/loop",
            "ws/loop/x",
            "ws/missing",
            "ws/missing/x",
            "ws/sub/f/x",
            "ws/process/status",
            "ws/into_process",
            "ws/into_process/etc",
            &last[0],
            &last[1],
        ];
        let own = format!("/proc/{}/cwd", std::process::id());
        let absolute = [
            "/",
            "/..",
            "/proc/self",
            "/proc/self/status",
            "/proc/self/root",
            "/proc/self/cwd",
            "/proc/self/exe",
            "/proc/thread-self/ns/net",
            "/proc/self/fd/0",
            "/dev/fd/0",
            "/dev/stdin",
            "/proc/mounts",
            "/dev/null",
            &own,
        ];
        for links in [Links::Refuse, Links::FollowText] {
            names.iter().for_each(|name| check(&fixture.path(name), links));
            absolute.iter().for_each(|name| check(Path::new(name), links));
        }
    }
}
