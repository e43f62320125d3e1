//! Launchers that stand ready, so that a call waits for none to start. Few, and gone when nobody needs them.

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
use tool::SandboxTier;

use crate::backend::{self, Below};
use crate::error::SandboxError;
use crate::launcher::{self, NAME};
use crate::line;
use crate::report::{End, Spent};
use crate::status::{Problem, Status, Step};

/// How many wait at most. More would only wait: a call needs one.
pub(crate) const MOST: usize = 2;
/// How long one waits before it is let go, for as long as nothing else is said.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one may take to say that it is there.
const START: Duration = Duration::from_secs(5);
/// How long one may take to end with everything below it. More than it gives itself.
const TIME_TO_END: Duration = Duration::from_secs(8);

/// More than a problem takes, whose longest part is a path.
const LONGEST_PROBLEM: usize = 16 * 1024;

/// A launcher that has said it is one.
#[derive(Debug)]
pub(crate) struct Launcher {
    /// To who becomes the program. Closed from there once it does, which wakes nobody here: that would cost the program
    /// its processor, and most callers do not ask.
    pub(crate) setup: StdStream,
    /// To who watches.
    pub(crate) control: UnixStream,
    /// Reaped by the runtime once it is dropped. It ends when its socket does.
    pub(crate) process: Child,
    /// What it has started by now, to wait for where it is killed itself.
    below: Below,
}

impl Launcher {
    /// Starts one.
    pub(crate) async fn start(tier: SandboxTier) -> Result<Launcher, SandboxError> {
        let (mut setup, control, process) = spawn(tier).map_err(SandboxError::Launcher)?;
        let said = tokio::time::timeout(START, hear(&mut setup)).await;
        match said.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(Status::Ready) => {
                let setup = setup.into_std().map_err(SandboxError::Launcher)?;
                let below = process.id().map(Below::of).unwrap_or_default();
                Ok(Launcher { setup, control, process, below })
            }
            Ok(Status::Failed(problem)) => Err(problem.into()),
            Ok(Status::Ended(..)) => {
                Err(SandboxError::Launcher(io::Error::other("the launcher spoke out of turn")))
            }
            Err(error) => Err(SandboxError::Launcher(error)),
        }
    }

    /// Ends it, and waits until nothing is left of what it started.
    pub(crate) async fn end(self) {
        let Launcher { setup, control, mut process, below } = self;
        // It ends with its sockets. One that hangs is not left there either.
        drop((setup, control));
        if tokio::time::timeout(TIME_TO_END, process.wait()).await.is_err() {
            let _ = process.kill().await;
        }
        let _ = tokio::task::spawn_blocking(move || below.await_end(TIME_TO_END)).await;
    }

    /// Waits until the program runs.
    pub(crate) async fn started(&mut self) -> Result<(), SandboxError> {
        let mut bytes = vec![0; LONGEST_PROBLEM];
        let read = self.setup_awaited().map_err(SandboxError::Launcher)?.read(&mut bytes).await;
        bytes.truncate(read.map_err(|_| SandboxError::Lost)?);
        match problem_of(&bytes) {
            Some(problem) => Err(problem.into()),
            None => Ok(()),
        }
    }

    /// Waits until the program has ended; how it did, and what it used.
    pub(crate) async fn ended(&mut self) -> Result<(End, Spent), SandboxError> {
        let said = hear(&mut self.control).await;
        if let Some(problem) = self.problem() {
            return Err(problem.into());
        }
        match said {
            Ok(Status::Ended(end, spent)) => Ok((end, spent)),
            Ok(Status::Failed(problem)) => Err(problem.into()),
            Ok(Status::Ready) | Err(_) => Err(SandboxError::Lost),
        }
    }

    /// The first of the two sockets, to wait for.
    pub(crate) fn setup_awaited(&self) -> io::Result<UnixStream> {
        UnixStream::from_std(self.setup.try_clone()?)
    }

    /// Why the program did not come to run, if that has been said.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let mut bytes = [0; LONGEST_PROBLEM];
        let (read, _) = recv(self.setup.as_fd(), &mut bytes[..], RecvFlags::DONTWAIT).ok()?;
        problem_of(bytes.get(..read)?)
    }

    /// Whether it still waits: one that has ended has closed its socket or said so.
    pub(crate) fn is_alive(&self) -> bool {
        let mut byte = [0; 1];
        let read = recv(self.control.as_fd(), &mut byte[..], RecvFlags::DONTWAIT | RecvFlags::PEEK);
        matches!(read, Err(rustix::io::Errno::AGAIN))
    }
}

