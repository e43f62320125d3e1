//! Atomic replacement of private files: a reader finds the old content or the new, also after a power
//! failure.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Creates or replaces a file with mode 0600. Creates missing parent directories with mode 0700. Blocks until
/// the file and its directory entry are on disk.
pub fn replace_private_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other("the path has no parent directory"))?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let draft = temporary_path(path);
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().inspect_err(|_| {
        // Removes the incomplete temporary file; the original error is more useful than one from here.
        let _ = fs::remove_file(&draft);
    })?;
    File::open(folder)?.sync_all()
}

/// Returns a temporary name that is unique across threads and processes.
fn temporary_path(path: &Path) -> PathBuf {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(path.as_os_str());
    name.push(format!(".{}-{}.new", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed)));
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn file_is_replaced_with_private_permissions() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a/b/file");
        replace_private_file(&file, b"one").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        replace_private_file(&file, b"two").unwrap();
        assert_eq!((fs::read(&file).unwrap().as_slice(), mode(&file)), (b"two".as_slice(), 0o600));
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn symlink_is_replaced_and_failure_leaves_no_file() {
        let root = tempfile::tempdir().unwrap();
        let (other, link) = (root.path().join("other"), root.path().join("link"));
        fs::write(&other, "theirs").unwrap();
        symlink(&other, &link).unwrap();
        replace_private_file(&link, b"ours").unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"theirs");
        let folder = root.path().join("folder");
        fs::create_dir(&folder).unwrap();
        assert!(replace_private_file(&folder, b"x").is_err(), "a directory cannot be replaced");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 3);
    }
}
