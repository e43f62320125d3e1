//! Monitor that samples the resource usage of a run. Each scan is split into short steps: the same thread
//! enforces the run's deadline, and the scanned process influences how long a scan takes.

use std::time::{Duration, Instant};

use nix::unistd::Pid;
use tool::result::SandboxTier;

use crate::launch::spec::RunLimits;
use crate::layers::{self, SandboxLayer};
use crate::linux::watcher::address_spaces::AddressSpaces;
use crate::linux::watcher::descendants;
use crate::linux::watcher::descendants::Descendants;
use crate::linux::watcher::kernel_memory::KernelMemoryScan;
use crate::linux::watcher::memory;
use crate::linux::watcher::memory::MemoryPages;
use crate::linux::watcher::proportional_memory::ProportionalCount;
use crate::report::RunEnd;

/// Sampling interval of memory. A process can take some hundred megabytes in this time.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// State that must be captured before the mounts of the run cover it.
pub(crate) struct MonitorBaseline {
    scratch: memory::ScratchUsage,
    spaces: AddressSpaces,
}

impl MonitorBaseline {
    pub(crate) fn capture() -> std::io::Result<MonitorBaseline> {
        Ok(MonitorBaseline { scratch: memory::ScratchUsage::capture(), spaces: AddressSpaces::open()? })
    }
}

/// Resource usage of a run as sampled so far.
pub(crate) struct UsageMonitor {
    tier: SandboxTier,
    /// Same process as `WatchedRun::child`.
    child: Pid,
    before: MonitorBaseline,
    limits: RunLimits,
    /// End of the run's time. Scans stop here, because the run itself decides how long they take: in a fork
    /// storm, this process gets the same share of a processor as each process of the run.
    deadline: Instant,
    sampled_at: Instant,
    processes: Vec<i32>,
    /// Processes that do not share the memory of another one.
    separate: Vec<i32>,
    /// Bytes in use in the scratch space.
    scratch: u64,
    /// Result of the quick count.
    quick: QuickCount,
    kernel_memory: KernelMemoryScan,
    proportional: ProportionalCount,
    /// Highest values sampled.
    pub(crate) peak_memory: u64,
    pub(crate) peak_processes: u64,
}

#[derive(Default)]
struct QuickCount {
    all: u64,
    /// Value of the largest process.
    largest: u64,
}

impl UsageMonitor {
    pub(crate) fn new(
        tier: SandboxTier,
        child: Pid,
        before: MonitorBaseline,
        limits: RunLimits,
        deadline: Instant,
    ) -> UsageMonitor {
        UsageMonitor {
            tier,
            child,
            before,
            limits,
            deadline,
            sampled_at: Instant::now(),
            processes: Vec::new(),
            separate: Vec::new(),
            scratch: 0,
            quick: QuickCount::default(),
            kernel_memory: KernelMemoryScan::default(),
            proportional: ProportionalCount::default(),
            peak_memory: 0,
            peak_processes: 0,
        }
    }

    /// Returns the time of the next sample: immediately if a scan is in progress.
    pub(crate) fn next_sample(&self) -> Instant {
        match self.kernel_memory.is_in_progress() || self.proportional.is_in_progress() {
            true => Instant::now(),
            false => self.sampled_at + SAMPLE_INTERVAL,
        }
    }

    /// Continues the scan; returns the reason if the run must end.
    pub(crate) fn continue_scan(&mut self) -> Option<RunEnd> {
        let is_due = self.sampled_at.elapsed() >= SAMPLE_INTERVAL;
        if !is_due && self.next_sample() > Instant::now() {
            return None;
        }
        if is_due {
            self.sample();
        }
        // Before the memory is counted, which takes the longer the more processes there are.
        if self.tier != SandboxTier::Full && self.peak_processes > self.limits.processes {
            return Some(RunEnd::TooManyProcesses);
        }
        if Instant::now() >= self.deadline {
            return None;
        }
        let kernel_bytes = layers::if_enabled(
            SandboxLayer::KernelMemoryMonitor,
            self.kernel_memory.continue_scan(&self.processes, self.deadline),
        );
        let space = self.limits.memory_bytes.saturating_sub(kernel_bytes);
        let used = self.count(is_due, space).map_or(0, |used| kernel_bytes + used);
        self.peak_memory = self.peak_memory.max(used);
        if used > self.limits.memory_bytes && layers::is_enabled(SandboxLayer::MemoryMonitor) {
            Some(RunEnd::OutOfMemory)
        } else if self.kernel_memory.is_evading() && layers::is_enabled(SandboxLayer::KernelMemoryMonitor) {
            Some(RunEnd::Denied)
        } else {
            None
        }
    }

