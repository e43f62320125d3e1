//! Resource usage and I/O of a run. The kernel adds the counters of a process to those of its parent when it
//! is reaped, so the process that has reaped all others has the totals.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};

use crate::report::ResourceUsage;

/// I/O counters of this process. Opened before the mounts, which show another `/proc`.
#[derive(Debug)]
pub(crate) struct IoCounters {
    /// Counters of this process and all processes that it reaped.
    all: File,
    /// Counters of this thread alone.
    own: File,
}

impl IoCounters {
    pub(crate) fn open() -> io::Result<IoCounters> {
        Ok(IoCounters { all: File::open("/proc/self/io")?, own: File::open("/proc/thread-self/io")? })
    }

    /// Returns the bytes read and written by all reaped processes; 0 if the kernel does not count them.
    pub(crate) fn of_descendants(&self) -> (u64, u64) {
        let (all, own) = (counts(&self.all), counts(&self.own));
        (all.0.saturating_sub(own.0), all.1.saturating_sub(own.1))
    }
}

/// Returns the resource usage of all reaped processes.
pub(crate) fn children_usage(traffic: &IoCounters) -> io::Result<ResourceUsage> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = |value: nix::sys::time::TimeVal| {
        let seconds = u64::try_from(value.tv_sec()).unwrap_or(0);
        Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(value.tv_usec()).unwrap_or(0))
    };
    let (read_bytes, written_bytes) = traffic.of_descendants();
    Ok(ResourceUsage {
        cpu: time(usage.user_time()) + time(usage.system_time()),
        max_rss_bytes: u64::try_from(usage.max_rss()).unwrap_or(0) * 1024,
        read_bytes,
        written_bytes,
        processes: 0,
    })
}

fn counts(account: &File) -> (u64, u64) {
    let mut bytes = [0; 512];
    let read = account.read_at(&mut bytes, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()).into_owned();
    let count = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    (count("rchar:"), count("wchar:"))
}
