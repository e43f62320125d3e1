//! Inherited sockets: takes over listening sockets that a service manager opened before it started the
//! daemon, or that the earlier program of this process handed over. Clients can connect while the daemon is down, and the socket files belong to the manager. Sockets
//! are matched by their path.

use std::io::ErrorKind;
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
use crate::hand_over::{self, HandedOverOwner};
use crate::socket::SocketFileOwner;

/// Inherited listening sockets that have not been taken yet.
pub(crate) struct InheritedSockets {
    listeners: Vec<UnixListener>,
    /// Owner of their files.
    owner: HandedOverOwner,
}

impl InheritedSockets {
    /// Collects the sockets that the earlier program of this process handed over, or else those that the service
    /// manager passed; empty if there are none. A second call returns nothing, because the descriptors are consumed.
    pub(crate) fn from_environment() -> Self {
        match hand_over::take_sockets() {
            Some((owner, given)) => {
                InheritedSockets { listeners: given.into_iter().map(UnixListener::from).collect(), owner }
            }
            None => {
                InheritedSockets { listeners: inherited_listeners(), owner: HandedOverOwner::ServiceManager }
            }
        }
    }

    /// Takes the socket bound to `path`, if there is one. A socket that other users may connect to is
    /// refused.
    pub(crate) fn take(
        &mut self,
        path: &Path,
    ) -> Result<Option<(UnixListener, SocketFileOwner)>, ServeError> {
        let is_it = |listener: &UnixListener| {
            listener.local_addr().is_ok_and(|address| address.as_pathname() == Some(path))
        };
        let Some(found) = self.listeners.iter().position(is_it) else { return Ok(None) };
        let listener = self.listeners.swap_remove(found);
        let failed = |cause| ServeError::io("take over the socket", path, cause);
        let facts = match std::fs::symlink_metadata(path) {
            // The file was removed during the hand-over, so no client can connect: the socket is bound again.
            Err(error) if error.kind() == ErrorKind::NotFound && self.owner == HandedOverOwner::Daemon => {
                return Ok(None);
            }
            facts => facts.map_err(failed)?,
        };
        let mode = facts.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(ServeError::InsecureSocket { path: path.to_owned(), mode });
        }
        listener.set_nonblocking(true).map_err(failed)?;
        let owner = match self.owner {
            HandedOverOwner::Daemon => SocketFileOwner::daemon_file(&facts),
            HandedOverOwner::ServiceManager => SocketFileOwner::ServiceManager,
        };
        Ok(Some((listener, owner)))
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
        let mut inherited = InheritedSockets {
            listeners: [&agent, &control].map(|path| UnixListener::bind(path).unwrap()).into(),
            owner: HandedOverOwner::ServiceManager,
        };
        assert!(inherited.take(&folder.path().join("other.sock")).unwrap().is_none());
        let mode = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&agent, mode(0o600)).unwrap();
        let (taken, owner) = inherited.take(&agent).unwrap().unwrap();
        assert_eq!(owner, SocketFileOwner::ServiceManager);
        assert_eq!(taken.local_addr().unwrap().as_pathname(), Some(agent.as_path()));
        assert!(inherited.take(&agent).unwrap().is_none(), "taken once");
        std::fs::set_permissions(&control, mode(0o666)).unwrap();
        let error = inherited.take(&control).unwrap_err();
        assert!(error.to_string().contains("666"), "{error}");
    }

    #[test]
    fn handed_over_socket_without_its_file_is_bound_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let listeners = || vec![UnixListener::bind(&path).unwrap()];
        let take = |owner| {
            let mut inherited = InheritedSockets { listeners: listeners(), owner };
            std::fs::remove_file(&path).unwrap();
            inherited.take(&path)
        };
        assert!(take(HandedOverOwner::Daemon).unwrap().is_none());
        take(HandedOverOwner::ServiceManager).unwrap_err();
        let mut inherited = InheritedSockets { listeners: listeners(), owner: HandedOverOwner::Daemon };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let (_, owner) = inherited.take(&path).unwrap().unwrap();
        assert_ne!(owner, SocketFileOwner::ServiceManager, "the daemon removes the file when it stops");
    }

    #[test]
    fn launchd_sockets_are_taken_over_without_inheritance() {
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
