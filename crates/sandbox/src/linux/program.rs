//! The child process that becomes the program. It prepares everything that is the same for every run. When
//! its run request arrives, it builds the rest of the sandbox around itself and executes the program.

pub(crate) mod start;

use std::io;
use std::os::fd::OwnedFd;

use governance::Network;
use rustix::fs::{Mode, OFlags};
use tool::SandboxTier;

use crate::launch::launcher::Setup;
use crate::launch::spec::Spec;
use crate::launch::status::{Problem, Status, Step};
use crate::layers::{self, Guard};
use crate::linux::cgroup::Group;
use crate::linux::landlock_rules::{Rules, Scratch};
use crate::linux::mounts;
use crate::linux::mounts::Terminals;
use crate::linux::namespaces;
use crate::linux::privileges;
use crate::linux::raw_syscalls;
use crate::linux::seccomp;

/// Runs the child process until the exec. It never returns.
pub(crate) fn run(tier: SandboxTier, terminals: Terminals, group: Option<&Group>, mut setup: Setup) -> ! {
    let prepared = prepare(tier, terminals, group);
    let problem = match setup.order(tier) {
        Ok(Some(Ok(order))) => match prepared.and_then(|rules| build(&order.spec, terminals, rules, group)) {
            Ok(program) => start::exec(&order.spec, &program, &order.stdio),
            Err(problem) => problem,
        },
        Ok(Some(Err(problem))) => problem,
        Ok(None) | Err(_) => raw_syscalls::exit(0),
    };
    let _ = setup.say(&Status::Failed(problem));
    raw_syscalls::exit(127)
}

/// Prepares what does not depend on the request. The Landlock rules are those of most runs, which have no
/// network.
fn prepare(tier: SandboxTier, terminals: Terminals, group: Option<&Group>) -> Result<Option<Rules>, Problem> {
    group.map_or(Ok(()), Group::join)?;
    if tier != SandboxTier::Full {
        // In the full tier the parent is the init process, which has already done both.
        privileges::end_with_parent()?;
        privileges::hide()?;
    }
    if layers::stands(Guard::Session) {
        // A run has no terminal. Creating the session now also keeps it off the critical path: the scheduler
        // groups tasks by session, and a session created after the request arrives would be scheduled last.
        rustix::process::setsid().map_err(|cause| Problem::new(Step::Limits, "session", &cause.into()))?;
    }
    start::prepare()?;
    privileges::for_programs()?;
    layers::stands(Guard::Landlock).then(|| Rules::new(Network::Off, terminals)).transpose()
}

/// Builds the sandbox and returns the program, opened inside it.
fn build(
    spec: &Spec,
    terminals: Terminals,
    prepared: Option<Rules>,
    group: Option<&Group>,
) -> Result<OwnedFd, Problem> {
    group.map_or(Ok(()), |group| group.limit(&spec.limits))?;
    // Opened before the mounts, because the scratch mount could cover it. A program in a granted folder is
    // opened after them, as the mounts show it.
    let outside = (!is_granted(spec)).then(|| open_program(spec)).transpose()?;
    let scratch = match spec.tier {
        SandboxTier::Full => {
            if spec.network == Network::Loopback && layers::stands(Guard::NetworkNamespace) {
                namespaces::make_network()?;
            }
            mounts::build(spec)?;
            Scratch::Private
        }
        SandboxTier::Reduced | SandboxTier::None => Scratch::None,
    };
    let program = outside.map_or_else(|| open_program(spec), Ok)?;
    rustix::process::chdir(&spec.folder)
        .map_err(|cause| Problem::new(Step::Folder, spec.folder.display().to_string(), &cause.into()))?;
    layers::may(Step::Capabilities)?;
    privileges::of_this_process()?;
    layers::may(Step::Landlock)?;
    if let Some(rules) = prepared {
        let rules = if spec.network == Network::Off { rules } else { Rules::new(spec.network, terminals)? };
        rules.restrict(spec, &program, scratch)?;
    }
    layers::may(Step::Seccomp)?;
    seccomp::install(spec.tier, spec.network)?;
    Ok(program)
}

fn is_granted(spec: &Spec) -> bool {
    spec.writable.iter().chain(&spec.readable).any(|folder| spec.program.starts_with(folder))
}

/// Opens the program file and fails if it is not the file that was found and checked.
fn open_program(spec: &Spec) -> Result<OwnedFd, Problem> {
    let problem = |cause: io::Error| Problem::new(Step::Program, spec.program.display().to_string(), &cause);
    let opened =
        rustix::fs::open(&spec.program, OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|cause| problem(cause.into()))?;
    let facts = rustix::fs::fstat(&opened).map_err(|cause| problem(cause.into()))?;
    let is_same = (facts.st_dev, facts.st_ino) == (spec.device, spec.inode);
    match is_same || !layers::stands(Guard::Pin) {
        true => Ok(opened),
        false => Err(problem(io::Error::from_raw_os_error(libc::ESTALE))),
    }
}
