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

use crate::linux::watch::memory;

/// Shortest interval between rounds, so that a run that waits for something costs little.
const ROUND: Duration = Duration::from_millis(100);
/// Interval between counts of the mappings of a process, of which most have a few hundred.
const RECOUNT: Duration = Duration::from_secs(1);
/// Budget of one step, a few milliseconds, and the cost of each item.
const PART: u32 = 400;
const OF_PROCESS: u32 = 10;
const OF_DESCRIPTOR: u32 = 1;
const OF_MAPPINGS: u32 = 5;

/// Unread data that a socket may hold: the kernel's default send buffer, which no confined program can
/// enlarge.
const SOCKET: u64 = 208 * 1024;
/// Capacity of a pipe, which no confined program can enlarge.
const PIPE: u64 = 64 * 1024;
/// Charge for a file watched by epoll, or for a lock. Each takes a few hundred bytes, but a user has a fixed
/// number of the former and scanning the latter takes time, so the memory limit must be reached long before.
const ENTRY: u64 = 16 * 1024;
/// Charge for any open file.
const FILE: u64 = 1024;
/// Charge for a mapping: the mapping itself, and a file that stays open as long as it is mapped, with a lock
/// on it, although no descriptor leads to it any more.
const MAPPING: u64 = 4 * 1024;

/// Longest time that the descriptors of a program may be unreadable. They are for a moment, between its
/// filter and its exec.
const UNSEEN: Duration = Duration::from_secs(1);

/// State of the scan.
#[derive(Debug, Default)]
pub(crate) struct Held {
    begun: Option<Instant>,
    /// Start of the next round.
    rests_until: Option<Instant>,
    /// Items still to be scanned in this round.
    next: Vec<Piece>,
    /// Pipes and sockets of this round; several processes may share one.
    seen: HashSet<PathBuf>,
    so_far: u64,
    /// Result of the last round.
    before: u64,
    /// Mapping count of each process, with the time of the count.
    mappings: HashMap<i32, (Instant, u64)>,
    /// Processes whose descriptors cannot be read, with the time since when.
    unseen: HashMap<i32, Instant>,
}

/// Unit of work of a scan.
#[derive(Debug)]
enum Piece {
    Process(i32),
    Descriptor(Rc<PathBuf>, OsString),
    /// A list of mappings that is partly read, with the number read so far.
    Mappings(i32, File, u64),
}

