//! Opens a path that contains no symbolic link. A program of an earlier run could have created one since the
//! path was checked.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

/// Opens an absolute path; fails if a component is a symbolic link. With `O_PATH` and `O_NOFOLLOW`, a link at
/// the end is opened as the link itself.
pub(crate) fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(CWD, path, flags, Mode::empty(), resolve) {
        // An old kernel, or the filter of a container engine that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => open_by_component(path, flags),
        opened => opened,
    }
}

/// Like `open`, without `openat2`.
fn open_by_component(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut names: Vec<&OsStr> = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(Component::as_os_str)
        .collect();
    let leaf = names.pop().unwrap_or(OsStr::new("."));
    let folder_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = openat(CWD, "/", folder_flags, Mode::empty())?;
    for name in names {
        folder = openat(folder.as_fd(), name, folder_flags, Mode::empty())?;
    }
    let opened = openat(folder, leaf, flags | OFlags::NOFOLLOW, Mode::empty())?;
    // With `O_PATH`, `O_NOFOLLOW` opens the link itself, which the caller may not have asked for.
    match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
        FileType::Symlink if !flags.contains(OFlags::NOFOLLOW) => Err(Errno::LOOP),
        _ => Ok(opened),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn both_ways_open_the_same_and_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("a")).unwrap();
        std::fs::write(root.join("a/f"), "f").unwrap();
        symlink("a", root.join("to_a")).unwrap();
        symlink("f", root.join("a/to_f")).unwrap();
        for (name, is_link) in [
            ("a", false),
            ("a/f", false),
            ("a/../a/f", false),
            ("to_a", true),
            ("to_a/f", true),
            ("a/to_f", true),
            ("a/missing", true),
        ] {
            for flags in [OFlags::PATH, OFlags::RDONLY] {
                let path = root.join(name);
                let inode = |opened: OwnedFd| fstat(opened).unwrap().st_ino;
                let (one, other) = (open(&path, flags), open_by_component(&path, flags));
                assert_eq!((one.is_err(), other.is_err()), (is_link, is_link), "{name}");
                if !is_link {
                    let expected = path.metadata().unwrap().ino();
                    assert_eq!([one, other].map(|opened| inode(opened.unwrap())), [expected; 2], "{name}");
                }
            }
        }
        let link = root.join("to_a").symlink_metadata().unwrap().ino();
        let as_link = OFlags::PATH | OFlags::NOFOLLOW;
        let ways = [open, open_by_component];
        for (path, flags, inode) in [
            (root.join("to_a"), as_link, link),
            (Path::new("/").into(), OFlags::PATH, Path::new("/").metadata().unwrap().ino()),
        ] {
            let opened = ways.map(|way| fstat(way(&path, flags).unwrap()).unwrap().st_ino);
            assert_eq!(opened, [inode; 2], "{}", path.display());
            assert!(ways.iter().all(|way| way(&root.join("to_a/f"), flags).is_err()));
        }
    }
}
