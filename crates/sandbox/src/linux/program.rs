//! The child process that becomes the program. It prepares everything that is the same for every run. When
//! its run request arrives, it builds the rest of the sandbox around itself and executes the program.

pub(crate) mod program_start;

use std::io;
use std::os::fd::OwnedFd;

use governance::files::NetworkAccess;
use rustix::fs::{Mode, OFlags};
use tool::result::SandboxTier;

use crate::launch::launcher::SetupChannel;
use crate::launch::spec::RunSpec;
use crate::launch::status::{LauncherStatus, SetupFailure, SetupStep};
use crate::layers::{self, SandboxLayer};
use crate::linux::cgroup::RunCgroup;
use crate::linux::landlock_rules::{LandlockRules, ScratchAccess};
use crate::linux::mounts;
use crate::linux::mounts::TerminalAccess;
use crate::linux::namespaces;
use crate::linux::privileges;
use crate::linux::raw_syscalls;
use crate::linux::seccomp;

/// Runs the child process until the exec. It never returns.
pub(crate) fn run(
    tier: SandboxTier,
    terminals: TerminalAccess,
    group: Option<&RunCgroup>,
    mut setup: SetupChannel,
) -> ! {
    let prepared = prepare(tier, terminals, group);
    let problem = match setup.receive_request(tier) {
        Ok(Some(Ok(request))) => {
            match prepared.and_then(|rules| build(&request.spec, terminals, rules, group)) {
                Ok(program) => program_start::exec(&request.spec, &program, &request.stdio),
                Err(problem) => problem,
            }
        }
        Ok(Some(Err(problem))) => problem,
        Ok(None) | Err(_) => raw_syscalls::exit(0),
    };
    let _ = setup.send(&LauncherStatus::Failed(problem));
    raw_syscalls::exit(127)
}

/// Prepares what does not depend on the request. The Landlock rules are those of most runs, which have no
/// network.
fn prepare(
    tier: SandboxTier,
    terminals: TerminalAccess,
    group: Option<&RunCgroup>,
) -> Result<Option<LandlockRules>, SetupFailure> {
    group.map_or(Ok(()), RunCgroup::join)?;
    if tier != SandboxTier::Full {
        // In the full tier the parent is the init process, which has already done both.
        privileges::set_parent_death_signal()?;
        privileges::disable_dumping()?;
    }
    if layers::is_enabled(SandboxLayer::SeparateSession) {
        // A run has no terminal. Creating the session now also keeps it off the critical path: the scheduler
        // groups tasks by session, and a session created after the request arrives would be scheduled last.
        rustix::process::setsid()
            .map_err(|cause| SetupFailure::new(SetupStep::Limits, "session", &cause.into()))?;
    }
    program_start::prepare()?;
    privileges::drop_bounding_set()?;
    layers::is_enabled(SandboxLayer::Landlock)
        .then(|| LandlockRules::new(NetworkAccess::Off, terminals))
        .transpose()
}

/// Builds the sandbox and returns the program, opened inside it.
fn build(
    spec: &RunSpec,
    terminals: TerminalAccess,
    prepared: Option<LandlockRules>,
    group: Option<&RunCgroup>,
) -> Result<OwnedFd, SetupFailure> {
    group.map_or(Ok(()), |group| group.limit(&spec.limits))?;
    // Opened before the mounts, because the scratch mount could cover it. A program in a granted folder is
    // opened after them, as the mounts show it.
    let outside = (!is_granted(spec)).then(|| open_program(spec)).transpose()?;
    let scratch = match spec.tier {
        SandboxTier::Full => {
            if spec.network == NetworkAccess::Loopback && layers::is_enabled(SandboxLayer::NetworkNamespace) {
                namespaces::create_network()?;
            }
            mounts::build(spec)?;
            ScratchAccess::Private
        }
        SandboxTier::Reduced | SandboxTier::None => ScratchAccess::None,
    };
    let program = outside.map_or_else(|| open_program(spec), Ok)?;
    rustix::process::chdir(&spec.folder).map_err(|cause| {
        SetupFailure::new(SetupStep::Folder, spec.folder.display().to_string(), &cause.into())
    })?;
    layers::check_injected_fault(SetupStep::Capabilities)?;
    privileges::drop_own()?;
    layers::check_injected_fault(SetupStep::Landlock)?;
    if let Some(rules) = prepared {
        let rules = if spec.network == NetworkAccess::Off {
            rules
        } else {
            LandlockRules::new(spec.network, terminals)?
        };
        rules.restrict(spec, &program, scratch)?;
    }
    layers::check_injected_fault(SetupStep::Seccomp)?;
    seccomp::install(spec.tier, spec.network)?;
    Ok(program)
}

fn is_granted(spec: &RunSpec) -> bool {
    spec.writable.iter().chain(&spec.readable).any(|folder| spec.program.starts_with(folder))
}

/// Opens the program file and fails if it is not the file that was found and checked.
fn open_program(spec: &RunSpec) -> Result<OwnedFd, SetupFailure> {
    let problem =
        |cause: io::Error| SetupFailure::new(SetupStep::Program, spec.program.display().to_string(), &cause);
    let opened =
        rustix::fs::open(&spec.program, OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|cause| problem(cause.into()))?;
    let facts = rustix::fs::fstat(&opened).map_err(|cause| problem(cause.into()))?;
    let is_same = (facts.st_dev, facts.st_ino) == (spec.device, spec.inode);
    match is_same || !layers::is_enabled(SandboxLayer::ProgramIdentity) {
        true => Ok(opened),
        false => Err(problem(io::Error::from_raw_os_error(libc::ESTALE))),
    }
}
