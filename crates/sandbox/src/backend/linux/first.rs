//! The first process of the namespaces: builds the walls around itself, starts the program inside them, and reaps
//! whatever is left to it. When it ends, the kernel ends everything else in the namespace.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use governance::Network;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::fs::{Mode, OFlags};
use rustix::process::DumpableBehavior;
use rustix::thread::{CapabilitySet, CapabilitySets};
use tool::SandboxTier;

use super::landlocked::{self, Scratch};
use super::raw::{self, Forked};
use super::{filter, mounts, namespaces, start};
use crate::guard::{self, Guard};
use crate::launcher::DESCRIPTORS;
use crate::spec::Spec;
use crate::status::{Problem, Status, Step};

/// The ends of the pipes to the launcher.
pub(crate) struct Ends {
    /// Closed without a word once the program runs; else a problem comes through it.
    pub(crate) setup: OwnedFd,
    /// How the program ended.
    pub(crate) outcome: OwnedFd,
}

/// Everything this process does. It never returns.
pub(crate) fn run(spec: &Spec, stdio: [OwnedFd; DESCRIPTORS], ends: Ends) -> ! {
    let Ends { setup, outcome } = ends;
    let mut setup = File::from(setup);
    let child = match build(spec).and_then(|program| begin(spec, &program, &stdio)) {
        Ok(child) => child,
        Err(problem) => {
            let _ = setup.write_all(&Status::Failed(problem).framed());
            leave(1);
        }
    };
    drop((setup, stdio));
    let end = reap(child, spec.tier);
    let said = [end.to_le_bytes(), processes_so_far(spec.tier).to_le_bytes()].concat();
    let _ = File::from(outcome).write_all(&said);
    leave(0);
}

/// Ends this process without running anything on the way out, which would be the launcher's.
pub(crate) fn leave(code: i32) -> ! {
    raw::exit(code)
}

/// Builds the walls; the program, opened behind them.
fn build(spec: &Spec) -> Result<OwnedFd, Problem> {
    let step = |step, what: &str, cause: io::Error| Problem::new(step, what, &cause);
    if guard::stands(Guard::ParentDeath) {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
            .map_err(|cause| step(Step::Limits, "parent death signal", cause.into()))?;
    }
    if guard::stands(Guard::Undumpable) {
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .map_err(|cause| step(Step::Limits, "dumpable", cause.into()))?;
    }
    rustix::process::setsid().map_err(|cause| step(Step::Limits, "session", cause.into()))?;
    // Before the mounts, whose scratch space could cover it; but what is in a granted folder is taken as it is shown.
    let outside = (!is_granted(spec)).then(|| open_program(spec)).transpose()?;
    let scratch = match spec.tier {
        SandboxTier::Full => {
            if spec.network == Network::Loopback && guard::stands(Guard::NetworkNamespace) {
                namespaces::make_network()?;
            }
            mounts::build(spec)?;
            Scratch::Private
        }
        SandboxTier::Reduced | SandboxTier::None => Scratch::None,
    };
    let program = outside.map_or_else(|| open_program(spec), Ok)?;
    rustix::process::chdir(&spec.folder)
        .map_err(|cause| step(Step::Folder, &spec.folder.display().to_string(), cause.into()))?;
    block_signals().map_err(|cause| step(Step::Limits, "signals", cause))?;
    guard::may(Step::Capabilities)?;
    if guard::stands(Guard::Capabilities) {
        drop_capabilities().map_err(|cause| step(Step::Capabilities, "capabilities", cause))?;
    }
    if guard::stands(Guard::NoNewPrivileges) {
        rustix::thread::set_no_new_privs(true)
            .map_err(|cause| step(Step::Capabilities, "no_new_privs", cause.into()))?;
    }
    if guard::stands(Guard::Landlock) {
        landlocked::restrict(spec, &program, scratch)?;
    }
    filter::install(spec.network)?;
    Ok(program)
}

fn is_granted(spec: &Spec) -> bool {
    spec.writable.iter().chain(&spec.readable).any(|folder| spec.program.starts_with(folder))
}

