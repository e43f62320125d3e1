//! File with the bearer token that HTTP clients send. Only its owner can read it.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

use crate::exit::{CommandError, ExitKind};

/// Name of the file in the folder of the sockets.
pub(super) const DEFAULT_NAME: &str = "http.token";
/// Shortest accepted token, in bytes.
const MIN_TOKEN_BYTES: usize = 32;
/// Longest accepted token, in bytes.
const MAX_TOKEN_BYTES: u64 = 4096;

/// Reads the token, or creates the file with a random one.
pub(super) fn read_or_create(path: &Path) -> Result<String, CommandError> {
    match open(path) {
        Ok(file) => read(file, path),
        Err(error) if error.kind() == ErrorKind::NotFound => create(path),
        Err(error) => Err(unusable(path, &error.to_string())),
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    // Without `O_NONBLOCK`, opening a FIFO would wait for its writer.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)
}

fn read(file: File, path: &Path) -> Result<String, CommandError> {
    let facts = file.metadata().map_err(|error| unusable(path, &error.to_string()))?;
    if !facts.is_file() {
        return Err(unusable(path, "it is not a file"));
    }
    if facts.uid() != nix::unistd::geteuid().as_raw() {
        return Err(unusable(path, "it belongs to another user"));
    }
    let mode = facts.mode() & 0o777;
    if mode & 0o077 != 0 {
        let problem = format!("others may read or change it (mode {mode:04o})");
        return Err(unusable(path, &problem).with_hint(format!("chmod 600 '{}'", path.display())));
    }
    let mut text = String::new();
    file.take(MAX_TOKEN_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| unusable(path, &error.to_string()))?;
    let token = text.trim();
    if token.len() < MIN_TOKEN_BYTES || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let problem = format!("it must hold at least {MIN_TOKEN_BYTES} printable characters");
        return Err(unusable(path, &problem).with_hint("remove the file, and a new token is created"));
    }
    Ok(token.to_owned())
}

fn create(path: &Path) -> Result<String, CommandError> {
    let token: String = (0..2).map(|_| uuid::Uuid::new_v4().simple().to_string()).collect();
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| writeln!(file, "{token}"))
        .map_err(|error| unusable(path, &error.to_string()))?;
    Ok(token)
}

fn unusable(path: &Path, problem: &str) -> CommandError {
    CommandError::new(
        ExitKind::BadConfiguration,
        format!("cannot use the token file `{}`: {problem}", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn token_file_is_private_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = read_or_create(&path).unwrap();
        assert!(token.len() >= 64, "{token}");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(read_or_create(&path).unwrap(), token, "the next start uses the same token");
        for mode in [0o640, 0o604, 0o620] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let error = read_or_create(&path).unwrap_err();
            assert!(error.message.contains("others may read or change it"), "{}", error.message);
        }
    }

    #[test]
    fn links_and_short_tokens_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("token"), folder.path().join("link"));
        read_or_create(&path).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(read_or_create(&link).is_err());
        std::fs::write(&path, "short").unwrap();
        assert!(read_or_create(&path).unwrap_err().message.contains("at least 32"));
        assert!(read_or_create(folder.path()).is_err());
    }

    #[test]
    fn fifo_is_refused_without_waiting_for_a_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(read_or_create(&path).unwrap_err().message));
        let message = receiver.recv_timeout(std::time::Duration::from_secs(10)).expect("it does not wait");
        assert!(message.contains("it is not a file"), "{message}");
    }
}
