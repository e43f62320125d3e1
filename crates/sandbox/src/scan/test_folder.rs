//! Temporary folder for tests of the directory scan.

use std::path::PathBuf;

pub(crate) struct TestFolder {
    _folder: tempfile::TempDir,
    pub(crate) root: PathBuf,
}

impl TestFolder {
    /// Creates these folders, and these files, each of which contains its name.
    pub(crate) fn with(folders: &[&str], files: &[&str]) -> TestFolder {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        folders.iter().for_each(|name| std::fs::create_dir_all(root.join(name)).unwrap());
        files.iter().for_each(|name| std::fs::write(root.join(name), name).unwrap());
        TestFolder { _folder: folder, root }
    }

    pub(crate) fn set_mode(&self, name: &str, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(self.root.join(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn mode(&self, name: &str) -> u32 {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(self.root.join(name)).unwrap().permissions().mode() & 0o777
    }
}
