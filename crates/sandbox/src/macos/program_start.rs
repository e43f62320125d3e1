//! Starts a program under its profile and ends everything that it started.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tool::result::SandboxTier;

use super::processes::{self, ListedProcess, ProcessSamples};
use super::profile;
use crate::launch::launcher::{ControlChannel, RunRequest, STDIO_COUNT, SetupChannel};
use crate::launch::spec::{RunLimits, RunSpec};
use crate::launch::status::{LauncherStatus, SetupFailure, SetupStep};
use crate::report::{ResourceUsage, RunEnd};

/// Absolute path; never resolved through a search path.
const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";
/// Exit code of `sandbox-exec` if it cannot apply a profile, for example inside another sandbox.
const PROFILE_NOT_APPLIED: i32 = 71;
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Interval between counts of the processes: each count starts another process.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);

/// Closes inherited descriptors. Those that Sinew opens itself are close-on-exec.
pub(crate) fn close_inherited_descriptors() -> io::Result<()> {
    let most =
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(1024).min(65_536);
    for number in 3..i32::try_from(most).unwrap_or(1024) {
        // One that is not open is refused harmlessly.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

/// Unsupported: macOS has no safe way to try this.
pub(crate) fn request_trace() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// macOS has no control groups for the runs of a user.
pub(crate) fn cgroup_controllers() -> Result<Vec<&'static str>, &'static str> {
    Err("this system has no control groups")
}

/// Always false, because macOS has no control groups.
pub(crate) fn has_cgroups(_: i32) -> bool {
    false
}

/// Always empty, because macOS has no control groups.
pub(crate) fn cgroup_argument() -> OsString {
    OsString::new()
}

/// Waits for a run request, runs the program and reports how it ended.
pub(crate) fn run_launcher(
    tier: SandboxTier,
    _: &OsStr,
    mut control: ControlChannel,
    mut setup: SetupChannel,
) -> io::Result<()> {
    if let Err(problem) = prepare(tier) {
        return setup.send(&LauncherStatus::Failed(problem));
    }
    setup.send(&LauncherStatus::ready())?;
    match setup.receive_request(tier)? {
        // The request contains the limits; only one process here needs them.
        Some(order) if control.receive_limits()?.is_some() => match order {
            Ok(order) => run(order, control, setup),
            Err(problem) => setup.send(&LauncherStatus::Failed(problem)),
        },
        _ => Ok(()),
    }
}

/// Checks the tier: macOS has only the full one.
fn prepare(tier: SandboxTier) -> Result<(), SetupFailure> {
    match tier {
        SandboxTier::Full if Path::new(SANDBOX_EXEC).is_file() => Ok(()),
        SandboxTier::Full => {
            Err(SetupFailure::new(SetupStep::Profile, SANDBOX_EXEC, &io::ErrorKind::NotFound.into()))
        }
        SandboxTier::Reduced | SandboxTier::None => {
            Err(SetupFailure::new(SetupStep::Profile, "tier", &io::ErrorKind::Unsupported.into()))
        }
    }
}

fn run(order: RunRequest, mut control: ControlChannel, mut setup: SetupChannel) -> io::Result<()> {
    let RunRequest { spec, stdio } = order;
    let deadline = Instant::now() + spec.limits.time;
    let scratch = ScratchDir::make()?;
    let mut child = match start(&spec, stdio, &scratch.path) {
        Ok(child) => child,
        Err(problem) => return setup.send(&LauncherStatus::Failed(problem)),
    };
    // Closing the setup channel signals the daemon that the program runs.
    drop(setup);
    let (why, status) = watch(&spec, &mut child, &mut control, deadline)?;
    if why == Some(RunEnd::Cancelled) {
        return Ok(());
    }
    let end = match (why, status.code(), status.signal()) {
        (Some(why), _, _) => why,
        (None, Some(PROFILE_NOT_APPLIED), _) => {
            let cause = io::Error::from_raw_os_error(nix::errno::Errno::EPERM as i32);
            return control.send(&LauncherStatus::Failed(SetupFailure::new(
                SetupStep::Profile,
                "sandbox_apply",
                &cause,
            )));
        }
        (None, Some(code), _) => RunEnd::Exited(code),
        (None, None, Some(signal)) => RunEnd::Signalled(signal),
        (None, None, None) => RunEnd::Killed,
    };
    control.send(&LauncherStatus::Ended(end, children_usage()?))
}

/// Private folder of a run, removed with it.
struct ScratchDir {
    path: PathBuf,
}

impl ScratchDir {
    fn make() -> io::Result<ScratchDir> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let name = format!("/private/tmp/sinew-{}-{}", std::process::id(), now.as_nanos());
        std::fs::DirBuilder::new().mode(0o700).create(&name)?;
        Ok(ScratchDir { path: name.into() })
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn start(spec: &RunSpec, stdio: [OwnedFd; STDIO_COUNT], scratch: &Path) -> Result<Child, SetupFailure> {
    let program = spec.program.display().to_string();
    let found =
        spec.program.metadata().map_err(|cause| SetupFailure::new(SetupStep::Program, &*program, &cause))?;
    if (found.dev(), found.ino()) != (spec.device, spec.inode) {
        return Err(SetupFailure::new(
            SetupStep::Program,
            &*program,
            &io::Error::from(io::ErrorKind::StaleNetworkFileHandle),
        ));
    }
    limit(&spec.limits).map_err(|cause| SetupFailure::new(SetupStep::Limits, "resources", &cause))?;
    let profile = profile::build(spec, scratch);
    let mut command = Command::new(SANDBOX_EXEC);
    command.arg("-p").arg(&profile.text);
    for (name, value) in &profile.parameters {
        let mut pair = OsString::from(format!("{name}="));
        pair.push(value);
        command.arg("-D").arg(pair);
    }
    command.arg("--").arg(&spec.program).args(spec.arguments.iter().skip(1));
    command.env_clear().envs(spec.variables.iter().filter_map(|word| split_variable(word)));
    command.env("TMPDIR", scratch).env("HOME", scratch);
    let [input, output, errors] = stdio.map(Stdio::from);
    command.stdin(input).stdout(output).stderr(errors).current_dir(&spec.folder).process_group(0);
    command.spawn().map_err(|cause| SetupFailure::new(SetupStep::Program, program, &cause))
}

fn split_variable(word: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    Some((OsStr::from_bytes(bytes.get(..at)?), OsStr::from_bytes(bytes.get(at + 1..)?)))
}

/// Sets the limits of this process, which its children inherit. Memory cannot be limited this way: programs
/// reserve far more than they use, and macOS counts what is reserved.
fn limit(limits: &RunLimits) -> io::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    setrlimit(Resource::RLIMIT_NOFILE, limits.open_files, limits.open_files)?;
    if limits.cpu_seconds > 0 {
        setrlimit(Resource::RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1)?;
    }
    if limits.file_bytes > 0 {
        setrlimit(Resource::RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes)?;
    }
    Ok(())
}

/// Waits for the end of the program; returns its status and the reason if the watcher ended it.
fn watch(
    spec: &RunSpec,
    child: &mut Child,
    control: &mut ControlChannel,
    deadline: Instant,
) -> io::Result<(Option<RunEnd>, ExitStatus)> {
    let leader = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let (mut why, mut kill_at, mut look_at) = (None, None, Instant::now() + SAMPLE_INTERVAL);
    let mut samples = ProcessSamples::default();
    let own = i32::try_from(std::process::id()).unwrap_or(-1);
    loop {
        if let Some(status) = child.try_wait()? {
            signal_all(leader, Signal::SIGKILL, &descendants(std::process::id()));
            return Ok((why, status));
        }
        let now = Instant::now();
        if why.is_none() && now >= deadline {
            why = Some(RunEnd::TimedOut);
            signal_all(leader, Signal::SIGTERM, &[]);
            kill_at = Some(now + spec.limits.grace);
        }
        if why.is_none() && now >= look_at {
            look_at = now + SAMPLE_INTERVAL;
            why = samples.exceeded_limit((own, leader.as_raw()), &all_processes(), &spec.limits);
            kill_at = why.map(|_| now);
        }
        if kill_at.is_some_and(|at| now >= at) {
            signal_all(leader, Signal::SIGKILL, &descendants(child.id()));
            kill_at = None;
        }
        if is_disconnected(control)? {
            signal_all(leader, Signal::SIGKILL, &descendants(child.id()));
            why = Some(RunEnd::Cancelled);
        }
    }
}

/// Waits one poll interval for the daemon; returns true if it has disconnected.
fn is_disconnected(control: &mut ControlChannel) -> io::Result<bool> {
    let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(POLL_INTERVAL.subsec_nanos()) };
    let ready = {
        let mut list = [PollFd::new(control, PollFlags::IN)];
        poll(&mut list, Some(&wait))? > 0
    };
    Ok(ready && control.is_disconnected())
}

/// Signals the process group and the processes that left it. An error for a group of zombies is ignored,
/// because its processes have ended.
fn signal_all(leader: Pid, signal: Signal, others: &[ListedProcess]) {
    let _ = killpg(leader, signal);
    for other in others {
        let _ = kill(Pid::from_raw(other.process), signal);
    }
}

/// Returns all descendants of a process.
fn descendants(of: u32) -> Vec<ListedProcess> {
    processes::descendants(i32::try_from(of).unwrap_or(-1), &all_processes())
}

/// Returns the processes of the machine. Empty if `ps` could not be run.
fn all_processes() -> Vec<ListedProcess> {
    let listed = Command::new("/bin/ps").args(["-axo", "pid=,ppid=,rss="]).env_clear().output();
    let text = listed.map(|listed| String::from_utf8_lossy(&listed.stdout).into_owned()).unwrap_or_default();
    processes::parse(&text)
}

fn children_usage() -> io::Result<ResourceUsage> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = |value: nix::sys::time::TimeVal| {
        let seconds = u64::try_from(value.tv_sec()).unwrap_or(0);
        Duration::from_secs(seconds) + Duration::from_micros(u64::try_from(value.tv_usec()).unwrap_or(0))
    };
    Ok(ResourceUsage {
        cpu: time(usage.user_time()) + time(usage.system_time()),
        max_rss_bytes: u64::try_from(usage.max_rss()).unwrap_or(0),
        read_bytes: u64::try_from(usage.block_reads()).unwrap_or(0) * 512,
        written_bytes: u64::try_from(usage.block_writes()).unwrap_or(0) * 512,
        processes: 1,
    })
}

/// Children of a launcher. macOS has no process handles; the launcher itself ends after it has ended them.
#[derive(Debug, Default)]
pub(crate) struct LauncherChildren;

impl LauncherChildren {
    pub(crate) fn of(_: u32) -> LauncherChildren {
        LauncherChildren
    }

    pub(crate) fn wait(&self, _: Duration) {}
}

/// Does nothing: a launcher whose daemon is gone ends long before another daemon has started.
pub(crate) fn wait_for_launcher(_: u32, _: Duration) {}
