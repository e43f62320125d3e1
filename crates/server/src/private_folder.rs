//! Folders that only this user may enter. A new folder is private from its creation. An existing folder is
//! checked and never changed, because its permissions may be intended.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use crate::error::ServeError;

const STICKY: u32 = 0o1000;

/// Creates the folder with mode 0700, or checks an existing one like `check`.
pub(crate) fn ensure(path: &Path) -> Result<(), ServeError> {
    match create_private(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => {
            let parent = path.parent().unwrap_or(path);
            let made = DirBuilder::new().recursive(true).mode(0o700).create(parent);
            made.map_err(|cause| ServeError::io("create the folder", parent, cause))?;
            create_private(path).map_err(|cause| ServeError::io("create the folder", path, cause))?;
        }
        made => made.map_err(|cause| ServeError::io("create the folder", path, cause))?,
    }
    check(path)
}

/// Creates one folder. An existing one is not changed.
fn create_private(path: &Path) -> std::io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        // The umask may have removed permissions of the owner; this restores them.
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o700)),
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(cause) => Err(cause),
    }
}

/// Checks that the folder is owned by this user, private, and not a symbolic link.
pub(crate) fn check(path: &Path) -> Result<(), ServeError> {
    let facts = fs::symlink_metadata(path).map_err(|cause| ServeError::io("inspect", path, cause))?;
    if facts.is_symlink() {
        let remedy = format!("rm '{}'", path.display());
        return Err(unsafe_folder_error(path, "it is a symbolic link", &remedy));
    }
    if !facts.is_dir() {
        return Err(unsafe_folder_error(
            path,
            "it is not a folder",
            &format!("mv '{0}' '{0}.old'", path.display()),
        ));
    }
    check_owner(path, &facts, &[own_uid()])?;
    let open = facts.mode() & 0o077;
    if open != 0 {
        let reason = format!("others may enter it (mode {:04o})", facts.mode() & 0o7777);
        return Err(unsafe_folder_error(path, &reason, &format!("chmod 700 '{}'", path.display())));
    }
    check_parent(path)
}

/// Checks the parent folder: a user who may write to it could replace this folder. The sticky bit prevents
/// that.
fn check_parent(path: &Path) -> Result<(), ServeError> {
    let Some(parent) = path.parent() else { return Ok(()) };
    let facts = fs::metadata(parent).map_err(|cause| ServeError::io("inspect", parent, cause))?;
    check_owner(parent, &facts, &[own_uid(), 0])?;
    if facts.mode() & STICKY != 0 {
        return Ok(());
    }
    check_not_writable(parent, &facts)
}

fn check_not_writable(path: &Path, facts: &Metadata) -> Result<(), ServeError> {
    if facts.mode() & 0o022 == 0 {
        return Ok(());
    }
    let reason = format!("others may change what is in it (mode {:04o})", facts.mode() & 0o7777);
    Err(unsafe_folder_error(path, &reason, &format!("chmod go-w '{}'", path.display())))
}

fn check_owner(path: &Path, facts: &Metadata, trusted: &[u32]) -> Result<(), ServeError> {
    if trusted.contains(&facts.uid()) {
        return Ok(());
    }
    let reason = format!("it belongs to uid {}, and this is uid {}", facts.uid(), own_uid());
    Err(unsafe_folder_error(path, &reason, "set SINEW_HOME to a folder of your own"))
}

fn unsafe_folder_error(path: &Path, reason: &str, remedy: &str) -> ServeError {
    ServeError::UnsafeFolder { path: path.to_owned(), reason: reason.to_owned(), remedy: remedy.to_owned() }
}

/// Effective user id of this process.
pub(crate) fn own_uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn missing_parents_are_created_private() {
        let home = tempfile::tempdir().unwrap();
        let deep = home.path().join("a/b/run");
        ensure(&deep).unwrap();
        for folder in ["a", "a/b", "a/b/run"] {
            assert_eq!(mode_of(&home.path().join(folder)), 0o700, "{folder}");
        }
        ensure(&deep).unwrap();
    }

    #[test]
    fn folder_open_to_others_is_refused_unchanged() {
        let home = tempfile::tempdir().unwrap();
        let check = |name: &str, reason: &str, remedy: &str| {
            let path = home.path().join(name);
            let ServeError::UnsafeFolder { reason: text, remedy: offered, .. } = ensure(&path).unwrap_err()
            else {
                panic!("{name}: another error")
            };
            assert!(text.contains(reason), "{name}: {text}");
            assert!(offered.contains(remedy), "{name}: {offered}");
        };
        for (name, mode) in [("group", 0o750), ("other", 0o701), ("open", 0o777)] {
            fs::create_dir(home.path().join(name)).unwrap();
            fs::set_permissions(home.path().join(name), Permissions::from_mode(mode)).unwrap();
            check(name, "others may enter it", "chmod 700");
            assert_eq!(mode_of(&home.path().join(name)), mode, "the folder was changed");
        }
        fs::create_dir(home.path().join("target")).unwrap();
        symlink(home.path().join("target"), home.path().join("link")).unwrap();
        check("link", "symbolic link", "rm");
        fs::write(home.path().join("file"), "").unwrap();
        check("file", "not a folder", "mv");
    }

    #[test]
    fn writable_parent_is_refused_unless_sticky() {
        let home = tempfile::tempdir().unwrap();
        let parent = home.path().join("shared");
        ensure(&parent.join("run")).unwrap();
        fs::set_permissions(&parent, Permissions::from_mode(0o777)).unwrap();
        let message = ensure(&parent.join("run")).unwrap_err().to_string();
        assert!(message.contains("others may change what is in it (mode 0777)"), "{message}");
        fs::set_permissions(&parent, Permissions::from_mode(0o1777)).unwrap();
        ensure(&parent.join("run")).unwrap();
    }

    #[test]
    fn foreign_owner_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let facts = fs::metadata(home.path()).unwrap();
        check_owner(home.path(), &facts, &[own_uid()]).unwrap();
        let message = check_owner(home.path(), &facts, &[own_uid() + 1]).unwrap_err().to_string();
        assert!(message.contains(&format!("belongs to uid {}", own_uid())), "{message}");
    }
}
