//! What a run has the kernel hold for it by its descriptors and mappings: no process's memory has it, and of most of it the
//! kernel counts only what all of a user's programs have together. It is looked through in short parts, because whoever
//! looks keeps the run's time as well, and how much there is to see is for the run to say.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::memory;

/// How often everybody is looked at, if that takes no longer: who waits for something should cost little.
const ROUND: Duration = Duration::from_millis(100);
/// How often the mappings of a process are counted, of which most have a few hundred.
const RECOUNT: Duration = Duration::from_secs(1);
/// How much is looked at in one go, some milliseconds, and what each thing is of it.
const PART: u32 = 400;
const OF_PROCESS: u32 = 10;
const OF_DESCRIPTOR: u32 = 1;
const OF_MAPPINGS: u32 = 5;

/// What a socket sends and nobody has read: as much as the kernel gives one that did not ask for more, and no program
/// here may ask.
const SOCKET: u64 = 208 * 1024;
/// What a pipe holds, as long as nobody made it larger, which no program here may.
const PIPE: u64 = 64 * 1024;
/// What a file that a poll watches, or a lock, counts as. Either takes a few hundred bytes; but a user has a fixed number
/// of the former, and looking through the latter takes time, so that memory must run out long before.
const ENTRY: u64 = 16 * 1024;
/// What any open file takes.
const FILE: u64 = 1024;
/// What a mapping counts as: itself, and a file that is open for as long as it is mapped, with a lock on it, though no
/// descriptor leads there any more.
const MAPPING: u64 = 4 * 1024;

/// How long the descriptors of a program may be out of sight. Between its filter and its start they are, for a moment.
const UNSEEN: Duration = Duration::from_secs(1);

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Held {
    begun: Option<Instant>,
    /// When the next round begins.
    rests_until: Option<Instant>,
    /// What is still to be looked at in this round.
    next: Vec<Piece>,
    /// The pipes and sockets of this round: several processes may have the same one.
    seen: HashSet<PathBuf>,
    so_far: u64,
    /// What the last round came to.
    before: u64,
    /// The mappings of each process, and when they were counted.
    mappings: HashMap<i32, (Instant, u64)>,
    /// Since when nobody can look into these.
    unseen: HashMap<i32, Instant>,
}

/// What is looked at in one go.
#[derive(Debug)]
enum Piece {
    Process(i32),
    Descriptor(Rc<PathBuf>, OsString),
    /// A list of mappings, read as far as it was, and how many there were.
    Mappings(i32, File, u64),
}

impl Held {
    /// Whether there is more to look at, at once.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.next.is_empty()
    }

    /// Looks at some more of these; what all of them hold.
    pub(crate) fn look_on(&mut self, processes: &[i32]) -> u64 {
        if self.next.is_empty() {
            if self.rests_until.is_some_and(|until| Instant::now() < until) {
                return self.so_far;
            }
            self.begin(processes);
        }
        let mut left = PART;
        while left > 0
            && let Some(piece) = self.next.pop()
        {
            left = left.saturating_sub(self.look_at(piece));
        }
        if self.next.is_empty() {
            // No more than half of the time, however long it took.
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

    /// Whether something has been out of sight for too long: a program that others may not read is run like any other, and
    /// what it holds is nobody's to look at.
    pub(crate) fn is_evaded(&self) -> bool {
        self.unseen.values().any(|since| since.elapsed() > UNSEEN)
    }

    /// Looks at one piece; how much of a part that was.
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

    /// Nothing of a process that has gone meanwhile.
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

    /// What is held by one descriptor; nothing by one that was closed meanwhile.
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

    /// Counts some more mappings of a process: as many as the kernel lists at a time, which is few.
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

/// Whether a process is a program's, and not yet or no more one of ours, which hide by themselves: the first of the
/// namespaces, and the one that has its walls still to build.
fn is_program(process: i32, folder: &Path) -> bool {
    let text = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
    process != 1 && text.lines().any(|line| line == "Seccomp:\t2")
}

/// How many files a poll watches, or how many locks there are, as the kernel lists them for a descriptor.
fn entries(text: &str) -> u64 {
    text.lines().filter(|line| line.starts_with("tfd:") || line.starts_with("lock:")).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watched_files_and_locks_are_counted() {
        let poll = "pos:\t0\nflags:\t02\ntfd:        3 events:       19\ntfd:        4 events:       19\n";
        let locks = "pos:\t0\nlock:\t1: POSIX  ADVISORY  WRITE 7 fd:00:1 0 0\n";
        assert_eq!([entries(poll), entries(locks), entries("pos:\t0\n")], [2, 1, 0]);
    }

    #[test]
    fn a_round_goes_through_everybody_in_parts_of_a_bounded_size() {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let own = i32::try_from(std::process::id()).expect("a number");
        let least = u64::from(PART / OF_MAPPINGS) + 1;
        let lists: Vec<Piece> = (0..least)
            .map(|_| Piece::Mappings(own, File::open("/proc/self/maps").expect("mappings"), 0))
            .collect();
        let mut held = Held { next: lists, ..Held::default() };
        held.look_on(&[]);
        assert!(held.is_under_way(), "more than one part of it");
        while held.is_under_way() {
            held.look_on(&[]);
        }
        let lines = std::fs::read_to_string("/proc/self/maps").expect("mappings").lines().count() as u64;
        assert!(held.so_far >= least * lines / 2 * MAPPING, "{} of {lines} mappings", held.so_far);

        let mut held = Held::default();
        let mut all = held.look_on(&[own]);
        while held.is_under_way() {
            all = held.look_on(&[]);
        }
        assert!(all >= PIPE + 10 * MAPPING, "the pipe and the mappings are counted: {all}");
        assert_eq!(held.look_on(&[own]), all, "it rests");
        drop(reader);
    }
}
