//! A worker: this program behind walls of its own, for as long as it is needed. It reads orders from one pipe and
//! answers on another; what they say is between the two who speak. It is granted nothing, so what a hostile document
//! makes of it stays inside. Dropping it ends it, and everything it started.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use tokio::net::unix::pipe;
use tool::SandboxTier;

use crate::confined::Confined;
use crate::error::SandboxError;
use crate::launcher::WORKER;
use crate::pool::Launcher;
use crate::program;
use crate::report::{End, Spent};
use crate::run;

/// What a worker is for, and what it may use.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// What [`enter`](crate::enter) hands the worker, which it knows its work by.
    pub name: &'static str,
    /// The memory of all its processes.
    pub memory_bytes: u64,
    /// Its processes and threads.
    pub processes: u64,
    /// How long it may live. One that is needed longer is replaced.
    pub lifetime: Duration,
}

impl Task {
    pub(crate) fn confined(&self) -> Result<Confined, SandboxError> {
        let words = vec![WORKER.into(), self.name.into()];
        let program = program::itself()?;
        Ok(Confined::granted_nothing(program, words, self.memory_bytes, self.processes, self.lifetime))
    }
}

/// A worker that runs.
#[derive(Debug)]
pub struct Worker {
    launcher: Launcher,
    tier: SandboxTier,
    /// Its standard input.
    pub orders: pipe::Sender,
    /// Its standard output.
    pub answers: pipe::Receiver,
}

impl Worker {
    /// Comes back once it runs behind its walls.
    pub(crate) async fn start(
        confined: &Confined,
        tier: SandboxTier,
        mut launcher: Launcher,
    ) -> Result<Worker, SandboxError> {
        let (orders, stdin) = run::input().map_err(SandboxError::Launcher)?;
        let (answers, stdout) = run::output().map_err(SandboxError::Launcher)?;
        let nowhere = File::options().write(true).open("/dev/null").map_err(SandboxError::Launcher)?;
        let stderr = OwnedFd::from(nowhere);
        let descriptors = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        run::give_order(&mut launcher, confined, tier, descriptors).await?;
        launcher.started().await?;
        Ok(Worker { launcher, tier, orders, answers })
    }

    /// The walls it runs in.
    pub fn tier(&self) -> SandboxTier {
        self.tier
    }

    /// Its two pipes, and what keeps it alive: it is ended when that is dropped.
    pub fn apart(self) -> (pipe::Sender, pipe::Receiver, impl Send + use<>) {
        (self.orders, self.answers, self.launcher)
    }

    /// Waits for its end: it left by itself, its lifetime is over, or it took more than it was granted.
    pub async fn ended(&mut self) -> Result<(End, Spent), SandboxError> {
        self.launcher.ended().await
    }
}
