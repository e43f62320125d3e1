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
pub(crate) mod open_without_links;
mod privileges;
mod program;
#[allow(unsafe_code, reason = "system calls that no safe crate offers, each with its safety argument")]
mod raw_syscalls;
mod seccomp;
mod watcher;

pub(crate) use launcher_children::{LauncherChildren, wait_for_launcher};
#[cfg(test)]
#[allow(unused_imports, reason = "the unit tests do not use it; the `sandboxed` test program does")]
pub(crate) use raw_syscalls::landlock_version;
pub(crate) use raw_syscalls::request_trace;

use std::ffi::{OsStr, OsString};
use std::io;

use tool::result::SandboxTier;

use crate::launch::launcher::{ControlChannel, SetupChannel};
use crate::launch::status::{LauncherStatus, SetupFailure, SetupStep};
use cgroup::delegation::DelegatedCgroup;
use cgroup::{RunCgroup, delegation};
use raw_syscalls::ForkSide;
use watcher::descendants::SignalScope;
use watcher::io_usage::IoCounters;
use watcher::usage::MonitorBaseline;
use watcher::{WatchedRun, descendants};

/// Closes every descriptor except the three standard ones.
pub(crate) fn close_inherited_descriptors() -> io::Result<()> {
    raw_syscalls::close_from(3)
}

/// Returns the controllers that limit each run through its own control group, or the reason why there are
/// none.
pub(crate) fn cgroup_controllers() -> Result<Vec<&'static str>, &'static str> {
    DelegatedCgroup::of_this_process()
        .map(|groups| groups.controllers().iter().map(|one| one.as_str()).collect())
}

/// Returns true if the daemon with this process id has moved into its own control group, so that runs can
/// have sibling groups.
pub(crate) fn has_cgroups(daemon: i32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{daemon}/cgroup")).unwrap_or_default();
    let own = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    own.rsplit('/').next() == Some(delegation::DAEMON_GROUP)
}

/// Returns the command-line argument that tells a launcher where to create its control group; empty if there
/// is none. Removes the groups of launchers that were killed.
pub(crate) fn cgroup_argument() -> OsString {
    let argument = DelegatedCgroup::of_this_process().map(|groups| {
        groups.sweep();
        groups.launcher_argument()
    });
    argument.unwrap_or_default()
}

/// Prepares everything that does not depend on the command, waits for a run request, and reports how the run
/// ended.
pub(crate) fn run_launcher(
    tier: SandboxTier,
    group: &OsStr,
    control: ControlChannel,
    mut setup: SetupChannel,
) -> io::Result<()> {
    match prepare(tier, group) {
        Ok(prepared) => fork_and_watch(tier, prepared, control, setup),
        Err(problem) => setup.send(&LauncherStatus::Failed(problem)),
    }
}

/// State of a launcher before it has a run request.
struct PreparedLauncher {
    group: Option<RunCgroup>,
    signal_scope: Option<SignalScope>,
}

/// Amount by which a run is preferred over the daemon when memory is short.
const OOM_SCORE_MARGIN: i32 = 500;
const MAX_OOM_SCORE: i32 = 1000;

/// Makes the kernel end this launcher and its run before the daemon when the machine is out of memory. The program
/// cannot lower the value again, because its `/proc` is read-only.
fn raise_oom_score() -> io::Result<()> {
    const FILE: &str = "/proc/self/oom_score_adj";
    let own: i32 = std::fs::read_to_string(FILE)?.trim().parse().map_err(io::Error::other)?;
    std::fs::write(FILE, own.saturating_add(OOM_SCORE_MARGIN).min(MAX_OOM_SCORE).to_string())
}

fn prepare(tier: SandboxTier, group: &OsStr) -> Result<PreparedLauncher, SetupFailure> {
    // Before the namespaces: later the process is not dumpable and may not write its own files.
    raise_oom_score().map_err(|cause| SetupFailure::new(SetupStep::Limits, "oom_score_adj", &cause))?;
    let group = (!group.is_empty()).then(|| RunCgroup::create(group)).transpose()?;
    let prepared = match tier {
        SandboxTier::Full => namespaces::create().map(|()| None),
        SandboxTier::Reduced => descendants::become_subreaper().and_then(|()| SignalScope::enforce()),
        SandboxTier::None => {
            Err(SetupFailure::new(SetupStep::Message, "tier", &io::ErrorKind::InvalidInput.into()))
        }
    };
    match (prepared, group) {
        (Ok(signal_scope), group) => Ok(PreparedLauncher { group, signal_scope }),
        (Err(problem), group) => {
            if let Some(group) = group {
                group.remove();
            }
            Err(problem)
        }
    }
}

fn fork_and_watch(
    tier: SandboxTier,
    prepared: PreparedLauncher,
    control: ControlChannel,
    mut setup: SetupChannel,
) -> io::Result<()> {
    let PreparedLauncher { group, signal_scope } = prepared;
    let (io_counters, baseline) = (IoCounters::open()?, MonitorBaseline::capture()?);
    let (child, init_pipe) = if tier == SandboxTier::Full {
        let (init_pipe, init_pipe_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let ForkSide::Parent(child) = raw_syscalls::fork()? else {
            drop((control, io_counters, baseline, init_pipe));
            init::run(setup, group, init_pipe_end)
        };
        (child, Some(init_pipe))
    } else {
        let ForkSide::Parent(child) = raw_syscalls::fork()? else {
            drop((control, io_counters, baseline));
            program::run(tier, mounts::TerminalAccess::None, group.as_ref(), setup)
        };
        setup.send(&LauncherStatus::ready())?;
        (child, None)
    };
    drop(setup);
    let run = WatchedRun { tier, child, group, signal_scope, init_pipe, io_counters, baseline };
    watcher::watch_until_end(run, control)
}
