//! Pool of ready launchers, so that a call does not wait for one to start. Few are kept, and idle ones are
//! released.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::{RecvFlags, recv};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tool::result::SandboxTier;

use crate::backend::{self, LauncherChildren};
use crate::error::SandboxError;
use crate::launch::launcher::{self, LAUNCHER_NAME};
use crate::launch::status::{LauncherStatus, SetupFailure, SetupStep};
use crate::launch::wire_format;
use crate::report::{ResourceUsage, RunEnd};

/// Largest number of ready launchers. A call needs one, so more would be idle.
pub(crate) const MAX_READY: usize = 2;
/// Time after which an idle launcher is released.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time for a launcher to report that it is ready.
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time for a launcher to end with everything below it. Longer than the launcher's own timeouts.
const END_TIMEOUT: Duration = Duration::from_secs(8);

/// Longest failure message; its longest part is a path.
const MAX_FAILURE_BYTES: usize = 16 * 1024;

/// A launcher that reported that it is ready.
#[derive(Debug)]
pub(crate) struct Launcher {
    /// Socket to the child that becomes the program, which closes it with the exec. A blocking socket, so
    /// that the close wakes no task here: waking one would take a processor from the program, and most
    /// callers do not need it.
    pub(crate) setup: StdStream,
    /// Socket to the watcher.
    pub(crate) control: UnixStream,
    /// Reaped by the runtime when dropped. The process ends when its sockets close.
    pub(crate) process: Child,
    /// Processes it had started when it became ready, to wait for in case the launcher itself is killed.
    children: LauncherChildren,
}

impl Launcher {
    /// Starts a launcher and waits until it is ready.
    pub(crate) async fn start(tier: SandboxTier) -> Result<Launcher, SandboxError> {
        let (mut setup, control, process) = spawn(tier).map_err(SandboxError::Launcher)?;
        let text = tokio::time::timeout(START_TIMEOUT, read_status(&mut setup)).await;
        match text.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(LauncherStatus::Ready(_)) => {
                let setup = setup.into_std().map_err(SandboxError::Launcher)?;
                let below = process.id().map(LauncherChildren::of).unwrap_or_default();
                Ok(Launcher { setup, control, process, children: below })
            }
            Ok(LauncherStatus::Failed(problem)) => Err(problem.into()),
            Ok(LauncherStatus::Ended(..)) => {
                Err(SandboxError::Launcher(io::Error::other("the launcher sent an unexpected status")))
            }
            Err(error) => Err(SandboxError::Launcher(error)),
        }
    }

    /// Ends the launcher and waits until nothing of what it started is left.
    pub(crate) async fn end(self) {
        let Launcher { setup, control, mut process, children } = self;
        // A launcher ends when its sockets close. One that hangs is killed.
        drop((setup, control));
        if tokio::time::timeout(END_TIMEOUT, process.wait()).await.is_err() {
            let _ = process.kill().await;
        }
        let _ = tokio::task::spawn_blocking(move || children.wait(END_TIMEOUT)).await;
    }

    /// Waits until the program runs.
    pub(crate) async fn wait_until_started(&mut self) -> Result<(), SandboxError> {
        let mut bytes = vec![0; MAX_FAILURE_BYTES];
        let read = self.async_setup().map_err(SandboxError::Launcher)?.read(&mut bytes).await;
        bytes.truncate(read.map_err(|_| SandboxError::LauncherLost)?);
        match parse_failure(&bytes) {
            Some(problem) => Err(problem.into()),
            None => Ok(()),
        }
    }

    /// Waits until the program has ended; returns how it ended and its resource usage.
    pub(crate) async fn wait_until_ended(&mut self) -> Result<(RunEnd, ResourceUsage), SandboxError> {
        let text = read_status(&mut self.control).await;
        if let Some(problem) = self.setup_failure() {
            return Err(problem.into());
        }
        match text {
            Ok(LauncherStatus::Ended(end, spent)) => Ok((end, spent)),
            Ok(LauncherStatus::Failed(problem)) => Err(problem.into()),
            Ok(LauncherStatus::Ready(_)) | Err(_) => Err(SandboxError::LauncherLost),
        }
    }

    /// Returns the set-up socket for asynchronous use.
    pub(crate) fn async_setup(&self) -> io::Result<UnixStream> {
        UnixStream::from_std(self.setup.try_clone()?)
    }

    /// Returns the reason why the program did not start, if it was reported.
    pub(crate) fn setup_failure(&self) -> Option<SetupFailure> {
        let mut bytes = [0; MAX_FAILURE_BYTES];
        let (read, _) = recv(self.setup.as_fd(), &mut bytes[..], RecvFlags::DONTWAIT).ok()?;
        parse_failure(bytes.get(..read)?)
    }

    /// Returns true if the launcher still waits: one that has ended has closed its socket or sent a status.
    pub(crate) fn is_alive(&self) -> bool {
        let mut byte = [0; 1];
        let read = recv(self.control.as_fd(), &mut byte[..], RecvFlags::DONTWAIT | RecvFlags::PEEK);
        matches!(read, Err(rustix::io::Errno::AGAIN))
    }
}

