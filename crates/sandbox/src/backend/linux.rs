//! Linux. Three processes carry a run: the launcher, which watches from outside; the first process of the namespaces,
//! which builds the walls and reaps; and the program. The kernel ends everything in a process namespace with its first
//! process, so nothing survives it, whatever sessions and orphans the program made.

mod below;
mod filter;
mod first;
mod landlocked;
mod memory;
mod mounts;
mod namespaces;
#[allow(unsafe_code, reason = "the system calls that no safe crate offers, each a few lines with its reason")]
mod raw;
mod reduced;
mod start;
mod syscalls;
mod traffic;
mod watch;

pub(crate) use below::{Below, await_launcher};

use std::io;
use std::os::fd::OwnedFd;

use tool::SandboxTier;

use crate::launcher::{Control, DESCRIPTORS};
use crate::spec::Spec;
use crate::status::{Problem, Status, Step};

/// Closes every descriptor but the three standard ones.
pub(crate) fn close_strays() -> io::Result<()> {
    raw::close_from(3)
}

/// Asks the parent to trace this process, which no confined program may.
pub(crate) fn ask_to_be_traced() -> io::Result<()> {
    raw::ask_to_be_traced()
}

/// What can be done before it is known what is to run.
pub(crate) fn prepare(tier: SandboxTier) -> Result<(), Problem> {
    match tier {
        SandboxTier::Full => namespaces::make(),
        SandboxTier::Reduced => reduced::adopt_orphans(),
        SandboxTier::None => Err(Problem::new(Step::Message, "tier", &io::ErrorKind::InvalidInput.into())),
    }
}

/// Runs a program and says how it ended.
pub(crate) fn run(spec: &Spec, stdio: [OwnedFd; DESCRIPTORS], mut control: Control) -> io::Result<()> {
    let traffic = traffic::Traffic::open()?;
    let (setup, setup_end) = pipe()?;
    let (outcome, outcome_end) = pipe()?;
    let ends = first::Ends { setup: setup_end, outcome: outcome_end };
    let child = match raw::fork()? {
        raw::Forked::Child => {
            drop((setup, outcome, control, traffic));
            first::run(spec, stdio, ends)
        }
        raw::Forked::Parent(child) => child,
    };
    drop((stdio, ends));
    let status = watch::until_the_end(spec, child, setup, outcome, &traffic, &mut control)?;
    match &status {
        // Nobody is there to be told.
        Status::Ended(crate::report::End::Cancelled, _) => Ok(()),
        _ => control.say(&status),
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}
