//! Estimate of the kernel memory that a run holds through descriptors and mappings. It is part of no
//! process's memory, and the kernel mostly counts it only for all programs of a user together. The scan is
//! split into short steps, because the same thread enforces the run's deadline and the run influences how
//! much there is to scan.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::linux::watcher::memory;

/// Shortest interval between rounds, so that a run that waits for something costs little.
const ROUND_INTERVAL: Duration = Duration::from_millis(100);
/// Interval between counts of the mappings of a process, of which most have a few hundred.
const MAPPINGS_INTERVAL: Duration = Duration::from_secs(1);
/// Budget of one step, a few milliseconds, and the cost of each item.
const STEP_BUDGET: u32 = 400;
const PROCESS_COST: u32 = 10;
const DESCRIPTOR_COST: u32 = 1;
const MAPPINGS_COST: u32 = 5;

/// Unread data that a socket may hold: the kernel's default send buffer, which no confined program can
/// enlarge.
const SOCKET_BYTES: u64 = 208 * 1024;
/// Capacity of a pipe, which no confined program can enlarge.
const PIPE_BYTES: u64 = 64 * 1024;
/// Charge for a file watched by epoll, or for a lock. Each takes a few hundred bytes, but a user has a fixed
/// number of the former and scanning the latter takes time, so the memory limit must be reached long before.
const ENTRY_BYTES: u64 = 16 * 1024;
/// Charge for any open file.
const FILE_BYTES: u64 = 1024;
/// Charge for a mapping: the mapping itself, and a file that stays open as long as it is mapped, with a lock
/// on it, although no descriptor leads to it any more.
const MAPPING_BYTES: u64 = 4 * 1024;

/// Longest time that the descriptors of a program may be unreadable. They are for a moment, between its
/// filter and its exec.
const MAX_UNREADABLE: Duration = Duration::from_secs(1);

/// State of the scan.
#[derive(Debug, Default)]
pub(crate) struct KernelMemoryScan {
    begun: Option<Instant>,
    /// Start of the next round.
    paused_until: Option<Instant>,
    /// Items still to be scanned in this round.
    next: Vec<ScanItem>,
    /// Pipes and sockets of this round; several processes may share one.
    seen: HashSet<PathBuf>,
    counted: u64,
    /// Result of the last round.
    last_round: u64,
    /// Mapping count of each process, with the time of the count.
    mappings: HashMap<i32, (Instant, u64)>,
    /// Processes whose descriptors cannot be read, with the time since when.
    unreadable_since: HashMap<i32, Instant>,
}

/// Unit of work of a scan.
#[derive(Debug)]
enum ScanItem {
    Process(i32),
    Descriptor(Rc<PathBuf>, OsString),
    /// A list of mappings that is partly read, with the number read so far.
    Mappings(i32, File, u64),
}

impl KernelMemoryScan {
    /// Returns true if the next step is due immediately.
    pub(crate) fn is_in_progress(&self) -> bool {
        !self.next.is_empty()
    }

    /// Scans some more items of these processes, but none after the deadline; returns the bytes that all of
    /// them hold.
    pub(crate) fn continue_scan(&mut self, processes: &[i32], deadline: Instant) -> u64 {
        if self.next.is_empty() {
            if self.paused_until.is_some_and(|until| Instant::now() < until) {
                return self.counted;
            }
            self.begin_round(processes);
        }
        let mut remaining = STEP_BUDGET;
        while remaining > 0
            && Instant::now() < deadline
            && let Some(piece) = self.next.pop()
        {
            remaining = remaining.saturating_sub(self.scan_item(piece));
        }
        if self.next.is_empty() {
            // Scans at most half of the time, however long a round took.
            let took = self.begun.map_or(ROUND_INTERVAL, |begun| begun.elapsed());
            self.paused_until = Some(Instant::now() + took.max(ROUND_INTERVAL));
        }
        self.counted.max(self.last_round)
    }

    fn begin_round(&mut self, processes: &[i32]) {
        self.unreadable_since.retain(|process, _| processes.contains(process));
        self.mappings.retain(|process, _| processes.contains(process));
        self.begun = Some(Instant::now());
        self.next = processes.iter().map(|process| ScanItem::Process(*process)).collect();
        self.seen.clear();
        self.last_round = std::mem::take(&mut self.counted);
    }

    /// Returns true if a process has been unreadable for too long: a program file that is executable but not
    /// readable makes its process non-dumpable, so what it holds cannot be inspected.
    pub(crate) fn is_evading(&self) -> bool {
        self.unreadable_since.values().any(|since| since.elapsed() > MAX_UNREADABLE)
    }

    /// Scans one item; returns its cost.
    fn scan_item(&mut self, piece: ScanItem) -> u32 {
        match piece {
            ScanItem::Process(process) => {
                self.add_process(process);
                PROCESS_COST
            }
            ScanItem::Descriptor(folder, number) => {
                self.counted += self.descriptor_bytes(&folder, &number).unwrap_or(0);
                DESCRIPTOR_COST
            }
            ScanItem::Mappings(process, list, so_far) => {
                self.add_mappings(process, list, so_far);
                MAPPINGS_COST
            }
        }
    }

