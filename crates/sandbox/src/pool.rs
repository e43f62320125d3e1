//! Launchers that stand ready, so that a call waits for none to start. Few, and gone when nobody needs them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tool::SandboxTier;

use crate::backend::Below;
use crate::launcher::{self, NAME};
use crate::line;
use crate::status::Status;

/// How many wait at most. More would only wait: a call needs one.
const MOST: usize = 2;
/// How long one waits before it is let go.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one may take to say that it is there.
const START: Duration = Duration::from_secs(5);
/// How long one may take to end with everything below it. More than it gives itself.
const TIME_TO_END: Duration = Duration::from_secs(8);

/// A launcher that has said it is one.
#[derive(Debug)]
pub(crate) struct Launcher {
    pub(crate) socket: UnixStream,
    /// Reaped by the runtime once it is dropped. It ends when its socket does.
    pub(crate) process: Child,
}

impl Launcher {
    /// Starts one.
    pub(crate) async fn start(tier: SandboxTier) -> io::Result<Launcher> {
        if !launcher::is_available() {
            return Err(io::Error::other("this program does not become a launcher when it is started again"));
        }
        let (ours, theirs) = StdStream::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new(own_program()?);
        command.arg0(NAME).arg(tier.as_str()).env_clear().process_group(0);
        #[cfg(test)]
        command.arg(crate::guard::word());
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn()?;
        drop(command);
        let mut launcher = Launcher { socket: UnixStream::from_std(ours)?, process };
        match tokio::time::timeout(START, launcher.hear()).await {
            Ok(Ok(Status::Ready)) => Ok(launcher),
            Ok(Ok(_)) => Err(io::Error::other("the launcher spoke out of turn")),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Ends it, and waits until nothing is left of what it started.
    pub(crate) async fn end(self) {
        let below = self.process.id().map(Below::of);
        let Launcher { socket, mut process } = self;
        // It ends with its socket. One that hangs is not left there either.
        drop(socket);
        if tokio::time::timeout(TIME_TO_END, process.wait()).await.is_err() {
            let _ = process.kill().await;
        }
        if let Some(below) = below {
            let _ = tokio::task::spawn_blocking(move || below.await_end(TIME_TO_END)).await;
        }
    }

    /// Its next message.
    pub(crate) async fn hear(&mut self) -> io::Result<Status> {
        let mut head = [0; line::HEAD];
        self.socket.read_exact(&mut head).await?;
        let mut body = vec![0; line::length(head)?];
        self.socket.read_exact(&mut body).await?;
        Status::read(&body)
    }
}

/// This program, by the file it runs from, even if another has taken its name since.
fn own_program() -> io::Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// The launchers of one tier that stand ready.
#[derive(Debug)]
pub(crate) struct Pool {
    tier: SandboxTier,
    ready: Mutex<VecDeque<(u64, Launcher)>>,
}

impl Pool {
    pub(crate) fn new(tier: SandboxTier) -> Self {
        Pool { tier, ready: Mutex::default() }
    }

    /// One that stands ready, or a new one.
    pub(crate) async fn take(&self) -> io::Result<Launcher> {
        while let Some((_, launcher)) = { self.list().pop_front() } {
            if is_alive(&launcher) {
                return Ok(launcher);
            }
        }
        Launcher::start(self.tier).await
    }

    /// Has others stand ready, after a call and not before it.
    pub(crate) fn refill(self: &Arc<Self>) {
        for number in self.list().len()..MOST {
            let pool = Arc::clone(self);
            tokio::spawn(async move {
                let Ok(launcher) = Launcher::start(pool.tier).await else { return };
                let name = pool.put(launcher);
                tokio::time::sleep(PATIENCE + Duration::from_secs(number as u64)).await;
                pool.list().retain(|(other, _)| Some(*other) != name);
            });
        }
    }

    /// Adds one, unless there are enough by now.
    fn put(&self, launcher: Launcher) -> Option<u64> {
        let name = u64::from(launcher.process.id()?);
        let mut list = self.list();
        if list.len() >= MOST {
            return None;
        }
        list.push_back((name, launcher));
        Some(name)
    }

    fn list(&self) -> MutexGuard<'_, VecDeque<(u64, Launcher)>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether it still waits: one that has ended has closed its socket.
fn is_alive(launcher: &Launcher) -> bool {
    let mut byte = [0; 1];
    matches!(launcher.socket.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}
