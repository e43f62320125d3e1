//! The first process of the namespaces: makes the process that becomes the program, then gives up all it could do but
//! reaping whatever is left to it. When it ends, the kernel ends everything else in the namespace.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tool::SandboxTier;

use super::raw::{self, Forked};
use super::{inside, mounts, powers};
use crate::launcher::Setup;
use crate::status::{Problem, Status, Step};

/// Everything this process does. It never returns. `outcome` leads to the launcher.
pub(crate) fn run(mut setup: Setup, outcome: OwnedFd) -> ! {
    let begun = prepare().and_then(|count| {
        let terminals = mounts::terminals();
        let forked = raw::fork().map_err(|cause| Problem::new(Step::Limits, "fork", &cause))?;
        Ok((forked, terminals, count))
    });
    let ready = match begun {
        Ok((Forked::Child, terminals, count)) => {
            drop((outcome, count));
            inside::run(SandboxTier::Full, terminals, setup)
        }
        Ok((Forked::Parent(child), _, count)) => powers::give_up_all().map(|()| (child, count)),
        Err(problem) => Err(problem),
    };
    let (child, count) = match ready {
        Ok(ready) => ready,
        Err(problem) => {
            let _ = setup.say(&Status::Failed(problem));
            raw::exit(1)
        }
    };
    let _ = setup.say(&Status::Ready);
    drop(setup);
    let end = reap(child);
    let said = [end.to_le_bytes(), processes_so_far(&count).to_le_bytes()].concat();
    let _ = File::from(outcome).write_all(&said);
    raw::exit(0)
}

/// Everything before there is a second process; where the kernel counts those of this namespace.
fn prepare() -> Result<File, Problem> {
    let problem = |what: &str, cause: io::Error| Problem::new(Step::Limits, what, &cause);
    powers::end_with_parent()?;
    powers::hide()?;
    rustix::process::setsid().map_err(|cause| problem("session", cause.into()))?;
    // Ahead of the other mounts: the launcher counts a run's memory there from its first moment.
    mounts::processes()?;
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&awaited()), None)
        .map_err(|cause| problem("signals", cause.into()))?;
    File::open("/proc/loadavg").map_err(|cause| problem("/proc/loadavg", cause))
}

/// The two signals this process acts on wait until it asks for them.
fn awaited() -> SigSet {
    [Signal::SIGCHLD, Signal::SIGTERM].into_iter().collect()
}

/// Waits for the program and reaps everybody else's children; how it ended, as the kernel writes it.
fn reap(child: Pid) -> i32 {
    let signals = awaited();
    loop {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == child => return code,
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => return -(signal as i32),
                Ok(WaitStatus::StillAlive) | Err(_) => break,
                Ok(_) => {}
            }
        }
        if signals.wait() == Ok(Signal::SIGTERM) {
            // Everybody in this namespace but this process.
            let _ = kill(Pid::from_raw(-1), Signal::SIGTERM);
        }
    }
}

/// How many processes and threads this namespace has had besides this one: they are numbered one after the other.
fn processes_so_far(count: &File) -> i32 {
    let mut bytes = [0; 128];
    let read = count.read_at(&mut bytes, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()).into_owned();
    let newest = text.split_whitespace().last().and_then(|word| word.parse::<i32>().ok());
    newest.map_or(0, |newest| (newest - 1).max(0))
}
