//! Listening socket and its file: bound in a private folder, replaced only if no process listens on it, and
//! removed only if it is still the file that this process created.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{UnixListener, UnixSocket, UnixStream};

use crate::activation::InheritedSockets;
use crate::error::ServeError;
use crate::lock::StateLock;

/// Length of the listen backlog.
const LISTEN_BACKLOG: u32 = 1024;
/// Interval at which the socket file is checked. Cleanup jobs of the system may remove it; they run far less
/// often.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(20);

/// Listening socket and its file. The file is removed on drop.
#[derive(Debug)]
pub(crate) struct BoundSocket {
    listener: UnixListener,
    path: PathBuf,
    owner: SocketFileOwner,
}

/// Owner of a socket file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SocketFileOwner {
    /// This process; identifies the file it created.
    Daemon { device: u64, inode: u64 },
    /// The service manager, which keeps the file for the next daemon.
    ServiceManager,
}

impl BoundSocket {
    /// Takes the inherited socket for this path, or binds a new one.
    pub(crate) async fn inherit_or_bind(
        path: &Path,
        inherited: &mut InheritedSockets,
        lock: &StateLock,
    ) -> Result<Self, ServeError> {
        let Some((given, owner)) = inherited.take(path)? else { return Self::bind(path, lock).await };
        let listener =
            UnixListener::from_std(given).map_err(|cause| ServeError::io("listen on", path, cause))?;
        Ok(BoundSocket { listener, path: path.to_owned(), owner })
    }

    /// Binds, after removing a stale socket. The lock proves that no other starting process is between the
    /// check of the old file and its removal.
    pub(crate) async fn bind(path: &Path, _lock: &StateLock) -> Result<Self, ServeError> {
        remove_stale_socket(path).await?;
        Self::bind_new(path)
    }

    /// Binds to a path where no file exists. An existing file is an error and is not changed.
    pub(crate) fn bind_new(path: &Path) -> Result<Self, ServeError> {
        let failed = |cause| ServeError::io("bind the socket", path, cause);
        let socket = UnixSocket::new_stream().map_err(failed)?;
        socket.bind(path).map_err(failed)?;
        // The umask determines the initial mode; `listen` comes after the mode is correct, so no one connects
        // before.
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
        let listener = socket.listen(LISTEN_BACKLOG).map_err(failed)?;
        let facts = fs::symlink_metadata(path).map_err(failed)?;
        Ok(BoundSocket { listener, path: path.to_owned(), owner: SocketFileOwner::daemon_file(&facts) })
    }

    pub(crate) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    pub(crate) fn owner(&self) -> &SocketFileOwner {
        &self.owner
    }

    /// Waits until the file has been removed or replaced, so that clients cannot connect any more. Never
    /// returns for an inherited socket, whose file the service manager maintains.
    pub(crate) async fn wait_until_removed(&self) {
        if self.owner == SocketFileOwner::ServiceManager {
            return std::future::pending().await;
        }
        while self.file_is_unchanged() {
            tokio::time::sleep(FILE_CHECK_INTERVAL).await;
        }
    }

    fn file_is_unchanged(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|facts| SocketFileOwner::daemon_file(&facts) == self.owner)
    }
}

impl SocketFileOwner {
    pub(crate) fn daemon_file(facts: &fs::Metadata) -> Self {
        SocketFileOwner::Daemon { device: facts.dev(), inode: facts.ino() }
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        if self.file_is_unchanged() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket file that no process listens on. Any other file is an error and is not changed.
async fn remove_stale_socket(path: &Path) -> Result<(), ServeError> {
    let facts = match fs::symlink_metadata(path) {
        Ok(facts) => facts,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(ServeError::io("inspect", path, cause)),
    };
    if !facts.file_type().is_socket() {
        return Err(ServeError::NotASocket { path: path.to_owned() });
    }
    match UnixStream::connect(path).await {
        Err(cause) if cause.kind() == ErrorKind::ConnectionRefused => {
            tracing::info!(path = %path.display(), "stale_socket_removed");
            fs::remove_file(path).map_err(|cause| ServeError::io("remove the stale socket", path, cause))
        }
        // A full backlog belongs to a live socket too: only a refused connection proves that no process
        // listens.
        connected => {
            let peer = connected.ok().and_then(|stream| stream.peer_cred().ok());
            Err(ServeError::SocketInUse { pid: peer.and_then(|peer| peer.pid()), path: path.to_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::SinewHome;

    fn home() -> (tempfile::TempDir, SinewHome, StateLock) {
        let folder = tempfile::tempdir().unwrap();
        let home = SinewHome::from_root(folder.path()).unwrap();
        home.prepare().unwrap();
        let lock = StateLock::acquire(&home).unwrap();
        (folder, home, lock)
    }

    #[tokio::test]
    async fn socket_is_private_and_removed_on_drop() {
        let (_folder, home, lock) = home();
        let path = home.agent_socket();
        let bound = BoundSocket::bind(&path, &lock).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        UnixStream::connect(&path).await.unwrap();
        drop(bound);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn stale_socket_is_replaced_and_live_one_is_kept() {
        let (_folder, home, lock) = home();
        let path = home.agent_socket();
        // Closing the listener leaves its file behind, as a crash does.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let bound = BoundSocket::bind(&path, &lock).await.unwrap();
        let ServeError::SocketInUse { pid, .. } = BoundSocket::bind(&path, &lock).await.unwrap_err() else {
            panic!("another error")
        };
        assert_eq!(pid, i32::try_from(std::process::id()).ok());
        UnixStream::connect(&path).await.expect("the live socket was left alone");
        drop(bound);
    }

    #[tokio::test]
    async fn foreign_files_are_left_alone() {
        let (_folder, home, lock) = home();
        let path = home.control_socket();
        fs::write(&path, "precious").unwrap();
        let error = BoundSocket::bind(&path, &lock).await.unwrap_err();
        assert!(matches!(error, ServeError::NotASocket { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
        let bound = BoundSocket::bind(&path, &lock).await.unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "someone else's").unwrap();
        drop(bound);
        assert_eq!(fs::read_to_string(&path).unwrap(), "someone else's");
    }

    #[tokio::test]
    async fn removed_file_is_noticed_and_managed_one_is_kept() {
        let (_folder, home, lock) = home();
        let path = home.agent_socket();
        let bound = BoundSocket::bind(&path, &lock).await.unwrap();
        assert!(bound.file_is_unchanged());
        fs::remove_file(&path).unwrap();
        bound.wait_until_removed().await;
        let listener = UnixListener::bind(&path).unwrap();
        let given = BoundSocket { listener, path: path.clone(), owner: SocketFileOwner::ServiceManager };
        drop(given);
        assert!(path.exists(), "the service manager keeps it for the next daemon");
    }
}
