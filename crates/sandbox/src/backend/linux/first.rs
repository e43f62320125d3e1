//! The first process of the namespaces: makes the process that becomes the program, then gives up all it could do but
//! reaping whatever is left to it. When it ends, the kernel ends everything else in the namespace.

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

use super::group::Group;
use super::outcome::Outcome;
use super::raw::{self, Forked};
use super::traffic::{Traffic, spent};
use super::{inside, mounts, powers};
use crate::guard::{self, Guard};
use crate::launcher::Setup;
use crate::status::{Problem, Status, Step};

/// Everything this process does. It never returns. `outcome` leads to the launcher.
pub(crate) fn run(mut setup: Setup, group: Option<Group>, outcome: OwnedFd) -> ! {
    let begun = prepare().and_then(|accounts| {
        let terminals = mounts::terminals();
        let forked = raw::fork().map_err(|cause| Problem::new(Step::Limits, "fork", &cause))?;
        Ok((forked, terminals, accounts))
    });
    let ready = match begun {
        Ok((Forked::Child, terminals, accounts)) => {
            drop((outcome, accounts));
            inside::run(SandboxTier::Full, terminals, group.as_ref(), setup)
        }
        Ok((Forked::Parent(child), _, accounts)) => powers::give_up_all().map(|()| (child, accounts)),
        Err(problem) => Err(problem),
    };
    let (child, accounts) = match ready {
        Ok(ready) => ready,
        Err(problem) => {
            let _ = setup.say(&Status::Failed(problem));
            raw::exit(1)
        }
    };
    let _ = setup.say(&Status::Ready);
    drop((setup, group));
    let end = reap(child);
    let processes = processes_so_far(&accounts.count);
    end_the_rest();
    let spent = spent(&accounts.traffic).ok();
    let _ = Outcome { end, processes, spent }.tell(&mut File::from(outcome));
    raw::exit(0)
}

/// Where the kernel counts what this namespace has.
struct Accounts {
    count: File,
    traffic: Traffic,
}

/// Everything before there is a second process.
fn prepare() -> Result<Accounts, Problem> {
    let problem = |what: &str, cause: io::Error| Problem::new(Step::Limits, what, &cause);
    // Before nobody may look into this process any more, itself included.
    let traffic = Traffic::open().map_err(|cause| problem("/proc/self/io", cause))?;
    powers::end_with_parent()?;
    powers::hide()?;
    rustix::process::setsid().map_err(|cause| problem("session", cause.into()))?;
    // Ahead of the other mounts: the launcher counts a run's memory there from its first moment.
    mounts::processes()?;
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&awaited()), None)
        .map_err(|cause| problem("signals", cause.into()))?;
    let count = File::open("/proc/loadavg").map_err(|cause| problem("/proc/loadavg", cause))?;
    Ok(Accounts { count, traffic })
}

/// The signals this process acts on wait until it asks for them.
fn awaited() -> SigSet {
    [Signal::SIGCHLD].into_iter().chain(ORDERS).collect()
}

/// The request to end, and the end.
const ORDERS: [Signal; 2] = [Signal::SIGTERM, END];

/// What the launcher sends to have everybody in the namespace killed. This process stays to say when they have gone: its
/// own end takes the mounts away first, which takes long while other runs do the same.
pub(crate) const END: Signal = Signal::SIGQUIT;

/// Waits for the program and reaps everybody else's children; how it ended, as the kernel writes it.
fn reap(child: Pid) -> i32 {
    let (signals, mut pace) = (awaited(), Pace::new());
    loop {
        // The program first, however many others wait to be buried.
        while let Some((who, end)) = bury(Some(child)).or_else(|| pace.allows().then(|| bury(None)).flatten())
        {
            if who == child {
                return end;
            }
            pace.keep();
        }
        let signal = match pace.allows() {
            true => signals.wait().ok(),
            // Not for who has ended as well: they wait to be buried, so that one is always there.
            false => raw::wait_for_signal(&ORDERS, GLANCE),
        };
        match signal {
            Some(Signal::SIGTERM) => tell_everybody(Signal::SIGTERM),
            Some(END) => tell_everybody(Signal::SIGKILL),
            _ => {}
        }
    }
}

/// Sends a signal to everybody in the namespace but this process.
fn tell_everybody(signal: Signal) {
    // Outside of one it would be everybody the user has.
    if is_first() {
        let _ = kill(Pid::from_raw(-1), signal);
    }
}

fn is_first() -> bool {
    std::process::id() == 1
}

/// Whoever the program left behind goes with it. They are children of this process by now, or of one that is.
fn end_the_rest() {
    tell_everybody(Signal::SIGKILL);
    while is_first() && raw::wait(None, WaitPidFlag::empty()) != Err(Errno::ECHILD) {}
}

/// Reaps one who has ended; who it was, and how.
fn bury(whom: Option<Pid>) -> Option<(Pid, i32)> {
    raw::wait(whom, WaitPidFlag::WNOHANG).ok().flatten()
}

/// How long it takes to bury an orphan, once there were many. Until then it counts among the run's processes. Who goes from
/// process to process, each the orphan of the one before, would else be gone from each before anybody has looked at it.
const PACE: Duration = Duration::from_millis(50);
/// How often it is looked meanwhile whether the program has ended.
const GLANCE: Duration = Duration::from_millis(2);
/// So many are buried at once: a program that left some when it ended has no use for its time.
const AT_ONCE: u32 = 64;

/// When the next one may be buried.
struct Pace {
    paid_until: Instant,
}

impl Pace {
    fn new() -> Pace {
        Pace { paid_until: Instant::now() }
    }

    /// Whether one may be buried now.
    fn allows(&self) -> bool {
        self.paid_until <= Instant::now() + PACE * AT_ONCE || !guard::stands(Guard::Pace)
    }

    /// Takes the time for one.
    fn keep(&mut self) {
        self.paid_until = self.paid_until.max(Instant::now()) + PACE;
    }
}

/// How many processes and threads this namespace has had besides this one: they are numbered one after the other.
fn processes_so_far(count: &File) -> u64 {
    let mut bytes = [0; 128];
    let read = count.read_at(&mut bytes, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()).into_owned();
    let newest = text.split_whitespace().last().and_then(|word| word.parse::<u64>().ok());
    newest.map_or(0, |newest| newest.saturating_sub(1))
}
