//! Ends runs that have no PID namespace. The launcher is a child subreaper, so everything the program started
//! stays below it, whatever sessions it created. Where a signal scope is in force, one call kills all of it;
//! elsewhere the launcher kills its children repeatedly until no new ones appear.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::WaitPidFlag;
use nix::unistd::{Pid, getpid};

use super::fence::Fence;
use super::raw;
use crate::guard::{self, Guard};
use crate::status::{Problem, Step};

/// Interval between checks for ended processes.
const GLANCE: Duration = Duration::from_millis(1);
/// Number of orphans reaped per sample.
const AT_A_TIME: u32 = 2;

/// Makes this process the parent of every orphan below it.
pub(crate) fn adopt_orphans() -> Result<(), Problem> {
    if !guard::stands(Guard::Adoption) {
        return Ok(());
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|cause| Problem::new(Step::Namespaces, "subreaper", &cause.into()))
}

/// Kills and reaps everything below this process until the deadline; a process in an uninterruptible call
/// ends after that call. Orphans become children of this process, so killing children repeatedly is enough.
pub(crate) fn kill_descendants(fence: Option<&Fence>, until: Instant) {
    if !guard::stands(Guard::KillDescendants) {
        return;
    }
    while Instant::now() < until {
        let mut has_ended = false;
        loop {
            match raw::wait(None, WaitPidFlag::WNOHANG) {
                Err(Errno::ECHILD) => return,
                Ok(None) | Err(_) => break,
                Ok(Some(_)) => has_ended = true,
            }
        }
        match fence {
            Some(fence) => fence.kill_everybody(),
            None => kill_children(),
        }
        if !has_ended {
            std::thread::sleep(GLANCE);
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
    children_by(std::fs::read_to_string("/proc/thread-self/children"))
}

/// Parses the kernel's list of children, or scans all processes of the machine if that list is unavailable.
fn children_by(list: io::Result<String>) -> Vec<Pid> {
    let ids: Vec<i32> = match list {
        Ok(list) => list.split_whitespace().filter_map(|id| id.parse().ok()).collect(),
        Err(_) => {
            let ours = getpid().as_raw();
            let children = parents().into_iter().filter(|(_, (parent, _))| *parent == ours);
            children.map(|(id, _)| id).collect()
        }
    };
    ids.into_iter().map(Pid::from_raw).collect()
}

/// Reaps some of the ended orphans, but not the program; returns how many are left. Until they are reaped
/// they count among the run's processes. Otherwise a program that hops from process to process, each one the
/// orphan of the one before, would never be seen.
pub(crate) fn bury_some(program: Pid) -> u64 {
    let (mut reaped, mut left) = (0, 0);
    for child in children().into_iter().filter(|child| *child != program) {
        match raw::has_ended(child) {
            true if reaped < AT_A_TIME => {
                let _ = raw::wait(Some(child), WaitPidFlag::WNOHANG);
                reaped += 1;
            }
            true => left += 1,
            false => {}
        }
    }
    left
}

/// Returns all live descendants of this process.
pub(crate) fn descendants() -> Vec<i32> {
    let (parents, ours) = (parents(), getpid().as_raw());
    let is_below = |mut id: i32| {
        for _ in 0..parents.len() {
            match parents.get(&id) {
                Some((parent, _)) if *parent == ours => return true,
                Some((parent, _)) => id = *parent,
                None => return false,
            }
        }
        false
    };
    let alive = parents.iter().filter(|(id, (_, is_dead))| !is_dead && is_below(**id));
    alive.map(|(id, _)| *id).collect()
}

/// Returns parent and liveness of every process of the machine, as `parent_of` reports them.
fn parents() -> HashMap<i32, (i32, bool)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashMap::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter_map(|id| Some((id, parent_of(id)?))).collect()
}

/// Returns the number of threads of a process: the kernel counts each as one process of the user.
pub(crate) fn threads(process: i32) -> u64 {
    facts_of(process).map_or(0, |facts| threads_in(&facts))
}

fn threads_in(facts: &str) -> u64 {
    const THREADS: usize = 17;
    facts.split(' ').nth(THREADS).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Returns the fields of `/proc/PID/stat` from the state on. The process name before them may contain
/// anything, including brackets.
fn facts_of(process: i32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    text.rsplit_once(") ").map(|(_, facts)| facts.to_owned())
}

/// Returns the parent of a process, and true if it is a zombie. A process whose first thread has ended may
/// still have live threads.
fn parent_of(process: i32) -> Option<(i32, bool)> {
    let facts = facts_of(process)?;
    let mut words = facts.split(' ');
    let state = words.next()?;
    let parent = words.next()?.parse().ok()?;
    let runs_on = guard::stands(Guard::EveryThread) && threads_in(&facts) > 1;
    Some((parent, matches!(state, "Z" | "X") && !runs_on))
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
        let (found, searched) = (children(), children_by(Err(io::ErrorKind::NotFound.into())));
        alive.kill().unwrap();
        for child in [&mut dead, &mut alive] {
            child.wait().unwrap();
        }
        for id in ids {
            assert!(found.contains(&id) && searched.contains(&id), "{id}: {found:?}, {searched:?}");
        }
    }
}
