//! What a run has the kernel hold for it by its descriptors: no process's memory has it, and of most of it the kernel
//! counts only what all of a user's programs have together. It is looked through a few processes at a time, because
//! whoever looks keeps the run's time as well.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::memory;

/// How many processes are looked at in one go.
const AT_ONCE: usize = 4;
/// How often everybody is looked at, if that many are few: who waits for something should cost little.
const ROUND: Duration = Duration::from_millis(100);
/// What a socket sends and nobody has read: as much as the kernel gives one that did not ask for more, and no program
/// here may ask.
const SOCKET: u64 = 208 * 1024;
/// What a pipe holds, as long as nobody made it larger, which no program here may.
const PIPE: u64 = 64 * 1024;
/// What a file that a poll watches, or a lock, counts as. Either takes a few hundred bytes; but a user has a fixed number
/// of the former, and looking through the latter takes time, so that memory must run out long before.
const ENTRY: u64 = 16 * 1024;

/// How long the descriptors of a program may be out of sight. Between its filter and its start they are, for a moment.
const UNSEEN: Duration = Duration::from_secs(1);

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Held {
    begun: Option<Instant>,
    /// Who is still to be looked at in this round.
    next: Vec<i32>,
    /// The pipes and sockets of this round: several processes may have the same one.
    seen: HashSet<PathBuf>,
    so_far: u64,
    /// What the last round came to.
    before: u64,
    /// Since when nobody can look into these.
    unseen: HashMap<i32, Instant>,
}

impl Held {
    /// Looks at a few more of these; what all of them hold.
    pub(crate) fn look_on(&mut self, processes: &[i32]) -> u64 {
        if self.next.is_empty() {
            if self.begun.is_some_and(|begun| begun.elapsed() < ROUND) {
                return self.so_far;
            }
            let begun = Some(Instant::now());
            let mut unseen = std::mem::take(&mut self.unseen);
            unseen.retain(|process, _| processes.contains(process));
            *self = Held { begun, next: processes.to_vec(), before: self.so_far, unseen, ..Held::default() };
        }
        for process in self.next.split_off(self.next.len().saturating_sub(AT_ONCE)) {
            self.add(process);
        }
        self.so_far.max(self.before)
    }

    /// Whether something has been out of sight for too long: a program that others may not read is run like any other, and
    /// what it holds is nobody's to look at.
    pub(crate) fn is_evaded(&self) -> bool {
        self.unseen.values().any(|since| since.elapsed() > UNSEEN)
    }

    /// Nothing of a process that has gone meanwhile.
    fn add(&mut self, process: i32) {
        let unseen_since = self.unseen.remove(&process);
        let Some(folder) = memory::alive(process) else { return };
        let listed = std::fs::read_dir(folder.join("fd"));
        let is_closed = |error: &std::io::Error| error.kind() == ErrorKind::PermissionDenied;
        if listed.as_ref().is_err_and(is_closed) && is_program(process, &folder) {
            self.unseen.insert(process, unseen_since.unwrap_or_else(Instant::now));
        }
        for entry in listed.into_iter().flatten().flatten() {
            if let Ok(leads_to) = std::fs::read_link(entry.path()) {
                self.so_far += self.by(&folder, &entry.file_name(), leads_to);
            }
        }
    }

    /// What is held by one descriptor.
    fn by(&mut self, folder: &Path, number: &OsStr, leads_to: PathBuf) -> u64 {
        let name = leads_to.as_os_str().as_bytes();
        if name.starts_with(b"socket:") {
            return if self.seen.insert(leads_to) { SOCKET } else { 0 };
        }
        if name.starts_with(b"pipe:") {
            return if self.seen.insert(leads_to) { PIPE } else { 0 };
        }
        let text = std::fs::read_to_string(folder.join("fdinfo").join(number)).unwrap_or_default();
        entries(&text) * ENTRY
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
    fn a_round_goes_through_everybody_a_few_at_a_time() {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let own = i32::try_from(std::process::id()).expect("a number");
        let mut held = Held::default();
        held.look_on(&[own; AT_ONCE + 1]);
        assert_eq!(held.next.len(), 1, "one is left for the next look");
        let all = held.look_on(&[]);
        assert!(held.next.is_empty() && all >= PIPE, "the pipe is counted: {all}");
        drop(reader);
    }
}
