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
use tool::SandboxTier;

use crate::launch::launcher::Setup;
use crate::launch::status::{Problem, Status, Step};
use crate::layers::{self, Guard};
use crate::linux::cgroup::Group;
use crate::linux::init::report::Outcome;
use crate::linux::mounts;
use crate::linux::privileges;
use crate::linux::program;
use crate::linux::raw_syscalls::{self, Forked};
use crate::linux::watch::io_usage::{Traffic, spent};

/// Runs the init process. It never returns. `outcome` is the pipe to the launcher.
pub(crate) fn run(mut setup: Setup, group: Option<Group>, outcome: OwnedFd) -> ! {
    let begun = prepare().and_then(|accounts| {
        let terminals = mounts::terminals();
        let forked = raw_syscalls::fork().map_err(|cause| Problem::new(Step::Limits, "fork", &cause))?;
        Ok((forked, terminals, accounts))
    });
    let ready = match begun {
        Ok((Forked::Child, terminals, accounts)) => {
            drop((outcome, accounts));
            program::run(SandboxTier::Full, terminals, group.as_ref(), setup)
        }
        Ok((Forked::Parent(child), _, accounts)) => privileges::give_up_all().map(|()| (child, accounts)),
        Err(problem) => Err(problem),
    };
    let (child, accounts) = match ready {
        Ok(ready) => ready,
        Err(problem) => {
            let _ = setup.say(&Status::Failed(problem));
            raw_syscalls::exit(1)
        }
    };
    let _ = setup.say(&Status::ready());
    drop((setup, group));
    let end = reap(child);
    let processes = processes_so_far(&accounts.count);
    end_the_rest();
    let spent = spent(&accounts.traffic).ok();
    let _ = Outcome { end, processes, spent }.tell(&mut File::from(outcome));
    raw_syscalls::exit(0)
}

/// Open files in which the kernel counts the resource use of this namespace.
struct Accounts {
    count: File,
    traffic: Traffic,
}

/// Performs all steps that precede the fork of the child.
fn prepare() -> Result<Accounts, Problem> {
    let problem = |what: &str, cause: io::Error| Problem::new(Step::Limits, what, &cause);
    // Opened first: once this process is not dumpable, not even the process itself may open this file.
    let traffic = Traffic::open().map_err(|cause| problem("/proc/self/io", cause))?;
    privileges::end_with_parent()?;
    privileges::hide()?;
    rustix::process::setsid().map_err(|cause| problem("session", cause.into()))?;
    // Mounted before everything else, because the launcher counts the run's memory there from the start.
    mounts::processes()?;
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&awaited()), None)
        .map_err(|cause| problem("signals", cause.into()))?;
    let count = File::open("/proc/loadavg").map_err(|cause| problem("/proc/loadavg", cause))?;
    Ok(Accounts { count, traffic })
}

/// Returns the signals that this process blocks and receives synchronously.
fn awaited() -> SigSet {
    [Signal::SIGCHLD].into_iter().chain(ORDERS).collect()
}

/// Signals of the launcher: the request to terminate, and `KILL_ALL_SIGNAL`.
const ORDERS: [Signal; 2] = [Signal::SIGTERM, END];

/// Signal with which the launcher asks the init process to kill all others in the namespace. The init process
/// survives to report when they are gone. Its own exit would first tear down the mounts, which is slow while
/// other runs do the same.
pub(crate) const END: Signal = Signal::SIGQUIT;

/// Reaps every child until the program has ended; returns its exit code, or its signal as a negative number.
fn reap(child: Pid) -> i32 {
    let (signals, mut pace) = (awaited(), Pace::new());
    loop {
        // The program comes first, however many orphans wait to be reaped.
        while let Some((who, end)) = bury(Some(child)).or_else(|| pace.allows().then(|| bury(None)).flatten())
        {
            if who == child {
                return end;
            }
            pace.keep();
        }
        let signal = match pace.allows() {
            true => signals.wait().ok(),
            // SIGCHLD is left out: unreaped children keep it pending, so the wait would return at once.
            false => raw_syscalls::wait_for_signal(&ORDERS, GLANCE),
        };
        match signal {
            Some(Signal::SIGTERM) => tell_everybody(Signal::SIGTERM),
            Some(END) => tell_everybody(Signal::SIGKILL),
            _ => {}
        }
    }
}

/// Sends a signal to every other process in the namespace.
fn tell_everybody(signal: Signal) {
    // Outside a PID namespace, `kill(-1)` would reach every process of the user.
    if is_first() {
        let _ = kill(Pid::from_raw(-1), signal);
    }
}

fn is_first() -> bool {
    std::process::id() == 1
}

/// Kills and reaps the processes that the program left behind. They are children of this process by now, or
/// descendants of such a child.
fn end_the_rest() {
    tell_everybody(Signal::SIGKILL);
    while is_first() && raw_syscalls::wait(None, WaitPidFlag::empty()) != Err(Errno::ECHILD) {}
}

/// Reaps one ended process, if there is one; returns its id and its exit code or negated signal.
fn bury(whom: Option<Pid>) -> Option<(Pid, i32)> {
    raw_syscalls::wait(whom, WaitPidFlag::WNOHANG).ok().flatten()
}

/// Delay between two orphans once `REAP_BURST` of them have been reaped without it. Until it is reaped, an
/// orphan counts among the run's processes. Without the delay, a program that hops from process to process
/// would be gone from each of them before the watcher has sampled it.
const PACE: Duration = Duration::from_millis(50);
/// Interval at which the init process checks for the end of the program in the meantime.
const GLANCE: Duration = Duration::from_millis(2);
/// Number of orphans that are reaped without delay, so that a program that leaves a few when it ends loses no
/// time.
const AT_ONCE: u32 = 64;

/// Limits the rate at which orphans are reaped.
struct Pace {
    paid_until: Instant,
}

impl Pace {
    fn new() -> Pace {
        Pace { paid_until: Instant::now() }
    }

    /// Returns true if an orphan may be reaped now.
    fn allows(&self) -> bool {
        self.paid_until <= Instant::now() + PACE * AT_ONCE || !layers::stands(Guard::Pace)
    }

    /// Records that an orphan was reaped.
    fn keep(&mut self) {
        self.paid_until = self.paid_until.max(Instant::now()) + PACE;
    }
}

/// Returns the number of processes and threads that this namespace has had besides the init process. Process
/// ids are assigned in sequence.
fn processes_so_far(count: &File) -> u64 {
    let mut bytes = [0; 128];
    let read = count.read_at(&mut bytes, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()).into_owned();
    let newest = text.split_whitespace().last().and_then(|word| word.parse::<u64>().ok());
    newest.map_or(0, |newest| newest.saturating_sub(1))
}
