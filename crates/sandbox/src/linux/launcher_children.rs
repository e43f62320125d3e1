//! Pidfds of the processes below a launcher, to wait for their end; unlike process ids they are never reused.
//! When a launcher is killed, its children receive the parent death signal from the kernel and end a little
//! later than the launcher.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::launch::launcher::LAUNCHER_NAME;

/// Direct children of a process, as pidfds.
#[derive(Debug, Default)]
pub(crate) struct LauncherChildren {
    handles: Vec<OwnedFd>,
}

impl LauncherChildren {
    pub(crate) fn of(process: u32) -> LauncherChildren {
        let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
        let children = children.unwrap_or_default();
        let ids = children.split_whitespace().filter_map(|word| word.parse().ok());
        LauncherChildren { handles: ids.filter_map(open_pidfd).collect() }
    }

    /// Waits until each child has ended, at most this long for each one. The init process of a namespace ends
    /// after all other processes in it.
    pub(crate) fn wait(&self, longest: Duration) {
        self.handles.iter().for_each(|handle| wait_one(handle, longest));
    }
}

fn wait_one(handle: &OwnedFd, longest: Duration) {
    let longest = Timespec { tv_sec: i64::try_from(longest.as_secs()).unwrap_or(1), tv_nsec: 0 };
    let _ = poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&longest));
}

fn open_pidfd(process: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(process)?, PidfdFlags::empty()).ok()
}

/// Waits for a launcher of an earlier daemon, if a launcher with this process id still exists. Its daemon is
/// gone, so it ends.
pub(crate) fn wait_for_launcher(process: u32, longest: Duration) {
    let Some(handle) = i32::try_from(process).ok().and_then(open_pidfd) else { return };
    let cmdline = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    if cmdline.split(|byte| *byte == 0).next() != Some(LAUNCHER_NAME.as_bytes()) {
        return;
    }
    wait_one(&handle, longest);
}
