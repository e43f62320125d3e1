//! Sockets of a launchd job, by the names in its property list.

use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;

/// Returns all sockets under these names; empty if launchd did not start the daemon.
pub(super) fn sockets(names: [&str; 2]) -> Vec<UnixListener> {
    let given = names.into_iter().filter_map(|name| raunch::activate_socket(name).ok()).flatten();
    given.map(into_listener).collect()
}

#[allow(unsafe_code)] // launchd passes raw descriptor numbers
fn into_listener(descriptor: i32) -> UnixListener {
    // SAFETY: launchd passes each descriptor to this process once, and no other code here holds it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // Programs started by a call must not inherit the sockets of the daemon that judges them.
    let _ = rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC);
    UnixListener::from(descriptor)
}
