//! The sockets of a launchd job, by the names its property list gives them.

use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;

/// All sockets under these names; none where launchd did not start us.
pub(super) fn sockets(names: [&str; 2]) -> Vec<UnixListener> {
    let given = names.into_iter().filter_map(|name| raunch::activate_socket(name).ok()).flatten();
    given.map(own).collect()
}

#[allow(unsafe_code)] // launchd hands over bare numbers
fn own(descriptor: i32) -> UnixListener {
    // SAFETY: launchd gives each descriptor to this process once, and nothing else here knows it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    // Programs that a call starts must not inherit the door they are judged at.
    let _ = rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC);
    UnixListener::from(descriptor)
}
