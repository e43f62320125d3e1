//! Ending a run that has no process namespace. Orphans come to the launcher, so everything the program started hangs
//! below it, whatever sessions it made. All of it is ended at once behind a fence; elsewhere by its parents, until nothing new
//! appears.

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

/// How often it is looked whether somebody has ended.
const GLANCE: Duration = Duration::from_millis(1);
/// How many orphans are buried in one look.
const AT_A_TIME: u32 = 2;

/// Has every orphan below this process become its child.
pub(crate) fn adopt_orphans() -> Result<(), Problem> {
    if !guard::stands(Guard::Adoption) {
        return Ok(());
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|cause| Problem::new(Step::Namespaces, "subreaper", &cause.into()))
}

/// Ends everything below this process, and reaps it, until then: who is in the middle of a call that cannot be interrupted ends
/// after it. Whose parent ends comes here, so it is enough to end the children of this process until it has none.
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

/// Found and ended at once: who goes from process to process is soon elsewhere. Nobody else buries them, so their numbers are
/// still theirs; that of one further below could be a stranger's by now.
fn kill_children() {
    for child in children() {
        let _ = kill(child, Signal::SIGKILL);
    }
}

/// The children of this process, the dead included.
fn children() -> Vec<Pid> {
    children_by(std::fs::read_to_string("/proc/thread-self/children"))
}

/// By the kernel's list of them, or where it has none by looking through the machine's processes.
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

/// Buries some of the orphans that have ended, but for the program; how many more there are. They count among the run's
/// processes until then: who goes from process to process, each the orphan of the one before, would else never be seen.
pub(crate) fn bury_some(program: Pid) -> u64 {
    let (mut buried, mut left) = (0, 0);
    for child in children().into_iter().filter(|child| *child != program) {
        match raw::has_ended(child) {
            true if buried < AT_A_TIME => {
                let _ = raw::wait(Some(child), WaitPidFlag::WNOHANG);
                buried += 1;
            }
            true => left += 1,
            false => {}
        }
    }
    left
}

/// Everything below this process that is not yet dead.
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

/// Of every process of the machine what `parent_of` says.
fn parents() -> HashMap<i32, (i32, bool)> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashMap::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter_map(|id| Some((id, parent_of(id)?))).collect()
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

#[cfg(test)]
mod tests {
    use nix::sys::wait::{Id, waitid};

    use super::*;

    #[test]
    fn children_are_found_without_a_list_as_well_the_dead_included() {
        let start = |seconds| std::process::Command::new("sleep").arg(seconds).spawn().unwrap();
        let (mut dead, mut alive) = (start("0"), start("60"));
        let ids = [&dead, &alive].map(|child| Pid::from_raw(child.id().cast_signed()));
        // It has ended, and is not reaped.
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
