//! Init process of the namespaces. It forks the child that becomes the program, gives up all its own
//! privileges and then only reaps. When it exits, the kernel kills every other process in the namespace.

pub(crate) mod report;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::wait::WaitPidFlag;
use nix::unistd::Pid;
use tool::result::SandboxTier;

use crate::launch::launcher::SetupChannel;
use crate::launch::status::{LauncherStatus, SetupFailure, SetupStep};
use crate::layers::{self, SandboxLayer};
use crate::linux::cgroup::RunCgroup;
use crate::linux::init::report::InitReport;
use crate::linux::mounts;
use crate::linux::privileges;
use crate::linux::program;
use crate::linux::raw_syscalls::{self, ForkSide};
use crate::linux::watcher::io_usage::{IoCounters, children_usage};

/// Runs the init process. It never returns. `outcome` is the pipe to the launcher.
pub(crate) fn run(mut setup: SetupChannel, group: Option<RunCgroup>, outcome: OwnedFd) -> ! {
    let begun = prepare().and_then(|accounts| {
        let terminals = mounts::mount_devpts();
        let forked =
            raw_syscalls::fork().map_err(|cause| SetupFailure::new(SetupStep::Limits, "fork", &cause))?;
        Ok((forked, terminals, accounts))
    });
    let ready = match begun {
        Ok((ForkSide::Child, terminals, accounts)) => {
            drop((outcome, accounts));
            program::run(SandboxTier::Full, terminals, group.as_ref(), setup)
        }
        Ok((ForkSide::Parent(child), _, accounts)) => privileges::drop_all().map(|()| (child, accounts)),
        Err(problem) => Err(problem),
    };
    let (child, accounts) = match ready {
        Ok(ready) => ready,
        Err(problem) => {
            let _ = setup.send(&LauncherStatus::Failed(problem));
            raw_syscalls::exit(1)
        }
    };
    let _ = setup.send(&LauncherStatus::ready());
    drop((setup, group));
    let end = reap_until_program_ends(child);
    let processes = process_count(&accounts.count);
    kill_remaining();
    let spent = children_usage(&accounts.traffic).ok();
    let _ = InitReport { end, processes, spent }.write_to(&mut File::from(outcome));
    raw_syscalls::exit(0)
}

/// Open files in which the kernel counts the resource use of this namespace.
struct UsageFiles {
    count: File,
    traffic: IoCounters,
}

/// Performs all steps that precede the fork of the child.
fn prepare() -> Result<UsageFiles, SetupFailure> {
    let problem = |what: &str, cause: io::Error| SetupFailure::new(SetupStep::Limits, what, &cause);
    // Opened first: once this process is not dumpable, not even the process itself may open this file.
    let traffic = IoCounters::open().map_err(|cause| problem("/proc/self/io", cause))?;
    privileges::set_parent_death_signal()?;
    privileges::disable_dumping()?;
    rustix::process::setsid().map_err(|cause| problem("session", cause.into()))?;
    // Mounted before everything else, because the launcher counts the run's memory there from the start.
    mounts::mount_proc()?;
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&handled_signals()), None)
        .map_err(|cause| problem("signals", cause.into()))?;
    let count = File::open("/proc/loadavg").map_err(|cause| problem("/proc/loadavg", cause))?;
    Ok(UsageFiles { count, traffic })
}

/// Returns the signals that this process blocks and receives synchronously.
fn handled_signals() -> SigSet {
    [Signal::SIGCHLD].into_iter().chain(REQUEST_SIGNALS).collect()
}

/// Signals of the launcher: the request to terminate, and `KILL_ALL_SIGNAL`.
const REQUEST_SIGNALS: [Signal; 2] = [Signal::SIGTERM, KILL_ALL_SIGNAL];

/// Signal by which the launcher makes the init process kill all others in the namespace. The init process
/// survives to report when they have ended. Its own exit would first tear down the mounts, which is slow
/// while other runs do the same.
pub(crate) const KILL_ALL_SIGNAL: Signal = Signal::SIGQUIT;

/// Reaps every child until the program has ended; returns its exit code, or its signal as a negative number.
fn reap_until_program_ends(child: Pid) -> i32 {
    let (signals, mut interval) = (handled_signals(), ReapLimiter::new());
    loop {
        // The program comes first, however many orphans wait to be reaped.
        while let Some((reaped, end)) =
            reap_one(Some(child)).or_else(|| interval.is_allowed().then(|| reap_one(None)).flatten())
        {
            if reaped == child {
                return end;
            }
            interval.record();
        }
        let signal = match interval.is_allowed() {
            true => signals.wait().ok(),
            // SIGCHLD is left out: unreaped children keep it pending, so the wait would return at once.
            false => raw_syscalls::wait_for_signal(&REQUEST_SIGNALS, POLL_INTERVAL),
        };
        match signal {
            Some(Signal::SIGTERM) => signal_all(Signal::SIGTERM),
            Some(KILL_ALL_SIGNAL) => signal_all(Signal::SIGKILL),
            _ => {}
        }
    }
}

/// Sends a signal to every other process in the namespace.
fn signal_all(signal: Signal) {
    // Outside a PID namespace, `kill(-1)` would reach every process of the user.
    if is_init() {
        let _ = kill(Pid::from_raw(-1), signal);
    }
}

fn is_init() -> bool {
    std::process::id() == 1
}

/// Kills and reaps the processes that the program left behind. They are children of this process by now, or
/// descendants of such a child.
fn kill_remaining() {
    signal_all(Signal::SIGKILL);
    while is_init() && raw_syscalls::wait(None, WaitPidFlag::empty()) != Err(Errno::ECHILD) {}
}

/// Reaps one ended process, if there is one; returns its id and its exit code or negated signal.
fn reap_one(pid: Option<Pid>) -> Option<(Pid, i32)> {
    raw_syscalls::wait(pid, WaitPidFlag::WNOHANG).ok().flatten()
}

/// Delay between two orphans once `REAP_BURST` of them have been reaped without it. Until it is reaped, an
/// orphan counts among the run's processes. Without the delay, a program that hops from process to process
/// would be gone from each of them before the watcher has sampled it.
const REAP_DELAY: Duration = Duration::from_millis(50);
/// Interval at which the init process checks for the end of the program in the meantime.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Number of orphans that are reaped without delay, so that a program that leaves a few when it ends loses no
/// time.
const REAP_BURST: u32 = 64;

/// Limits the rate at which orphans are reaped.
struct ReapLimiter {
    paid_until: Instant,
}

impl ReapLimiter {
    fn new() -> ReapLimiter {
        ReapLimiter { paid_until: Instant::now() }
    }

    /// Returns true if an orphan may be reaped now.
    fn is_allowed(&self) -> bool {
        self.paid_until <= Instant::now() + REAP_DELAY * REAP_BURST
            || !layers::is_enabled(SandboxLayer::ReapDelay)
    }

    /// Records that an orphan was reaped.
    fn record(&mut self) {
        self.paid_until = self.paid_until.max(Instant::now()) + REAP_DELAY;
    }
}

/// Returns the number of processes and threads that this namespace has had besides the init process. Process
/// ids are assigned in sequence.
fn process_count(count: &File) -> u64 {
    let mut bytes = [0; 128];
    let read = count.read_at(&mut bytes, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()).into_owned();
    let newest = text.split_whitespace().last().and_then(|word| word.parse::<u64>().ok());
    newest.map_or(0, |newest| newest.saturating_sub(1))
}
