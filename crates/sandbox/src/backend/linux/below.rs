//! The processes below a launcher, held by handles that no other process takes over: its end is not theirs where it was
//! killed, because they hear of it from the kernel and then end in their own time.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::launcher::NAME;

/// The children of a process.
#[derive(Debug, Default)]
pub(crate) struct Below {
    handles: Vec<OwnedFd>,
}

impl Below {
    pub(crate) fn of(process: u32) -> Below {
        let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
        let children = children.unwrap_or_default();
        let ids = children.split_whitespace().filter_map(|word| word.parse().ok());
        Below { handles: ids.filter_map(handle).collect() }
    }

    /// Waits until they are gone, for each as long as this. The first of a namespace goes after everybody else in it.
    pub(crate) fn await_end(&self, longest: Duration) {
        self.handles.iter().for_each(|handle| await_one(handle, longest));
    }
}

fn await_one(handle: &OwnedFd, longest: Duration) {
    let longest = Timespec { tv_sec: i64::try_from(longest.as_secs()).unwrap_or(1), tv_nsec: 0 };
    let _ = poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&longest));
}

fn handle(process: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(process)?, PidfdFlags::empty()).ok()
}

/// Waits until a launcher of another daemon is gone, if there still is one of this number. Its daemon is, so it ends.
pub(crate) fn await_launcher(process: u32, longest: Duration) {
    let Some(handle) = i32::try_from(process).ok().and_then(handle) else { return };
    let words = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    if words.split(|byte| *byte == 0).next() != Some(NAME.as_bytes()) {
        return;
    }
    await_one(&handle, longest);
}
