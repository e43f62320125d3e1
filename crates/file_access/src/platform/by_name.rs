//! Opens a path where no single system call resolves it safely: opens it, asks for the name of the object,
//! opens that name again without following a link, and compares the two objects.
//!
//! The result is opened by the name that will be judged. This is the only way on macOS, and the fallback on
//! Linux where `openat2` is missing or filtered. The systems differ in three calls, [`NamedHandles`].

use std::ffi::OsStr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// System calls of the algorithm.
pub(crate) trait NamedHandles {
    /// Opens a path and follows symbolic links, without blocking or touching a special file.
    fn open(folder: BorrowedFd<'_>, path: &OsStr) -> Result<OwnedFd, Errno>;

    /// Opens an absolute path; `ELOOP` if it contains a symbolic link.
    fn open_without_links(path: &Path) -> Result<OwnedFd, Errno>;

    /// Returns the current name of the object of a handle, as the system spells it.
    fn current_path(handle: &OwnedFd) -> Result<PathBuf, Errno>;
}

/// Opens a path as a handle that was opened by its current name; `ENOENT` if the name led to another object
/// meanwhile.
///
/// The first handle is never used for data: on macOS `/dev/fd/N` duplicates a descriptor of this process, and
/// a file with several hard links may report another name than the one it was opened by.
pub(crate) fn open_confirmed<S: NamedHandles>(
    folder: BorrowedFd<'_>,
    path: &OsStr,
) -> Result<OwnedFd, Errno> {
    let first = S::open(folder, path)?;
    let identity = super::status(&first)?.facts.identity;
    let second = S::open_without_links(&S::current_path(&first)?).map_err(|errno| match errno {
        // The name was valid a moment ago. The caller takes `ENOENT` for a path that is being replaced, and
        // tries again.
        Errno::LOOP | Errno::NOTDIR => Errno::NOENT,
        other => other,
    })?;
    if super::status(&second)?.facts.identity == identity { Ok(second) } else { Err(Errno::NOENT) }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::platform;
    use crate::testing::WorkspaceFixture;

    thread_local! {
        /// Name that `Simulated` reports for every handle.
        static REPORTED: RefCell<PathBuf> = RefCell::default();
    }

    /// A system that reports the name in `REPORTED`, as if the object had been moved since it was opened.
    struct Simulated;

    impl NamedHandles for Simulated {
        fn open(_folder: BorrowedFd<'_>, path: &OsStr) -> Result<OwnedFd, Errno> {
            platform::open_handle(Path::new(path))
        }

        fn open_without_links(path: &Path) -> Result<OwnedFd, Errno> {
            platform::open_handle_nofollow(path)
        }

        fn current_path(_handle: &OwnedFd) -> Result<PathBuf, Errno> {
            REPORTED
                .with_borrow(|name| if name.is_absolute() { Ok(name.clone()) } else { Err(Errno::ACCESS) })
        }
    }

    fn check(fixture: &WorkspaceFixture, asked: &str, reported: &str, expect: Result<&str, Errno>) {
        REPORTED.set(if reported.is_empty() { PathBuf::new() } else { fixture.path(reported) });
        let opened = open_confirmed::<Simulated>(rustix::fs::CWD, fixture.path(asked).as_os_str());
        let identity = |handle: OwnedFd| platform::status(handle).unwrap().facts.identity;
        let expect = expect.map(|name| identity(platform::open_handle(&fixture.path(name)).unwrap()));
        assert_eq!(opened.map(identity), expect, "{asked} as {reported}");
    }

    #[test]
    fn only_the_object_of_the_reported_name_is_opened() {
        let fixture = WorkspaceFixture::new();
        fixture.file("ws/f", "f");
        std::fs::hard_link(fixture.path("ws/f"), fixture.path("ws/same")).unwrap();
        fixture.link("ws/to_f", "f");
        fixture.link("to_ws", "ws");
        check(&fixture, "ws/f", "ws/f", Ok("ws/f"));
        check(&fixture, "ws/to_f", "ws/f", Ok("ws/f"));
        check(&fixture, "ws/f", "ws/same", Ok("ws/f"));
        check(&fixture, "ws/f", "outside/secret", Err(Errno::NOENT));
        check(&fixture, "ws/f", "ws/gone", Err(Errno::NOENT));
        check(&fixture, "ws/f", "ws/f/below", Err(Errno::NOENT));
        check(&fixture, "ws/f", "ws/to_f", Err(Errno::NOENT));
        check(&fixture, "ws/f", "to_ws/f", Err(Errno::NOENT));
        check(&fixture, "ws/f", "", Err(Errno::ACCESS));
        check(&fixture, "ws/gone", "ws/f", Err(Errno::NOENT));
    }
}
