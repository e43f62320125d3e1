//! Check that no other user can have changed a file.
//!
//! A policy that another user can edit is under that user's control. The file and its directory must belong
//! to the current user or root, must not be writable by group or others, and must not be symbolic links. The
//! same holds for ownership and write permission of every directory above, because a user who can write to
//! one can replace what is in it. A sticky directory such as `/tmp` prevents that. A symbolic link above is
//! followed if it belongs to the current user or root. ACLs beyond the mode bits are not checked.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::DocumentError;

/// Reason why a file is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// It is a symbolic link.
    #[error("`{0}` is a symbolic link, which can be redirected to another file")]
    Link(PathBuf),
    /// It belongs to another user.
    #[error("`{path}` belongs to uid {owner}, not to uid {us} or root")]
    Owner {
        /// File or directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// User id of this process.
        us: u32,
    },
    /// Users other than the owner can write to it.
    #[error("`{path}` has mode {mode:04o}: it can be changed by {writers}")]
    Writable {
        /// File or directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// Users who can write besides the owner.
        writers: &'static str,
    },
    /// It cannot be read.
    #[error("`{path}` cannot be read: {error}")]
    Unreadable {
        /// File or directory.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
}

impl TrustError {
    /// Returns the command or step that fixes it, if there is one.
    pub fn remedy(&self) -> Option<String> {
        match self {
            TrustError::Link(_) => Some("replace the link with the file itself".to_owned()),
            TrustError::Owner { path, us, .. } => Some(format!("sudo chown {us} {}", shell_quoted(path))),
            TrustError::Writable { path, .. } => Some(format!("chmod go-w {}", shell_quoted(path))),
            TrustError::Unreadable { .. } => None,
        }
    }

    pub(crate) fn into_document_error(self, file: &Path) -> DocumentError {
        let name = file.display().to_string();
        let suggestion = self.remedy();
        let message = match &self {
            TrustError::Unreadable { error, .. } if error.kind() == io::ErrorKind::NotFound => {
                "does not exist".to_owned()
            }
            other => format!("is not trusted: {other}"),
        };
        DocumentError { suggestion, ..DocumentError::for_file(&name, &message) }
    }
}

/// Checks that only the current user or root can change this file or replace it.
pub fn check_trusted(path: &Path) -> Result<(), TrustError> {
    open_trusted(path).map(drop)
}

/// Opens for reading. The flags keep a FIFO from blocking and a terminal from becoming the controlling
/// terminal.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

/// Checks the directories, opens the file, and checks the opened file.
pub(crate) fn open_trusted(path: &Path) -> Result<File, TrustError> {
    let unreadable = |error| TrustError::Unreadable { path: path.to_owned(), error };
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    check_directories(&absolute)?;
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(&absolute);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => TrustError::Link(absolute.clone()),
        _ => TrustError::Unreadable { path: absolute.clone(), error },
    })?;
    let metadata = file.metadata().map_err(unreadable)?;
    check_object(&absolute, &metadata)?;
    Ok(file)
}

fn check_directories(file: &Path) -> Result<(), TrustError> {
    let mut folders = file.ancestors().skip(1);
    if let Some(parent) = folders.next() {
        check_object(parent, &metadata_of(parent, Path::symlink_metadata)?)?;
    }
    folders.next().map_or(Ok(()), check_directories_above)
}

/// Checks every directory on the path to this one, following links as the kernel does.
fn check_directories_above(folder: &Path) -> Result<(), TrustError> {
    let mut real = PathBuf::from("/");
    let mut links_left = 40; // limit of the kernel
    let mut rest: Vec<_> = folder.iter().skip(1).map(ToOwned::to_owned).collect();
    rest.reverse();
    let root = metadata_of(&real, Path::symlink_metadata)?;
    // The owner of `/` controls the machine. In a user namespace without root that is not uid 0 but an
    // unmapped uid.
    let system = root.uid();
    check_writers(&real, &root)?;
    while let Some(part) = rest.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        let metadata = metadata_of(&next, Path::symlink_metadata)?;
        if metadata.uid() != system {
            check_owner(&next, &metadata)?;
        }
        if !metadata.is_symlink() {
            check_writers(&next, &metadata)?;
            real = next;
            continue;
        }
        if links_left == 0 {
            return Err(TrustError::Link(next));
        }
        links_left -= 1;
        let unreadable = |error| TrustError::Unreadable { path: next.clone(), error };
        let target = std::fs::read_link(&next).map_err(unreadable)?;
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        rest.extend(target.iter().filter(|part| *part != "/" && *part != ".").map(ToOwned::to_owned).rev());
    }
    Ok(())
}

/// Checks write permission. In a sticky directory, users cannot rename entries of other users.
fn check_writers(folder: &Path, metadata: &Metadata) -> Result<(), TrustError> {
    match (metadata.mode() & 0o1000, metadata.mode() & 0o022) {
        (0, 0o020) => Err(writable_error(folder, metadata, "its group, and so can its contents")),
        (0, 0o002 | 0o022) => Err(writable_error(folder, metadata, "everyone, and so can its contents")),
        _ => Ok(()),
    }
}

