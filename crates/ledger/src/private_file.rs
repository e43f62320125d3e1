//! Opening of private files: mode 0600, never through a symbolic link, in a folder with mode 0700 owned by
//! this user.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
};

use rustix::fs::OFlags;

use crate::LedgerError;

/// Creates a file for appending that must not exist yet.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    open_options().append(true).read(true).create_new(true).open(path)
}

/// Opens an existing file for appending, also if it is marked append-only (`chattr +a`).
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    require_regular_file(open_options().append(true).read(true).open(path)?)
}

/// Opens a file for writing in place, and creates it if needed.
pub(crate) fn open_to_overwrite(path: &Path) -> io::Result<File> {
    require_regular_file(open_options().write(true).read(true).create(true).truncate(false).open(path)?)
}

/// Opens a file for reading.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    require_regular_file(open_options().read(true).open(path)?)
}

fn open_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // NONBLOCK: opening a FIFO in place of a file must fail and not block.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    options.mode(0o600).custom_flags(i32::try_from(flags).unwrap_or_default());
    options
}

fn require_regular_file(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
    }
}

/// Creates the folder, or checks that this user owns it and removes access for others.
pub(crate) fn prepare_folder(path: &Path) -> Result<(), LedgerError> {
    let failed = |error| LedgerError::io("prepare the folder", path)(error);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    let found = fs::metadata(path).map_err(failed)?;
    let us = rustix::process::geteuid().as_raw();
    if found.uid() != us {
        return Err(LedgerError::NotOwned { path: path.to_owned(), owner: found.uid(), us });
    }
    if found.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}

/// Makes file names created in or removed from the folder durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_private_and_never_opened_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        prepare_folder(&inner).unwrap();
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o755)).unwrap();
        prepare_folder(&inner).unwrap();
        assert_eq!(fs::metadata(&inner).unwrap().permissions().mode() & 0o777, 0o700);

        let (file, link) = (inner.join("file"), inner.join("link"));
        create(&file).unwrap();
        assert!(create(&file).is_err(), "an existing file is never taken for a new one");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for opened in [open_to_append(&link), open_to_overwrite(&link), open_to_read(&link)] {
            assert!(opened.is_err());
        }
        assert!(open_to_read(&inner).is_err(), "a folder is not a file");
    }

    /// `chattr +a` allows only writes through a descriptor in append mode.
    #[test]
    fn segments_are_opened_in_append_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for file in [create(&path).unwrap(), open_to_append(&path).unwrap()] {
            assert!(rustix::fs::fcntl_getfl(&file).unwrap().contains(OFlags::APPEND));
        }
    }
}
