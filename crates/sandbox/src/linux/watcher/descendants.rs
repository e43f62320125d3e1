//! Ends runs that have no PID namespace. The launcher is a child subreaper, so everything the program started
//! stays below it, whatever sessions it created. Where a signal scope is in force, one call kills all of it;
//! elsewhere the launcher kills its children repeatedly until no new ones appear.

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use landlock::{ABI, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::WaitPidFlag;
use nix::unistd::{Pid, getpid, getppid};

use crate::launch::status::{SetupFailure, SetupStep};
use crate::layers::{self, SandboxLayer};
use crate::linux::{landlock_rules, raw_syscalls};

/// Interval between checks for ended processes.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Number of orphans reaped per sample.
const REAP_BATCH: u32 = 2;

/// Makes this process the parent of every orphan below it.
pub(crate) fn become_subreaper() -> Result<(), SetupFailure> {
    if !layers::is_enabled(SandboxLayer::Subreaper) {
        return Ok(());
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|cause| SetupFailure::new(SetupStep::Namespaces, "subreaper", &cause.into()))
}

/// Landlock signal scope of a launcher without a PID namespace, which can then signal only its own descendants.
/// This value is the proof that the scope is enforced: without it, `kill(-1)` would reach every process of the
/// user.
#[derive(Debug)]
pub(crate) struct SignalScope(());

impl SignalScope {
    /// Restricts this process permanently; returns `None` if the kernel does not support signal scopes.
    pub(crate) fn enforce() -> Result<Option<SignalScope>, SetupFailure> {
        if ABI::from(raw_syscalls::landlock_version()) < ABI::V6
            || !layers::is_enabled(SandboxLayer::SignalScope)
        {
            return Ok(None);
        }
        rustix::thread::set_no_new_privs(true)
            .map_err(|cause| SetupFailure::new(SetupStep::Landlock, "no_new_privs", &cause.into()))?;
        let rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .scope(Scope::Signal)
            .and_then(Ruleset::create)
            .map_err(|error| landlock_rules::landlock_error("fence", &error))?;
        landlock_rules::restrict(rules)?;
        // The parent is outside the scope. Signalling it must fail; otherwise the scope is not enforced.
        let reached = kill(getppid(), None);
        Ok((reached == Err(Errno::EPERM)).then_some(SignalScope(())))
    }

    /// Kills every process within the scope except this one.
    pub(crate) fn kill_all(&self) {
        let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
    }
}

/// Kills and reaps everything below this process until the deadline; a process in an uninterruptible call
/// ends after that call. Orphans become children of this process, so killing children repeatedly is enough.
pub(crate) fn kill_descendants(signal_scope: Option<&SignalScope>, until: Instant) {
    if !layers::is_enabled(SandboxLayer::KillDescendants) {
        return;
    }
    while Instant::now() < until {
        let mut has_ended = false;
        loop {
            match raw_syscalls::wait(None, WaitPidFlag::WNOHANG) {
                Err(Errno::ECHILD) => return,
                Ok(None) | Err(_) => break,
                Ok(Some(_)) => has_ended = true,
            }
        }
        match signal_scope {
            Some(signal_scope) => signal_scope.kill_all(),
            None => kill_children(),
        }
        if !has_ended {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Kills each child right after listing it, because a program that hops from process to process soon has
/// another id. Only this process reaps its children, so their ids cannot have been reused; the id of a deeper
/// descendant could.
fn kill_children() {
    for child in children() {
        let _ = kill(child, Signal::SIGKILL);
    }
}

/// Returns the children of this process, dead ones included.
fn children() -> Vec<Pid> {
    children_from(std::fs::read_to_string("/proc/thread-self/children"))
}

/// Parses the kernel's list of children, or scans all processes of the machine if that list is unavailable.
fn children_from(list: io::Result<String>) -> Vec<Pid> {
    let ids: Vec<i32> = match list {
        Ok(list) => list.split_whitespace().filter_map(|id| id.parse().ok()).collect(),
        Err(_) => {
            let ours = getpid().as_raw();
            all_processes().filter(|process| process.parent == ours).map(|process| process.id).collect()
        }
    };
    ids.into_iter().map(Pid::from_raw).collect()
}

/// Reaps some of the ended orphans, but not the program; returns how many are left. Until they are reaped
/// they count among the run's processes. Otherwise a program that hops from process to process, each one the
/// orphan of the one before, would never be seen.
pub(crate) fn reap_some(program: Pid) -> u64 {
    let (mut reaped, mut remaining) = (0, 0);
    for child in children().into_iter().filter(|child| *child != program) {
        match raw_syscalls::has_ended(child) {
            true if reaped < REAP_BATCH => {
                let _ = raw_syscalls::wait(Some(child), WaitPidFlag::WNOHANG);
                reaped += 1;
            }
            true => remaining += 1,
            false => {}
        }
    }
    remaining
}

/// Live descendants of this process.
#[derive(Debug, Default)]
pub(crate) struct Descendants {
    pub(crate) processes: Vec<i32>,
    /// Threads of all of them; the kernel counts each as one process of the user.
    pub(crate) threads: u64,
}

impl Descendants {
    fn add(&mut self, process: &ProcessStat) {
        if !process.is_dead {
            self.processes.push(process.id);
            self.threads += process.threads;
        }
    }
}

/// Scans all processes of the machine for descendants of this process. Stops early once `is_enough` returns
/// true for those found so far: a fork storm decides how long a complete scan takes.
pub(crate) fn descendants(is_enough: impl Fn(&Descendants) -> bool) -> Descendants {
    let (mut found, mut ids) = (Descendants::default(), HashSet::from([getpid().as_raw()]));
    // Listed before their parents, which happens only after the process ids have wrapped around; or no
    // descendants.
    let mut others = Vec::new();
    for process in all_processes() {
        if ids.contains(&process.parent) {
            ids.insert(process.id);
            found.add(&process);
        } else {
            others.push(process);
        }
        if is_enough(&found) {
            return found;
        }
    }
    let mut found_before = 0;
    while found_before < ids.len() {
        found_before = ids.len();
        others.retain(|process| {
            let is_descendant = ids.contains(&process.parent);
            if is_descendant {
                ids.insert(process.id);
                found.add(process);
            }
            !is_descendant
        });
    }
    found
}

/// Fields of `/proc/PID/stat`.
struct ProcessStat {
    id: i32,
    parent: i32,
    threads: u64,
    /// True if no thread of the process runs any more.
    is_dead: bool,
}

/// Reads all processes of the machine, in the order of their ids.
fn all_processes() -> impl Iterator<Item = ProcessStat> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?))
}

fn stat(id: i32) -> Option<ProcessStat> {
    /// Number of fields between the parent and the thread count.
    const BETWEEN: usize = 15;
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The process name before the other fields may contain anything, including brackets.
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let threads = fields.nth(BETWEEN)?.parse().ok()?;
    // A process whose first thread has ended may still have live threads.
    let runs_on = layers::is_enabled(SandboxLayer::ThreadLiveness) && threads > 1;
    Some(ProcessStat { id, parent, threads, is_dead: matches!(state, "Z" | "X") && !runs_on })
}

#[cfg(test)]
mod tests {
    use nix::sys::wait::{Id, waitid};

    use super::*;

    #[test]
    fn children_including_zombies_are_found_without_a_list() {
        let start = |seconds| std::process::Command::new("sleep").arg(seconds).spawn().unwrap();
        let (mut dead, mut alive) = (start("0"), start("60"));
        let ids = [&dead, &alive].map(|child| Pid::from_raw(child.id().cast_signed()));
        // The child has ended and is not reaped yet.
        waitid(Id::Pid(ids[0]), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
        let (found, searched) = (children(), children_from(Err(io::ErrorKind::NotFound.into())));
        alive.kill().unwrap();
        for child in [&mut dead, &mut alive] {
            child.wait().unwrap();
        }
        for id in ids {
            assert!(found.contains(&id) && searched.contains(&id), "{id}: {found:?}, {searched:?}");
        }
    }
}
