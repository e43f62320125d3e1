//! Ending a run that has no process namespace. Orphans come to the launcher, so everything the program started hangs
//! below it, whatever sessions it made; all of it is found by its parents and ended until nothing new appears.

use std::collections::HashMap;

use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::getpid;
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::guard::{self, Guard};
use crate::status::{Problem, Step};

/// Rounds of looking and killing: a program that starts processes faster than they are found is caught by its own
/// limits long before.
const ROUNDS: usize = 1000;

/// Has every orphan below this process become its child.
pub(crate) fn adopt_orphans() -> Result<(), Problem> {
    if !guard::stands(Guard::Adoption) {
        return Ok(());
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|cause| Problem::new(Step::Namespaces, "subreaper", &cause.into()))
}

/// Ends everything below this process, and reaps it. Orphans come here, so while there is a child there may be more
/// below it, and without one there is nothing.
pub(crate) fn kill_descendants() {
    if !guard::stands(Guard::KillDescendants) {
        return;
    }
    for _ in 0..ROUNDS {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Err(nix::errno::Errno::ECHILD) => return,
                Ok(WaitStatus::StillAlive) | Err(_) => break,
                Ok(_) => {}
            }
        }
        descendants().into_iter().for_each(end);
    }
}

/// Ends a process that was seen below this one, if the number is still of such a one: numbers are given out again.
fn end(process: i32) {
    let Some(id) = rustix::process::Pid::from_raw(process) else { return };
    let Ok(handle) = pidfd_open(id, PidfdFlags::empty()) else { return };
    if descendants().contains(&process) {
        let _ = pidfd_send_signal(&handle, rustix::process::Signal::KILL);
    }
}

/// Everything below this process that is not yet dead.
pub(crate) fn descendants() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parents: HashMap<i32, (i32, bool)> = ids.filter_map(|id| Some((id, parent_of(id)?))).collect();
    let ours = getpid().as_raw();
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

/// How many threads a process has: to the kernel each is one of the user's.
pub(crate) fn threads(process: i32) -> u64 {
    facts_of(process).map_or(0, |facts| threads_in(&facts))
}

fn threads_in(facts: &str) -> u64 {
    const THREADS: usize = 17;
    facts.split(' ').nth(THREADS).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// What the kernel says of a process, from its state on. The name before it may hold anything, a bracket included.
fn facts_of(process: i32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    text.rsplit_once(") ").map(|(_, facts)| facts.to_owned())
}

/// The parent of a process, and whether it only waits to be reaped. Where the first thread has ended, others may run on.
fn parent_of(process: i32) -> Option<(i32, bool)> {
    let facts = facts_of(process)?;
    let mut words = facts.split(' ');
    let state = words.next()?;
    let parent = words.next()?.parse().ok()?;
    let runs_on = guard::stands(Guard::EveryThread) && threads_in(&facts) > 1;
    Some((parent, matches!(state, "Z" | "X") && !runs_on))
}