fn metadata_of(path: &Path, how: impl Fn(&Path) -> io::Result<Metadata>) -> Result<Metadata, TrustError> {
    how(path).map_err(|error| TrustError::Unreadable { path: path.to_owned(), error })
}

fn check_object(path: &Path, metadata: &Metadata) -> Result<(), TrustError> {
    if metadata.is_symlink() {
        return Err(TrustError::Link(path.to_owned()));
    }
    check_owner(path, metadata)?;
    match metadata.mode() & 0o022 {
        0 => Ok(()),
        0o020 => Err(writable_error(path, metadata, "its group")),
        0o002 => Err(writable_error(path, metadata, "everyone")),
        _ => Err(writable_error(path, metadata, "its group and everyone")),
    }
}

fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), TrustError> {
    let us = rustix::process::geteuid().as_raw();
    if metadata.uid() != us && metadata.uid() != 0 {
        return Err(TrustError::Owner { path: path.to_owned(), owner: metadata.uid(), us });
    }
    Ok(())
}

fn writable_error(path: &Path, metadata: &Metadata, writers: &'static str) -> TrustError {
    TrustError::Writable { path: path.to_owned(), mode: metadata.mode() & 0o7777, writers }
}

/// Quotes a path for a shell command.
fn shell_quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn mode(path: &Path, bits: u32) {
        fs::set_permissions(path, Permissions::from_mode(bits)).unwrap();
    }

    /// Creates `outer/inner/policy.yaml`, applies `spoil`, and asserts that the error contains `expect`.
    fn check(spoil: impl Fn(&Path, &Path, &Path), expect: &str) {
        let root = tempfile::tempdir().unwrap();
        let outer = root.path().join("outer");
        let inner = outer.join("inner");
        let file = inner.join("policy.yaml");
        fs::create_dir_all(&inner).unwrap();
        fs::write(&file, "a: 1\n").unwrap();
        mode(&outer, 0o755);
        mode(&inner, 0o755);
        mode(&file, 0o644);
        check_trusted(&file).unwrap();
        spoil(&outer, &inner, &file);
        let error = check_trusted(&file).unwrap_err();
        let text = format!("{error}; {}", error.remedy().unwrap_or_default());
        assert!(text.contains(expect), "`{expect}` is not in `{text}`");
        let error = Document::read_trusted(&file).unwrap_err();
        assert!(error.suggestion.is_some() || error.message == "does not exist", "{error}");
    }

    use crate::Document;

    #[test]
    fn each_wrong_permission_is_named_with_its_fix() {
        check(|_, _, file| mode(file, 0o664), "mode 0664: it can be changed by its group; chmod go-w '");
        check(|_, _, file| mode(file, 0o602), "mode 0602: it can be changed by everyone");
        check(|_, inner, _| mode(inner, 0o775), "inner` has mode 0775: it can be changed by its group");
        check(|_, inner, _| mode(inner, 0o1777), "its group and everyone");
        check(|outer, _, _| mode(outer, 0o757), "outer` has mode 0757: it can be changed by everyone");
        check(
            |outer, _, _| mode(outer, 0o770),
            "outer` has mode 0770: it can be changed by its group, and so",
        );
        check(|_, _, file| fs::remove_file(file).unwrap(), "No such file");
    }

    #[test]
    fn links_are_refused() {
        let relink = |path: &Path| {
            let real = path.with_file_name("real");
            fs::rename(path, &real).unwrap();
            symlink(&real, path).unwrap();
        };
        check(|_, _, file| relink(file), "policy.yaml` is a symbolic link");
        check(|_, inner, _| relink(inner), "inner` is a symbolic link");
    }

    #[test]
    fn foreign_owner_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return ::tests::left_out("only root can give a file away");
        }
        check(
            |_, _, file| chown(file, Some(12345), None).unwrap(),
            "belongs to uid 12345, not to uid 0 or root",
        );
        check(|_, inner, _| chown(inner, Some(12345), None).unwrap(), "inner` belongs to uid 12345");
        check(|outer, _, _| chown(outer, Some(12345), None).unwrap(), "outer` belongs to uid 12345");
    }

    #[test]
    fn link_above_is_trusted_like_its_target_path() {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().join("real/open/home/config");
        fs::create_dir_all(&real).unwrap();
        fs::write(real.join("f"), "a: 1\n").unwrap();
        mode(&real.join("f"), 0o600);
        symlink("real/open/home", root.path().join("link")).unwrap();
        let file = root.path().join("link/config/f");
        for (bits, trusted) in [(0o755, true), (0o775, false), (0o1777, true)] {
            mode(&root.path().join("real/open"), bits);
            assert_eq!(check_trusted(&file).is_ok(), trusted, "{bits:o}");
        }
    }

    #[test]
    fn sticky_directories_above_are_trusted() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("inner");
        fs::create_dir(&inner).unwrap();
        mode(root.path(), 0o1777);
        fs::write(inner.join("f"), "a: 1\n").unwrap();
        mode(&inner, 0o700);
        mode(&inner.join("f"), 0o600);
        check_trusted(&inner.join("f")).unwrap();
    }
}
