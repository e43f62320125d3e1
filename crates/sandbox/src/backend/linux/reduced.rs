//! Ending a run that has no process namespace. Orphans come to the launcher, so everything the program started hangs
//! below it, whatever sessions it made; all of it is found by its parents and ended until nothing new appears.

use std::collections::HashMap;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

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

/// Ends everything below this process. The direct child is left to be waited for.
pub(crate) fn kill_descendants() {
    if !guard::stands(Guard::KillDescendants) {
        return;
    }
    for _ in 0..ROUNDS {
        let alive = descendants();
        if alive.is_empty() {
            return;
        }
        for process in &alive {
            let _ = kill(Pid::from_raw(*process), Signal::SIGKILL);
        }
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            if status == WaitStatus::StillAlive {
                break;
            }
        }
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

/// The parent of a process, and whether it only waits to be reaped.
fn parent_of(process: i32) -> Option<(i32, bool)> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it may hold anything, a bracket included.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    let state = words.next()?;
    Some((words.next()?.parse().ok()?, matches!(state, "Z" | "X")))
}
