//! Socket activation: takes over listening sockets that a service manager opened before it started the
//! daemon. Clients can connect while the daemon is down, and the socket files belong to the manager. Sockets
//! are matched by their path.

use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::error::ServeError;

/// Inherited listening sockets that have not been taken yet.
pub(crate) struct InheritedSockets(Vec<UnixListener>);

impl InheritedSockets {
    /// Collects the sockets passed by the service manager; empty if none started the daemon. A second call
    /// returns nothing, because the descriptors are consumed.
    pub(crate) fn from_service_manager() -> Self {
        InheritedSockets(inherited_listeners())
    }

    /// Takes the socket bound to `path`, if there is one. A socket that other users may connect to is
    /// refused.
    pub(crate) fn take(&mut self, path: &Path) -> Result<Option<UnixListener>, ServeError> {
        let is_it = |listener: &UnixListener| {
            listener.local_addr().is_ok_and(|address| address.as_pathname() == Some(path))
        };
        let Some(found) = self.0.iter().position(is_it) else { return Ok(None) };
        let listener = self.0.swap_remove(found);
        let failed = |cause| ServeError::io("take over the socket", path, cause);
        let mode = std::fs::symlink_metadata(path).map_err(failed)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(ServeError::InsecureSocket { path: path.to_owned(), mode });
        }
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Some(listener))
    }
}

/// Returns the sockets of the launchd job, by the names in its property list.
#[cfg(target_os = "macos")]
fn inherited_listeners() -> Vec<UnixListener> {
    let given = ["agent", "control"].into_iter().filter_map(|name| raunch::activate_socket(name).ok());
    given.flatten().map(into_listener).collect()
}

#[cfg(target_os = "macos")]
#[allow(unsafe_code)] // launchd passes raw descriptor numbers
fn into_listener(descriptor: i32) -> UnixListener {
    use std::os::fd::{FromRawFd, OwnedFd};
    // SAFETY: launchd passes each descriptor to this process once, and no other code here holds it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // Programs started by a call must not inherit the sockets of the daemon that judges them.
    let _ = rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC);
    UnixListener::from(descriptor)
}

/// Returns the inherited Unix listeners and skips every other kind of descriptor.
#[cfg(not(target_os = "macos"))]
fn inherited_listeners() -> Vec<UnixListener> {
    let mut given = listenfd::ListenFd::from_env();
    (0..given.len()).filter_map(|index| given.take_unix_listener(index).ok().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn inherited_socket_matches_by_path_and_must_be_private() {
        let folder = tempfile::tempdir().unwrap();
        let [agent, control] = ["a.sock", "c.sock"].map(|name| folder.path().join(name));
        let mut inherited =
            InheritedSockets([&agent, &control].map(|path| UnixListener::bind(path).unwrap()).into());
        assert!(inherited.take(&folder.path().join("other.sock")).unwrap().is_none());
        let mode = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&agent, mode(0o600)).unwrap();
        let taken = inherited.take(&agent).unwrap().unwrap();
        assert_eq!(taken.local_addr().unwrap().as_pathname(), Some(agent.as_path()));
        assert!(inherited.take(&agent).unwrap().is_none(), "taken once");
        std::fs::set_permissions(&control, mode(0o666)).unwrap();
        let error = inherited.take(&control).unwrap_err();
        assert!(error.to_string().contains("666"), "{error}");
    }
}