impl Held {
    /// Returns true if the next step is due immediately.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.next.is_empty()
    }

    /// Scans some more items of these processes, but none after the deadline; returns the bytes that all of
    /// them hold.
    pub(crate) fn look_on(&mut self, processes: &[i32], deadline: Instant) -> u64 {
        if self.next.is_empty() {
            if self.rests_until.is_some_and(|until| Instant::now() < until) {
                return self.so_far;
            }
            self.begin(processes);
        }
        let mut left = PART;
        while left > 0
            && Instant::now() < deadline
            && let Some(piece) = self.next.pop()
        {
            left = left.saturating_sub(self.look_at(piece));
        }
        if self.next.is_empty() {
            // Scans at most half of the time, however long a round took.
            let took = self.begun.map_or(ROUND, |begun| begun.elapsed());
            self.rests_until = Some(Instant::now() + took.max(ROUND));
        }
        self.so_far.max(self.before)
    }

    fn begin(&mut self, processes: &[i32]) {
        self.unseen.retain(|process, _| processes.contains(process));
        self.mappings.retain(|process, _| processes.contains(process));
        self.begun = Some(Instant::now());
        self.next = processes.iter().map(|process| Piece::Process(*process)).collect();
        self.seen.clear();
        self.before = std::mem::take(&mut self.so_far);
    }

    /// Returns true if a process has been unreadable for too long: a program file that is executable but not
    /// readable makes its process non-dumpable, so what it holds cannot be inspected.
    pub(crate) fn is_evaded(&self) -> bool {
        self.unseen.values().any(|since| since.elapsed() > UNSEEN)
    }

    /// Scans one item; returns its cost.
    fn look_at(&mut self, piece: Piece) -> u32 {
        match piece {
            Piece::Process(process) => {
                self.add_process(process);
                OF_PROCESS
            }
            Piece::Descriptor(folder, number) => {
                self.so_far += self.by_descriptor(&folder, &number).unwrap_or(0);
                OF_DESCRIPTOR
            }
            Piece::Mappings(process, list, so_far) => {
                self.add_mappings(process, list, so_far);
                OF_MAPPINGS
            }
        }
    }

    /// Queues descriptors and mappings of a process; nothing if it is gone.
    fn add_process(&mut self, process: i32) {
        let unseen_since = self.unseen.remove(&process);
        let Some(folder) = memory::alive(process) else { return };
        let listed = std::fs::read_dir(folder.join("fd"));
        let is_closed = |error: &std::io::Error| error.kind() == ErrorKind::PermissionDenied;
        if listed.as_ref().is_err_and(is_closed) && is_program(process, &folder) {
            self.unseen.insert(process, unseen_since.unwrap_or_else(Instant::now));
        }
        match self.mappings.get(&process) {
            Some((counted_at, count)) if counted_at.elapsed() < RECOUNT => self.so_far += count * MAPPING,
            _ => self
                .next
                .extend(File::open(folder.join("maps")).map(|list| Piece::Mappings(process, list, 0))),
        }
        let (folder, listed) = (Rc::new(folder), listed.into_iter().flatten().flatten());
        self.next.extend(listed.map(|entry| Piece::Descriptor(Rc::clone(&folder), entry.file_name())));
    }

    /// Returns the charge for one descriptor; `None` if it was closed in the meantime.
    fn by_descriptor(&mut self, folder: &Path, number: &OsString) -> Option<u64> {
        let leads_to = std::fs::read_link(folder.join("fd").join(number)).ok()?;
        let name = leads_to.as_os_str().as_bytes();
        if name.starts_with(b"socket:") {
            return self.seen.insert(leads_to).then_some(SOCKET);
        }
        if name.starts_with(b"pipe:") {
            return self.seen.insert(leads_to).then_some(PIPE);
        }
        let text = std::fs::read_to_string(folder.join("fdinfo").join(number)).unwrap_or_default();
        Some(FILE + entries(&text) * ENTRY)
    }

    /// Counts some more mappings of a process: as many as the kernel returns in one read.
    fn add_mappings(&mut self, process: i32, mut list: File, so_far: u64) {
        let mut bytes = [0; 4096];
        let read = list.read(&mut bytes).unwrap_or(0);
        let lines = bytes.iter().take(read).filter(|byte| **byte == b'\n').count() as u64;
        self.so_far += lines * MAPPING;
        match read {
            0 => drop(self.mappings.insert(process, (Instant::now(), so_far))),
            _ => self.next.push(Piece::Mappings(process, list, so_far + lines)),
        }
    }
}

/// Returns true if the process runs a program under the filter. Sinew's own processes make themselves
/// non-dumpable: the init process, and the child that has not finished the sandbox yet.
fn is_program(process: i32, folder: &Path) -> bool {
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
        let least = u64::from(PART / OF_MAPPINGS) + 1;
        let lists: Vec<Piece> = (0..least)
            .map(|_| Piece::Mappings(own, File::open("/proc/self/maps").expect("mappings"), 0))
            .collect();
        let mut held = Held { next: lists, ..Held::default() };
        let later = Instant::now() + Duration::from_secs(60);
        held.look_on(&[], later);
        assert!(held.is_under_way(), "it takes more than one step");
        while held.is_under_way() {
            held.look_on(&[], later);
        }
        let lines = std::fs::read_to_string("/proc/self/maps").expect("mappings").lines().count() as u64;
        assert!(held.so_far >= least * lines / 2 * MAPPING, "{} of {lines} mappings", held.so_far);

        let mut held = Held::default();
        let mut all = held.look_on(&[own], later);
        while held.is_under_way() {
            all = held.look_on(&[], later);
        }
        assert!(all >= PIPE + 10 * MAPPING, "the pipe and the mappings are counted: {all}");
        assert_eq!(held.look_on(&[own], later), all, "it pauses");
        drop(reader);
    }
}
