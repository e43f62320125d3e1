//! Opens the console in a browser. The command line of a process is visible to other users, so the browser gets the
//! path of a private file that redirects to the link.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Time after which the code in the file is void, and the file is removed.
const FILE_LIFETIME: Duration = Duration::from_secs(60);
#[cfg(target_os = "macos")]
const OPENER: &str = "open";
#[cfg(not(target_os = "macos"))]
const OPENER: &str = "xdg-open";

/// Private file that redirects to the link. It is removed when it is dropped.
pub(super) struct RedirectFile {
    path: PathBuf,
}

impl RedirectFile {
    pub(super) fn new(folder: &Path) -> RedirectFile {
        RedirectFile { path: folder.join(format!("console-{}.html", std::process::id())) }
    }

    /// Writes the file and opens it in the browser of the desktop.
    pub(super) fn open(&self, link: &str) -> std::io::Result<()> {
        self.write(link)?;
        let mut opener = Command::new(OPENER);
        opener.arg(&self.path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut opener =
            opener.spawn().map_err(|error| std::io::Error::other(format!("{OPENER}: {error}")))?;
        // A browser that was not running yet may stay the child for hours.
        std::thread::spawn(move || opener.wait());
        Ok(())
    }

    fn write(&self, link: &str) -> std::io::Result<()> {
        // A file of an earlier process with this id would be written through a link or with other permissions.
        let _ = std::fs::remove_file(&self.path);
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.path)?;
        writeln!(
            file,
            "<!doctype html><meta charset=utf-8><meta name=referrer content=no-referrer>\
             <meta http-equiv=refresh content=\"0;url={link}\"><title>Sinew</title>"
        )
    }

    /// Removes the file once its code is void.
    pub(super) async fn remove_later(&self) -> ! {
        tokio::time::sleep(FILE_LIFETIME).await;
        let _ = std::fs::remove_file(&self.path);
        std::future::pending().await
    }
}

impl Drop for RedirectFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn redirect_file_is_private_and_temporary() {
        let folder = tempfile::tempdir().unwrap();
        let file = RedirectFile::new(folder.path());
        std::fs::write(&file.path, "an earlier process").unwrap();
        file.write("http://localhost:1/#code").unwrap();
        let path = file.path.clone();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(std::fs::read_to_string(&path).unwrap().contains("url=http://localhost:1/#code\""));
        drop(file);
        assert!(!path.exists());
    }
}
