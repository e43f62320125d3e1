//! Socket activation: takes over listening sockets that a service manager opened before it started the
//! daemon. Clients can connect while the daemon is down, and the socket files belong to the manager. Sockets
//! are matched by their path.

#[cfg(any(target_os = "macos", test))]
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

#[cfg(any(target_os = "macos", test))]
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
#[cfg(any(target_os = "macos", test))]
use nix::sys::socket::{getsockopt, sockopt};

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

/// Names of the sockets in the property list of the launchd job.
#[cfg(any(target_os = "macos", test))]
const LAUNCHD_SOCKETS: [&str; 2] = ["agent", "control"];

/// Returns the sockets of the launchd job.
#[cfg(target_os = "macos")]
fn inherited_listeners() -> Vec<UnixListener> {
    launchd_listeners(|name| {
        Some(raunch::activate_socket(name).ok()?.into_iter().map(own_descriptor).collect())
    })
}

/// Returns the listening sockets among the descriptors that launchd gives for each name: none if it did not start
/// the daemon or does not know the name.
#[cfg(any(target_os = "macos", test))]
fn launchd_listeners(activate: impl Fn(&str) -> Option<Vec<OwnedFd>>) -> Vec<UnixListener> {
    let given = LAUNCHD_SOCKETS.into_iter().filter_map(activate).flatten();
    given.filter(is_listening).filter_map(into_listener).collect()
}

#[cfg(any(target_os = "macos", test))]
fn is_listening(descriptor: &OwnedFd) -> bool {
    getsockopt(descriptor, sockopt::AcceptConn).unwrap_or(false)
}

/// Programs started by a call must not inherit the sockets of the daemon that judges them, so a socket that cannot
/// be made close-on-exec is not used.
#[cfg(any(target_os = "macos", test))]
fn into_listener(descriptor: OwnedFd) -> Option<UnixListener> {
    fcntl(&descriptor, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).ok()?;
    Some(UnixListener::from(descriptor))
}

#[cfg(target_os = "macos")]
#[allow(unsafe_code)] // launchd passes raw descriptor numbers
fn own_descriptor(descriptor: i32) -> OwnedFd {
    use std::os::fd::FromRawFd;
    // SAFETY: launchd passes each descriptor to this process once, and no other code here holds it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
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

    #[test]
    fn listening_sockets_of_launchd_are_taken_over_without_inheritance() {
        let folder = tempfile::tempdir().unwrap();
        let [agent, control] = ["a.sock", "c.sock"].map(|name| folder.path().join(name));
        let listener = |path: &Path| OwnedFd::from(UnixListener::bind(path).unwrap());
        let asked = std::cell::RefCell::new(Vec::new());
        let given = |name: &str| {
            asked.borrow_mut().push(name.to_owned());
            let file = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
            let connected = OwnedFd::from(std::os::unix::net::UnixStream::pair().unwrap().0);
            let listening = listener(if name == "agent" { &agent } else { &control });
            fcntl(&listening, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
            Some(vec![file, connected, listening])
        };
        let taken = launchd_listeners(given);
        assert_eq!(*asked.borrow(), ["agent", "control"], "each once: launchd gives a socket only once");
        let paths: Vec<_> =
            taken.iter().map(|one| one.local_addr().unwrap().as_pathname().unwrap().to_owned()).collect();
        assert_eq!(paths, [agent.clone(), control], "a file and a connection are no listeners");
        for one in &taken {
            let flags = FdFlag::from_bits_retain(fcntl(one, FcntlArg::F_GETFD).unwrap());
            assert!(flags.contains(FdFlag::FD_CLOEXEC), "a program would inherit it");
        }
        // Started by hand (ESRCH), or with a property list that lacks a name (ENOENT).
        assert!(launchd_listeners(|_| None).is_empty());
        std::fs::remove_file(&agent).unwrap();
        let one = launchd_listeners(|name| (name == "agent").then(|| vec![listener(&agent)]));
        assert_eq!(one.len(), 1, "a missing name does not lose the other");
    }
}
