//! Linux backend. Three processes carry a run: the launcher, which watches from outside; the init process of
//! the namespaces, which reaps; and the child that builds the sandbox around itself and then executes the
//! program. All three are ready before a run request arrives. The kernel kills every process of a PID
//! namespace when its init process exits, so nothing survives a run, whatever sessions and orphans the
//! program created. The reduced tier has no namespaces and no init process.

mod cgroup;
mod init;
mod landlock_rules;
mod launcher_children;
mod mounts;
mod namespaces;
mod privileges;
mod program;
#[allow(unsafe_code, reason = "system calls that no safe crate offers, each with its safety argument")]
mod raw_syscalls;
mod seccomp;
mod watch;

pub(crate) use launcher_children::{Below, await_launcher};
pub(crate) use raw_syscalls::ask_to_be_traced;
#[cfg(test)]
#[allow(unused_imports, reason = "the unit tests do not use it; the `sandboxed` test program does")]
pub(crate) use raw_syscalls::landlock_version;

use std::ffi::{OsStr, OsString};
use std::io;

use tool::SandboxTier;

use crate::launch::launcher::{Control, Setup};
use crate::launch::status::{Problem, Status, Step};
use cgroup::delegation::Groups;
use cgroup::{Group, delegation};
use raw_syscalls::Forked;
use watch::descendants::Fence;
use watch::io_usage::Traffic;
use watch::usage::Before;
use watch::{Run, descendants};

/// Closes every descriptor except the three standard ones.
pub(crate) fn close_strays() -> io::Result<()> {
    raw_syscalls::close_from(3)
}

/// Returns the controllers that limit each run through its own control group, or the reason why there are
/// none.
pub(crate) fn groups() -> Result<Vec<&'static str>, &'static str> {
    Groups::of_this_process().map(|groups| groups.controllers().iter().map(|one| one.as_str()).collect())
}

/// Returns true if the daemon with this process id has moved into its own control group, so that runs can
/// have sibling groups.
pub(crate) fn has_groups(daemon: i32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{daemon}/cgroup")).unwrap_or_default();
    let own = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    own.rsplit('/').next() == Some(delegation::DAEMON)
}

/// Returns the command-line argument that tells a launcher where to create its control group; empty if there
/// is none. Removes the groups of launchers that were killed.
pub(crate) fn group_for_launcher() -> OsString {
    let told = Groups::of_this_process().map(|groups| {
        groups.sweep();
        groups.word()
    });
    told.unwrap_or_default()
}

/// Prepares everything that does not depend on the command, waits for a run request, and reports how the run
/// ended.
pub(crate) fn serve(tier: SandboxTier, group: &OsStr, control: Control, mut setup: Setup) -> io::Result<()> {
    match prepare(tier, group) {
        Ok(prepared) => watch(tier, prepared, control, setup),
        Err(problem) => setup.say(&Status::Failed(problem)),
    }
}

/// State of a launcher before it has a run request.
struct Prepared {
    group: Option<Group>,
    fence: Option<Fence>,
}

fn prepare(tier: SandboxTier, group: &OsStr) -> Result<Prepared, Problem> {
    let group = (!group.is_empty()).then(|| Group::make(group)).transpose()?;
    let prepared = match tier {
        SandboxTier::Full => namespaces::make().map(|()| None),
        SandboxTier::Reduced => descendants::adopt_orphans().and_then(|()| Fence::build()),
        SandboxTier::None => Err(Problem::new(Step::Message, "tier", &io::ErrorKind::InvalidInput.into())),
    };
    match (prepared, group) {
        (Ok(fence), group) => Ok(Prepared { group, fence }),
        (Err(problem), group) => {
            if let Some(group) = group {
                group.remove();
            }
            Err(problem)
        }
    }
}

fn watch(tier: SandboxTier, prepared: Prepared, control: Control, mut setup: Setup) -> io::Result<()> {
    let Prepared { group, fence } = prepared;
    let (traffic, before) = (Traffic::open()?, Before::ask()?);
    if tier == SandboxTier::Full {
        let (outcome, outcome_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let Forked::Parent(child) = raw_syscalls::fork()? else {
            drop((control, traffic, before, outcome));
            init::run(setup, group, outcome_end)
        };
        drop((setup, outcome_end));
        let outcome = Some(outcome);
        watch::until_the_end(Run { tier, child, group, fence, outcome, traffic, before }, control)
    } else {
        let Forked::Parent(child) = raw_syscalls::fork()? else {
            drop((control, traffic, before));
            program::run(tier, mounts::Terminals::None, group.as_ref(), setup)
        };
        setup.say(&Status::ready())?;
        drop(setup);
        watch::until_the_end(Run { tier, child, group, fence, outcome: None, traffic, before }, control)
    }
}
