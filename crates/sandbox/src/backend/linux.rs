//! Linux. Three processes carry a run: the launcher, which watches from outside; the first process of the namespaces,
//! which reaps; and the one that builds the walls around itself and becomes the program. All three stand ready before
//! there is an order. The kernel ends everything in a process namespace with its first process, so nothing survives it,
//! whatever sessions and orphans the program made. The reduced tier has no namespaces, and no first process.

mod below;
mod filter;
mod first;
mod held;
mod inside;
mod landlocked;
mod memory;
mod mounts;
mod namespaces;
mod powers;
#[allow(unsafe_code, reason = "the system calls that no safe crate offers, each a few lines with its reason")]
mod raw;
mod reduced;
mod shares;
mod spaces;
mod start;
mod syscalls;
mod tally;
mod traffic;
mod watch;

pub(crate) use below::{Below, await_launcher};

use std::io;

use tool::SandboxTier;

use crate::launcher::{Control, Setup};
use crate::status::{Problem, Status, Step};
use raw::Forked;
use tally::Before;
use traffic::Traffic;
use watch::Run;

/// Closes every descriptor but the three standard ones.
pub(crate) fn close_strays() -> io::Result<()> {
    raw::close_from(3)
}

/// Asks the parent to trace this process, which no confined program may.
pub(crate) fn ask_to_be_traced() -> io::Result<()> {
    raw::ask_to_be_traced()
}

/// Does what can be done before it is known what is to run, waits for it, and says how it ended.
pub(crate) fn serve(tier: SandboxTier, control: Control, mut setup: Setup) -> io::Result<()> {
    let prepared = match tier {
        SandboxTier::Full => namespaces::make(),
        SandboxTier::Reduced => reduced::adopt_orphans(),
        SandboxTier::None => Err(Problem::new(Step::Message, "tier", &io::ErrorKind::InvalidInput.into())),
    };
    if let Err(problem) = prepared {
        return setup.say(&Status::Failed(problem));
    }
    let (traffic, before) = (Traffic::open()?, Before::ask()?);
    if tier == SandboxTier::Full {
        let (outcome, outcome_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let Forked::Parent(child) = raw::fork()? else {
            drop((control, traffic, before, outcome));
            first::run(setup, outcome_end)
        };
        drop((setup, outcome_end));
        watch::until_the_end(Run { tier, child, outcome: Some(outcome), traffic, before }, control)
    } else {
        let Forked::Parent(child) = raw::fork()? else {
            drop((control, traffic, before));
            inside::run(tier, mounts::Terminals::None, setup)
        };
        setup.say(&Status::Ready)?;
        drop(setup);
        watch::until_the_end(Run { tier, child, outcome: None, traffic, before }, control)
    }
}