/// The problem that these bytes are; nothing at all is none.
fn problem_of(bytes: &[u8]) -> Option<Problem> {
    if bytes.is_empty() {
        return None;
    }
    match bytes.get(line::HEAD..).map(Status::read) {
        Some(Ok(Status::Failed(problem))) => Some(problem),
        _ => Some(Problem::new(Step::Message, "status", &io::ErrorKind::InvalidData.into())),
    }
}

/// The next message on a socket.
async fn hear(socket: &mut UnixStream) -> io::Result<Status> {
    let mut head = [0; line::HEAD];
    socket.read_exact(&mut head).await?;
    let mut body = vec![0; line::length(head)?];
    socket.read_exact(&mut body).await?;
    Status::read(&body)
}

/// A launcher that has yet to say that it is one: the two sockets to it, and its process.
fn spawn(tier: SandboxTier) -> io::Result<(UnixStream, UnixStream, Child)> {
    if !launcher::is_available() {
        return Err(io::Error::other("this program does not become a launcher when it is started again"));
    }
    let (control, setup) = (StdStream::pair()?, StdStream::pair()?);
    let ours = |socket: StdStream| {
        socket.set_nonblocking(true)?;
        UnixStream::from_std(socket)
    };
    let theirs = |socket: StdStream| Stdio::from(OwnedFd::from(socket));
    let mut command = Command::new(own_program()?);
    command.arg0(NAME).arg(tier.as_str()).arg(backend::group_for_launcher()).env_clear().process_group(0);
    #[cfg(test)]
    command.arg(crate::guard::word());
    command.stdin(theirs(control.1)).stdout(theirs(setup.1)).stderr(Stdio::null());
    let process = command.spawn()?;
    Ok((ours(setup.0)?, ours(control.0)?, process))
}

/// This program, by the file it runs from, even if another has taken its name since.
fn own_program() -> io::Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// The launchers of one tier that stand ready.
#[derive(Debug)]
pub(crate) struct Pool {
    tier: SandboxTier,
    /// How long one waits before it is let go.
    patience: Duration,
    shelf: Mutex<Shelf>,
}

/// Counted together, under one lock: calls that end at the same time would each start as many as one of them needs.
#[derive(Debug, Default)]
struct Shelf {
    ready: VecDeque<(u64, Launcher)>,
    /// How many are on their way there.
    starting: usize,
}

impl Shelf {
    fn standing(&self) -> usize {
        self.ready.len() + self.starting
    }
}

/// The place of a launcher that is on its way into a pool, or was given up.
struct Starting {
    pool: Arc<Pool>,
    is_filled: bool,
}

impl Starting {
    /// Puts the launcher in its place.
    fn fill(mut self, launcher: Launcher) -> Option<u64> {
        let name = u64::from(launcher.process.id()?);
        self.is_filled = true;
        let mut shelf = self.pool.shelf();
        shelf.starting = shelf.starting.saturating_sub(1);
        shelf.ready.push_back((name, launcher));
        Some(name)
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if !self.is_filled {
            let mut shelf = self.pool.shelf();
            shelf.starting = shelf.starting.saturating_sub(1);
        }
    }
}

impl Pool {
    pub(crate) fn new(tier: SandboxTier) -> Self {
        Pool::with_patience(tier, PATIENCE)
    }

    pub(crate) fn with_patience(tier: SandboxTier, patience: Duration) -> Self {
        Pool { tier, patience, shelf: Mutex::default() }
    }

    /// One that stands ready, or a new one.
    pub(crate) async fn take(&self) -> Result<Launcher, SandboxError> {
        while let Some((_, launcher)) = { self.shelf().ready.pop_front() } {
            if launcher.is_alive() {
                return Ok(launcher);
            }
        }
        Launcher::start(self.tier).await
    }

    /// Has others stand ready, after a call and not before it.
    pub(crate) fn refill(self: &Arc<Self>) {
        while let Some((number, place)) = self.reserve() {
            tokio::spawn(async move {
                let pool = Arc::clone(&place.pool);
                let started = Launcher::start(pool.tier).await;
                let Some(name) = started.ok().and_then(|launcher| place.fill(launcher)) else { return };
                // Not all at once.
                tokio::time::sleep(pool.patience + Duration::from_secs(number as u64).min(pool.patience))
                    .await;
                pool.shelf().ready.retain(|(other, _)| *other != name);
            });
        }
    }

    /// A place for one more, if there is one; which it is.
    fn reserve(self: &Arc<Self>) -> Option<(usize, Starting)> {
        let mut shelf = self.shelf();
        let number = shelf.standing();
        (number < MOST).then(|| {
            shelf.starting += 1;
            (number, Starting { pool: Arc::clone(self), is_filled: false })
        })
    }

    /// How many stand ready or are about to.
    #[cfg(test)]
    #[allow(dead_code, reason = "the tests of the library start none; the test program does")]
    pub(crate) fn standing(&self) -> usize {
        self.shelf().standing()
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