/// Parses a failure message; no bytes mean no failure.
fn parse_failure(bytes: &[u8]) -> Option<SetupFailure> {
    if bytes.is_empty() {
        return None;
    }
    match bytes.get(wire_format::LENGTH_BYTES..).map(LauncherStatus::parse) {
        Some(Ok(LauncherStatus::Failed(problem))) => Some(problem),
        _ => Some(SetupFailure::new(SetupStep::Message, "status", &io::ErrorKind::InvalidData.into())),
    }
}

/// Reads the next message from a socket.
async fn read_status(socket: &mut UnixStream) -> io::Result<LauncherStatus> {
    let mut head = [0; wire_format::LENGTH_BYTES];
    socket.read_exact(&mut head).await?;
    let mut body = vec![0; wire_format::parse_length(head)?];
    socket.read_exact(&mut body).await?;
    LauncherStatus::parse(&body)
}

/// Starts a launcher process, which has not reported yet; returns the set-up socket, the control socket and
/// the process.
fn spawn(tier: SandboxTier) -> io::Result<(UnixStream, UnixStream, Child)> {
    if !launcher::is_available() {
        return Err(io::Error::other("this program did not call `sandbox::enter`, so it has no launcher"));
    }
    let (control, setup) = (StdStream::pair()?, StdStream::pair()?);
    let ours = |socket: StdStream| {
        socket.set_nonblocking(true)?;
        UnixStream::from_std(socket)
    };
    let theirs = |socket: StdStream| Stdio::from(OwnedFd::from(socket));
    let mut command = Command::new(own_program()?);
    command.arg0(LAUNCHER_NAME).arg(tier.as_str()).arg(backend::cgroup_argument()).env_clear();
    #[cfg(test)]
    command.arg(crate::layers::launcher_argument());
    command.stdin(theirs(control.1)).stdout(theirs(setup.1)).stderr(Stdio::null());
    let process = command.spawn()?;
    Ok((ours(setup.0)?, ours(control.0)?, process))
}

/// Returns the file this program runs from, even if another file has taken its path since.
pub fn own_program() -> io::Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// Ready launchers of one tier.
#[derive(Debug)]
pub(crate) struct LauncherPool {
    tier: SandboxTier,
    /// Time after which an idle launcher is released.
    idle_timeout: Duration,
    state: Mutex<PoolState>,
}

/// Guarded by one lock: otherwise calls that end at the same time would each start as many launchers as one
/// of them needs.
#[derive(Debug, Default)]
struct PoolState {
    ready: VecDeque<(u64, Launcher)>,
    /// Number of launchers that are starting.
    starting: usize,
}

impl PoolState {
    fn ready_or_starting(&self) -> usize {
        self.ready.len() + self.starting
    }
}

/// Slot of a launcher that is starting. Dropping it without a launcher frees the slot.
struct PoolSlot {
    pool: Arc<LauncherPool>,
    is_filled: bool,
}

impl PoolSlot {
    /// Puts the launcher into its slot.
    fn fill(mut self, launcher: Launcher) -> Option<u64> {
        let name = u64::from(launcher.process.id()?);
        self.is_filled = true;
        let mut cache = self.pool.lock();
        cache.starting = cache.starting.saturating_sub(1);
        cache.ready.push_back((name, launcher));
        Some(name)
    }
}

impl Drop for PoolSlot {
    fn drop(&mut self) {
        if !self.is_filled {
            let mut cache = self.pool.lock();
            cache.starting = cache.starting.saturating_sub(1);
        }
    }
}

impl LauncherPool {
    pub(crate) fn new(tier: SandboxTier) -> Self {
        LauncherPool::with_idle_timeout(tier, IDLE_TIMEOUT)
    }

    pub(crate) fn with_idle_timeout(tier: SandboxTier, timeout: Duration) -> Self {
        LauncherPool { tier, idle_timeout: timeout, state: Mutex::default() }
    }

    /// Returns a ready launcher, or starts a new one.
    pub(crate) async fn take(&self) -> Result<Launcher, SandboxError> {
        while let Some((_, launcher)) = { self.lock().ready.pop_front() } {
            if launcher.is_alive() {
                return Ok(launcher);
            }
        }
        Launcher::start(self.tier).await
    }

    /// Starts launchers for later calls. Called after a call, so that it delays none.
    pub(crate) fn refill(self: &Arc<Self>) {
        while let Some((number, slot)) = self.reserve() {
            tokio::spawn(async move {
                let pool = Arc::clone(&slot.pool);
                let started = Launcher::start(pool.tier).await;
                let Some(name) = started.ok().and_then(|launcher| slot.fill(launcher)) else { return };
                // Staggered, so that not all are released at once.
                tokio::time::sleep(
                    pool.idle_timeout + Duration::from_secs(number as u64).min(pool.idle_timeout),
                )
                .await;
                pool.lock().ready.retain(|(other, _)| *other != name);
            });
        }
    }

    /// Reserves a slot, if one is free; also returns its index.
    fn reserve(self: &Arc<Self>) -> Option<(usize, PoolSlot)> {
        let mut cache = self.lock();
        let number = cache.ready_or_starting();
        (number < MAX_READY).then(|| {
            cache.starting += 1;
            (number, PoolSlot { pool: Arc::clone(self), is_filled: false })
        })
    }

    /// Returns the number of launchers that are ready or starting.
    #[cfg(test)]
    #[allow(dead_code, reason = "the unit tests start none; the `sandboxed` test program does")]
    pub(crate) fn ready_or_starting(&self) -> usize {
        self.lock().ready_or_starting()
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
