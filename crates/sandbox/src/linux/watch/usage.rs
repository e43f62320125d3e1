//! Monitor that samples the resource usage of a run. Each scan is split into short steps: the same thread
//! enforces the run's deadline, and the scanned process influences how long a scan takes.

use std::time::{Duration, Instant};

use nix::unistd::Pid;
use tool::SandboxTier;

use crate::launch::spec::Limits;
use crate::layers::{self, Guard};
use crate::linux::watch::address_spaces::Spaces;
use crate::linux::watch::descendants;
use crate::linux::watch::descendants::Descendants;
use crate::linux::watch::kernel_memory::Held;
use crate::linux::watch::memory;
use crate::linux::watch::memory::Pages;
use crate::linux::watch::proportional_memory::Shares;
use crate::report::End;

/// Sampling interval of memory. A process can take some hundred megabytes in this time.
const GLANCE: Duration = Duration::from_millis(20);

/// State that must be captured before the mounts of the run cover it.
pub(crate) struct Before {
    scratch: memory::Scratch,
    spaces: Spaces,
}

impl Before {
    pub(crate) fn ask() -> std::io::Result<Before> {
        Ok(Before { scratch: memory::Scratch::before(), spaces: Spaces::open()? })
    }
}

/// Resource usage of a run as sampled so far.
pub(crate) struct Tally {
    tier: SandboxTier,
    /// Same process as `WatchedRun::child`.
    child: Pid,
    before: Before,
    limits: Limits,
    /// End of the run's time. Scans stop here, because the run itself decides how long they take: in a fork
    /// storm, this process gets the same share of a processor as each process of the run.
    deadline: Instant,
    looked_at: Instant,
    processes: Vec<i32>,
    /// Processes that do not share the memory of another one.
    apart: Vec<i32>,
    /// Bytes in use in the scratch space.
    scratch: u64,
    /// Result of the quick count.
    quick: Quick,
    held: Held,
    shares: Shares,
    /// Highest values sampled.
    pub(crate) most_memory: u64,
    pub(crate) most_processes: u64,
}

#[derive(Default)]
struct Quick {
    all: u64,
    /// Value of the largest process.
    largest: u64,
}

impl Tally {
    pub(crate) fn new(
        tier: SandboxTier,
        child: Pid,
        before: Before,
        limits: Limits,
        deadline: Instant,
    ) -> Tally {
        Tally {
            tier,
            child,
            before,
            limits,
            deadline,
            looked_at: Instant::now(),
            processes: Vec::new(),
            apart: Vec::new(),
            scratch: 0,
            quick: Quick::default(),
            held: Held::default(),
            shares: Shares::default(),
            most_memory: 0,
            most_processes: 0,
        }
    }

    /// Returns the time of the next sample: immediately if a scan is in progress.
    pub(crate) fn next(&self) -> Instant {
        match self.held.is_under_way() || self.shares.is_under_way() {
            true => Instant::now(),
            false => self.looked_at + GLANCE,
        }
    }

    /// Continues the scan; returns the reason if the run must end.
    pub(crate) fn look(&mut self) -> Option<End> {
        let is_due = self.looked_at.elapsed() >= GLANCE;
        if !is_due && self.next() > Instant::now() {
            return None;
        }
        if is_due {
            self.glance();
        }
        // Before the memory is counted, which takes the longer the more processes there are.
        if self.tier != SandboxTier::Full && self.most_processes > self.limits.processes {
            return Some(End::TooManyProcesses);
        }
        if Instant::now() >= self.deadline {
            return None;
        }
        let held = layers::held(Guard::HeldWatch, self.held.look_on(&self.processes, self.deadline));
        let room = self.limits.memory_bytes.saturating_sub(held);
        let used = self.count(is_due, room).map_or(0, |used| held + used);
        self.most_memory = self.most_memory.max(used);
        if used > self.limits.memory_bytes && layers::stands(Guard::MemoryWatch) {
            Some(End::OutOfMemory)
        } else if self.held.is_evaded() && layers::stands(Guard::HeldWatch) {
            Some(End::Denied)
        } else {
            None
        }
    }

    /// Takes the samples that are cheap for any process.
    fn glance(&mut self) {
        self.looked_at = Instant::now();
        let running = match self.tier {
            SandboxTier::Full => {
                self.processes = memory::processes_here();
                self.scratch = self.before.scratch.used();
                // The kernel enforces the limit, threads included. The init process is listed too, but is not
                // part of the grant.
                (self.processes.len() as u64).saturating_sub(1)
            }
            SandboxTier::Reduced | SandboxTier::None => {
                let found = descendants(self.limits.processes, self.deadline);
                self.processes = found.processes;
                found.threads + descendants::bury_some(self.child)
            }
        };
        self.most_processes = self.most_processes.max(running);
    }

    /// Returns the memory of all processes once it is known. The quick count counts pages that a fork left
    /// shared, and memory that a child shares with its parent, once per process. Only if that exceeds `room`
    /// is the proportional count made.
    fn count(&mut self, is_due: bool, room: u64) -> Option<u64> {
        let begins_again = self.shares.begins_again();
        if begins_again && !is_due {
            self.glance();
        }
        if (is_due || begins_again)
            && let Some(used) = self.count_quickly(room)
        {
            self.shares.give_up();
            return Some(used);
        }
        if !is_due && !self.shares.is_under_way() {
            return None;
        }
        let among = (&self.processes[..], &self.apart[..]);
        let list = || match self.tier {
            SandboxTier::Full => memory::processes_here(),
            SandboxTier::Reduced | SandboxTier::None => {
                descendants(self.limits.processes, self.deadline).processes
            }
        };
        self.shares.count_on(among, list, self.quick.all, (self.scratch, room))
    }

    fn count_quickly(&mut self, room: u64) -> Option<u64> {
        let quick = quick(&self.processes, self.scratch, self.deadline);
        if !self.shares.begins() || quick.settled(room).is_some() {
            return quick.settled(room);
        }
        let doubles = self.before.spaces.doubles();
        self.apart = self.processes.iter().copied().filter(|process| !doubles.contains(process)).collect();
        self.quick = self::quick(&self.apart, self.scratch, self.deadline);
        self.quick.settled(room)
    }
}

impl Quick {
    /// Returns the usage where it is certain: the sum if it fits into `room`, or the largest single process
    /// if that alone exceeds it, because one process has that much whatever it shares with others.
    fn settled(&self, room: u64) -> Option<u64> {
        match (self.all <= room, self.largest > room) {
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
fn quick(processes: &[i32], scratch: u64, deadline: Instant) -> Quick {
    let (mut all, mut largest) = (Pages::default(), 0);
    // Newest first, because their ids were listed most recently and are the least certain to stay valid.
    let in_time = processes.iter().rev().take_while(|_| Instant::now() < deadline);
    for pages in in_time.map(|process| memory::quick(*process)) {
        all += pages;
        largest = pages.beside(scratch).max(largest);
    }
    Quick { all: all.beside(scratch), largest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_count_reports_only_what_is_certain() {
        let settled = |all, largest| Quick { all, largest }.settled(10);
        assert_eq!([settled(10, 5), settled(11, 5), settled(20, 11)], [Some(10), None, Some(11)]);
    }

    #[test]
    fn scratch_pages_count_once() {
        let pages = Pages { own: 5, shared: 3 };
        assert_eq!([pages.beside(0), pages.beside(2), pages.beside(4)], [8, 8, 9]);
    }
}