    /// Takes the samples that are cheap for any process.
    fn sample(&mut self) {
        self.sampled_at = Instant::now();
        let running = match self.tier {
            SandboxTier::Full => {
                self.processes = memory::namespace_processes();
                self.scratch = self.before.scratch.used();
                // The kernel enforces the limit, threads included. The init process is listed too, but is not
                // part of the grant.
                (self.processes.len() as u64).saturating_sub(1)
            }
            SandboxTier::Reduced | SandboxTier::None => {
                let found = descendants(self.limits.processes, self.deadline);
                self.processes = found.processes;
                found.threads + descendants::reap_some(self.child)
            }
        };
        self.peak_processes = self.peak_processes.max(running);
    }

    /// Returns the memory of all processes once it is known. The quick count counts pages that a fork left
    /// shared, and memory that a child shares with its parent, once per process. Only if that exceeds `room`
    /// is the proportional count made.
    fn count(&mut self, is_due: bool, space: u64) -> Option<u64> {
        let begins_again = self.proportional.restarts();
        if begins_again && !is_due {
            self.sample();
        }
        if (is_due || begins_again)
            && let Some(used) = self.count_quickly(space)
        {
            self.proportional.abandon();
            return Some(used);
        }
        if !is_due && !self.proportional.is_in_progress() {
            return None;
        }
        let among = (&self.processes[..], &self.separate[..]);
        let list = || match self.tier {
            SandboxTier::Full => memory::namespace_processes(),
            SandboxTier::Reduced | SandboxTier::None => {
                descendants(self.limits.processes, self.deadline).processes
            }
        };
        self.proportional.continue_count(among, list, self.quick.all, (self.scratch, space))
    }

    fn count_quickly(&mut self, space: u64) -> Option<u64> {
        let quick = quick_count(&self.processes, self.scratch, self.deadline);
        if !self.proportional.starts_next() || quick.certain_usage(space).is_some() {
            return quick.certain_usage(space);
        }
        let doubles = self.before.spaces.duplicates();
        self.separate = self.processes.iter().copied().filter(|process| !doubles.contains(process)).collect();
        self.quick = self::quick_count(&self.separate, self.scratch, self.deadline);
        self.quick.certain_usage(space)
    }
}

impl QuickCount {
    /// Returns the usage where it is certain: the sum if it fits into `room`, or the largest single process
    /// if that alone exceeds it, because one process has that much whatever it shares with others.
    fn certain_usage(&self, space: u64) -> Option<u64> {
        match (self.all <= space, self.largest > space) {
            (true, _) => Some(self.all),
            (false, true) => Some(self.largest),
            (false, false) => None,
        }
    }
}

/// Returns the descendants of this process; not all of them if there are more than `limit`, or if the scan
/// lasts longer than until `deadline`.
fn descendants(limit: u64, deadline: Instant) -> Descendants {
    descendants::descendants(|found| found.threads > limit || Instant::now() >= deadline)
}

/// Adds up the resident memory of these processes, or of some of them if `deadline` passes before the end.
fn quick_count(processes: &[i32], scratch: u64, deadline: Instant) -> QuickCount {
    let (mut all, mut largest) = (MemoryPages::default(), 0);
    // Newest first, because their ids were listed most recently and are the least certain to stay valid.
    let in_time = processes.iter().rev().take_while(|_| Instant::now() < deadline);
    for pages in in_time.map(|process| memory::resident(*process)) {
        all += pages;
        largest = pages.with_scratch(scratch).max(largest);
    }
    QuickCount { all: all.with_scratch(scratch), largest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_count_reports_only_what_is_certain() {
        let settled = |all, largest| QuickCount { all, largest }.certain_usage(10);
        assert_eq!([settled(10, 5), settled(11, 5), settled(20, 11)], [Some(10), None, Some(11)]);
    }

    #[test]
    fn scratch_pages_count_once() {
        let pages = MemoryPages { own: 5, shared: 3 };
        assert_eq!([pages.with_scratch(0), pages.with_scratch(2), pages.with_scratch(4)], [8, 8, 9]);
    }
}