    /// Queues descriptors and mappings of a process; nothing if it has ended.
    fn add_process(&mut self, process: i32) {
        let unseen_since = self.unreadable_since.remove(&process);
        let Some(folder) = memory::live_folder(process) else { return };
        let listed = std::fs::read_dir(folder.join("fd"));
        let is_closed = |error: &std::io::Error| error.kind() == ErrorKind::PermissionDenied;
        if listed.as_ref().is_err_and(is_closed) && runs_program(process, &folder) {
            self.unreadable_since.insert(process, unseen_since.unwrap_or_else(Instant::now));
        }
        match self.mappings.get(&process) {
            Some((counted_at, count)) if counted_at.elapsed() < MAPPINGS_INTERVAL => {
                self.counted += count * MAPPING_BYTES
            }
            _ => self
                .next
                .extend(File::open(folder.join("maps")).map(|list| ScanItem::Mappings(process, list, 0))),
        }
        let (folder, listed) = (Rc::new(folder), listed.into_iter().flatten().flatten());
        self.next.extend(listed.map(|entry| ScanItem::Descriptor(Rc::clone(&folder), entry.file_name())));
    }

    /// Returns the charge for one descriptor; `None` if it was closed in the meantime.
    fn descriptor_bytes(&mut self, folder: &Path, number: &OsString) -> Option<u64> {
        let leads_to = std::fs::read_link(folder.join("fd").join(number)).ok()?;
        let name = leads_to.as_os_str().as_bytes();
        if name.starts_with(b"socket:") {
            return self.seen.insert(leads_to).then_some(SOCKET_BYTES);
        }
        if name.starts_with(b"pipe:") {
            return self.seen.insert(leads_to).then_some(PIPE_BYTES);
        }
        let text = std::fs::read_to_string(folder.join("fdinfo").join(number)).unwrap_or_default();
        Some(FILE_BYTES + entries(&text) * ENTRY_BYTES)
    }

    /// Counts some more mappings of a process: as many as the kernel returns in one read.
    fn add_mappings(&mut self, process: i32, mut list: File, so_far: u64) {
        let mut bytes = [0; 4096];
        let read = list.read(&mut bytes).unwrap_or(0);
        let lines = bytes.iter().take(read).filter(|byte| **byte == b'\n').count() as u64;
        self.counted += lines * MAPPING_BYTES;
        match read {
            0 => drop(self.mappings.insert(process, (Instant::now(), so_far))),
            _ => self.next.push(ScanItem::Mappings(process, list, so_far + lines)),
        }
    }
}

/// Returns true if the process runs a program under the filter. Sinew's own processes make themselves
/// non-dumpable: the init process, and the child that has not finished the sandbox yet.
fn runs_program(process: i32, folder: &Path) -> bool {
    let text = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
    process != 1 && text.lines().any(|line| line == "Seccomp:\t2")
}

/// Returns the number of epoll entries or locks that the kernel lists for a descriptor.
fn entries(text: &str) -> u64 {
    text.lines().filter(|line| line.starts_with("tfd:") || line.starts_with("lock:")).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoll_entries_and_locks_are_counted() {
        let poll = "pos:\t0\nflags:\t02\ntfd:        3 events:       19\ntfd:        4 events:       19\n";
        let locks = "pos:\t0\nlock:\t1: POSIX  ADVISORY  WRITE 7 fd:00:1 0 0\n";
        assert_eq!([entries(poll), entries(locks), entries("pos:\t0\n")], [2, 1, 0]);
    }

    #[test]
    fn round_covers_all_processes_in_bounded_steps() {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let own = i32::try_from(std::process::id()).expect("a number");
        let least = u64::from(STEP_BUDGET / MAPPINGS_COST) + 1;
        let lists: Vec<ScanItem> = (0..least)
            .map(|_| ScanItem::Mappings(own, File::open("/proc/self/maps").expect("mappings"), 0))
            .collect();
        let mut scan = KernelMemoryScan { next: lists, ..KernelMemoryScan::default() };
        let later = Instant::now() + Duration::from_secs(60);
        scan.continue_scan(&[], later);
        assert!(scan.is_in_progress(), "it takes more than one step");
        while scan.is_in_progress() {
            scan.continue_scan(&[], later);
        }
        let lines = std::fs::read_to_string("/proc/self/maps").expect("mappings").lines().count() as u64;
        assert!(scan.counted >= least * lines / 2 * MAPPING_BYTES, "{} of {lines} mappings", scan.counted);

        let mut scan = KernelMemoryScan::default();
        let mut all = scan.continue_scan(&[own], later);
        while scan.is_in_progress() {
            all = scan.continue_scan(&[], later);
        }
        assert!(all >= PIPE_BYTES + 10 * MAPPING_BYTES, "the pipe and the mappings are counted: {all}");
        assert_eq!(scan.continue_scan(&[own], later), all, "it pauses");
        drop(reader);
    }
}