/// Opens the program that was found and judged, or nothing.
fn open_program(spec: &Spec) -> Result<OwnedFd, Problem> {
    let problem = |cause: io::Error| Problem::new(Step::Program, spec.program.display().to_string(), &cause);
    let opened =
        rustix::fs::open(&spec.program, OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())
            .map_err(|cause| problem(cause.into()))?;
    let facts = rustix::fs::fstat(&opened).map_err(|cause| problem(cause.into()))?;
    let is_same = (facts.st_dev, facts.st_ino) == (spec.device, spec.inode);
    match is_same || !guard::stands(Guard::Pin) {
        true => Ok(opened),
        false => Err(problem(io::Error::from_raw_os_error(libc::ESTALE))),
    }
}

/// The two signals this process acts on wait until it asks for them.
fn awaited() -> SigSet {
    [Signal::SIGCHLD, Signal::SIGTERM].into_iter().collect()
}

fn block_signals() -> io::Result<()> {
    Ok(sigprocmask(SigmaskHow::SIG_BLOCK, Some(&awaited()), None)?)
}

/// Gives up every power over the namespaces, and looks that none is left.
fn drop_capabilities() -> io::Result<()> {
    let left = rustix::thread::capabilities(None)?;
    if left.permitted.contains(CapabilitySet::SETPCAP) {
        for bit in 0..u64::BITS {
            let one = CapabilitySet::from_bits_retain(1 << bit);
            match rustix::thread::remove_capability_from_bounding_set(one) {
                Ok(()) => {}
                // Past the last one this kernel knows.
                Err(rustix::io::Errno::INVAL) => break,
                Err(error) => return Err(error.into()),
            }
        }
        rustix::thread::clear_ambient_capability_set()?;
    }
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?;
    let left = rustix::thread::capabilities(None)?;
    match left.effective.is_empty() && left.permitted.is_empty() && left.inheritable.is_empty() {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EPERM)),
    }
}

/// Starts the program.
fn begin(spec: &Spec, program: &OwnedFd, stdio: &[OwnedFd; DESCRIPTORS]) -> Result<Pid, Problem> {
    let (failure, failure_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|cause| Problem::new(Step::Program, "pipe", &cause.into()))?;
    let forked = raw::fork().map_err(|cause| Problem::new(Step::Program, "fork", &cause))?;
    match forked {
        Forked::Child => {
            let problem = start::exec(spec, program, stdio);
            let _ = File::from(failure_end).write_all(&Status::Failed(problem).framed());
            leave(127)
        }
        Forked::Parent(child) => {
            drop(failure_end);
            // Closed by the exec, so this ends when the program runs or cannot.
            match said(File::from(failure)) {
                Some(problem) => Err(problem),
                None => Ok(child),
            }
        }
    }
}

fn said(mut from: impl io::Read) -> Option<Problem> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).ok()?;
    match Status::read(bytes.get(crate::line::HEAD..)?) {
        Ok(Status::Failed(problem)) => Some(problem),
        _ => None,
    }
}

/// Waits for the program and reaps everybody else's children; how it ended, as the kernel writes it.
fn reap(child: Pid, tier: SandboxTier) -> i32 {
    let signals = awaited();
    let everybody = match tier {
        // In a namespace of one's own: everybody in it but this process.
        SandboxTier::Full => Pid::from_raw(-1),
        // Outside of one that would be everybody on the machine; the launcher sees to the rest.
        SandboxTier::Reduced | SandboxTier::None => Pid::from_raw(-child.as_raw()),
    };
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
            let _ = kill(everybody, Signal::SIGTERM);
        }
    }
}

/// How many processes and threads this namespace has had besides this one: they are numbered one after the other. 0
/// where there is no namespace to count in.
fn processes_so_far(tier: SandboxTier) -> i32 {
    let text = match tier {
        SandboxTier::Full => std::fs::read_to_string("/proc/loadavg").unwrap_or_default(),
        SandboxTier::Reduced | SandboxTier::None => String::new(),
    };
    let newest = text.split_whitespace().last().and_then(|word| word.parse::<i32>().ok());
    newest.map_or(0, |newest| (newest - 1).max(0))
}

/// Whether a path is a text that names its interpreter.
pub(crate) fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    let read = File::open(path).and_then(|mut file| io::Read::read_exact(&mut file, &mut start));
    read.is_ok() && start == *b"#!"
}
