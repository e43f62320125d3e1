//! Files that are ours alone, put in place whole: whoever reads one finds what it held or what it holds, also after a
//! power failure.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Replaces a file, or makes it, so that only its owner can read it. Its folder is made where it is missing, for its owner
/// alone. Blocks until it is on disk.
pub fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other("a file without a folder"))?;
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let draft = draft_of(path);
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().inspect_err(|_| {
        // What is left of it is not what anybody looks for.
        let _ = fs::remove_file(&draft);
    })?;
    File::open(folder)?.sync_all()
}

/// A name that nobody else writes to, in this process or another.
fn draft_of(path: &Path) -> PathBuf {
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
    fn a_file_is_replaced_whole_and_is_ours_alone() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a/b/file");
        replace_private(&file, b"one").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        replace_private(&file, b"two").unwrap();
        assert_eq!((fs::read(&file).unwrap().as_slice(), mode(&file)), (b"two".as_slice(), 0o600));
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_link_is_replaced_and_not_followed_and_what_fails_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let (other, link) = (root.path().join("other"), root.path().join("link"));
        fs::write(&other, "theirs").unwrap();
        symlink(&other, &link).unwrap();
        replace_private(&link, b"ours").unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"theirs");
        let folder = root.path().join("folder");
        fs::create_dir(&folder).unwrap();
        assert!(replace_private(&folder, b"x").is_err(), "a folder is in its place");
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 3);
    }
}
