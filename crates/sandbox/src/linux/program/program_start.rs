//! Last steps before the program starts: descriptors, resource limits and the exec.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::fcntl::AtFlags;
use rustix::process::{Resource, Rlimit, setrlimit};
use tool::result::SandboxTier;

use crate::launch::launcher::STDIO_COUNT;
use crate::launch::spec::{RunLimits, RunSpec};
use crate::launch::status::{SetupFailure, SetupStep};
use crate::layers::{self, SandboxLayer};
use crate::linux::raw_syscalls;

/// Margin above the run's memory limit. The watcher ends a run at the limit itself and can report why; this
/// hard limit only stops a single process that outruns the watcher.
const MEMORY_MARGIN: u64 = 512 * 1024 * 1024;
/// Limit of pending signals, timers included; most programs have none. The kernel has a fixed number per
/// user.
const MAX_PENDING_SIGNALS: u64 = 1024;
/// Limit of memory that cannot be paged out.
const MAX_LOCKED_BYTES: u64 = 64 * 1024;
/// Launcher and init process, which the kernel counts among the user's processes in the namespace.
const OWN_PROCESSES: u64 = 2;

/// Applies the settings that are the same for every program, before a run request arrives.
pub(crate) fn prepare() -> Result<(), SetupFailure> {
    let problem = |what: &str, cause: io::Error| SetupFailure::new(SetupStep::Limits, what, &cause);
    raw_syscalls::reset_signals();
    nix::sys::signal::SigSet::empty().thread_set_mask().map_err(|cause| problem("signals", cause.into()))?;
    rustix::process::umask(rustix::fs::Mode::WGRP | rustix::fs::Mode::WOTH);
    for (guard, resource, limit) in [
        (SandboxLayer::CoreLimit, Resource::Core, 0),
        (SandboxLayer::LockedMemoryLimit, Resource::Memlock, MAX_LOCKED_BYTES),
        (SandboxLayer::PendingSignalsLimit, Resource::Sigpending, MAX_PENDING_SIGNALS),
    ] {
        set_limit(guard, resource, limit, limit).map_err(|cause| problem("resources", cause))?;
    }
    Ok(())
}

/// Executes the program; returns only on failure, with the reason.
pub(crate) fn exec(spec: &RunSpec, program: &OwnedFd, stdio: &[OwnedFd; STDIO_COUNT]) -> SetupFailure {
    let step = |step, what: &str, cause: io::Error| SetupFailure::new(step, what, &cause);
    if let Err(cause) = take_stdio(stdio) {
        return step(SetupStep::Limits, "descriptors", cause);
    }
    if let Err(cause) = set_limits(&spec.limits, spec.tier) {
        return step(SetupStep::Limits, "resources", cause);
    }
    if let Err(problem) = layers::check_injected_fault(SetupStep::Limits) {
        return problem;
    }
    let cause = match (to_c_strings(&spec.arguments), to_c_strings(&spec.variables)) {
        (Ok(argv), Ok(variables)) => execute(spec, program, &argv, &variables),
        (Err(cause), _) | (_, Err(cause)) => cause,
    };
    step(SetupStep::Program, &spec.program.display().to_string(), cause)
}

/// Executes the program by its descriptor, so that the file that was checked is the one that runs. A script
/// is executed by its path instead: its interpreter opens it by name, and a close-on-exec descriptor has
/// none. The script is on a read-only mount, so no confined process has changed it since the check.
fn execute(spec: &RunSpec, program: &OwnedFd, argv: &[CString], variables: &[CString]) -> io::Error {
    let failed = if is_script(&spec.program) {
        CString::new(spec.program.as_os_str().as_bytes())
            .map_err(io::Error::from)
            .and_then(|path| Ok(nix::unistd::execve(&path, argv, variables)?))
    } else {
        nix::unistd::execveat(program, c"", argv, variables, AtFlags::AT_EMPTY_PATH).map_err(io::Error::from)
    };
    match failed {
        Ok(never) => match never {},
        Err(cause) => cause,
    }
}

/// Returns true if the file starts with `#!`.
fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    let read = File::open(path).and_then(|mut file| io::Read::read_exact(&mut file, &mut start));
    read.is_ok() && start == *b"#!"
}

fn take_stdio([input, output, errors]: &[OwnedFd; STDIO_COUNT]) -> io::Result<()> {
    rustix::stdio::dup2_stdin(input)?;
    rustix::stdio::dup2_stdout(output)?;
    rustix::stdio::dup2_stderr(errors)?;
    match layers::is_enabled(SandboxLayer::CloseOnExec) {
        true => raw_syscalls::close_on_exec_from(3),
        false => Ok(()),
    }
}

fn set_limits(limits: &RunLimits, tier: SandboxTier) -> io::Result<()> {
    set_limit(SandboxLayer::OpenFilesLimit, Resource::Nofile, limits.open_files, limits.open_files)?;
    let memory = limits.memory_bytes.saturating_add(MEMORY_MARGIN);
    set_limit(SandboxLayer::MemoryLimit, Resource::Data, memory, memory)?;
    if limits.cpu_seconds > 0 {
        set_limit(SandboxLayer::CpuLimit, Resource::Cpu, limits.cpu_seconds, limits.cpu_seconds + 1)?;
    }
    if limits.file_bytes > 0 {
        set_limit(SandboxLayer::FileSizeLimit, Resource::Fsize, limits.file_bytes, limits.file_bytes)?;
    }
    match tier {
        // In a user namespace the kernel counts the processes of that namespace; outside of one it counts all
        // processes of the user.
        SandboxTier::Full => {
            let processes = limits.processes.saturating_add(OWN_PROCESSES);
            set_limit(SandboxLayer::ProcessLimit, Resource::Nproc, processes, processes)
        }
        SandboxTier::Reduced | SandboxTier::None => Ok(()),
    }
}

/// Sets a resource limit, capped at the hard limit of this process.
fn set_limit(guard: SandboxLayer, resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    if !layers::is_enabled(guard) {
        return Ok(());
    }
    let limit = |soft, hard| Rlimit { current: Some(soft), maximum: Some(hard) };
    match setrlimit(resource, limit(soft, hard)) {
        Err(rustix::io::Errno::PERM) => {
            let allowed = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
            Ok(setrlimit(resource, limit(soft.min(allowed), hard.min(allowed)))?)
        }
        done => Ok(done?),
    }
}

fn to_c_strings(argv: &[OsString]) -> io::Result<Vec<CString>> {
    argv.iter().map(|word| Ok(CString::new(word.as_bytes())?)).collect()
}
