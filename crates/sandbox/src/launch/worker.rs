//! Sandboxed worker: this program in its own sandbox, for as long as it is needed. It reads requests from one
//! pipe and writes responses to another; this crate does not define their format. It has no grants, so a
//! hostile document that takes it over gains nothing. Dropping the handle ends the worker and everything it
//! started.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use tokio::net::unix::pipe;
use tool::SandboxTier;

use crate::error::SandboxError;
use crate::launch;
use crate::launch::launcher::WORKER;
use crate::launch::pool::Launcher;
use crate::prepare::Confined;
use crate::prepare::program;
use crate::report::{End, Spent};

/// Task of a worker and its limits.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// Name that [`enter`](crate::enter) passes to the worker, which identifies its task.
    pub name: &'static str,
    /// Memory limit of all its processes together.
    pub memory_bytes: u64,
    /// Limit of processes and threads.
    pub processes: u64,
    /// Longest lifetime. A worker that is needed longer is replaced.
    pub lifetime: Duration,
}

impl Task {
    pub(crate) fn confined(&self) -> Result<Confined, SandboxError> {
        let words = vec![WORKER.into(), self.name.into()];
        let program = program::itself()?;
        Ok(Confined::granted_nothing(program, words, self.memory_bytes, self.processes, self.lifetime))
    }
}

/// A running worker.
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
    /// Starts a worker; returns once it runs in its sandbox.
    pub(crate) async fn start(
        confined: &Confined,
        tier: SandboxTier,
        mut launcher: Launcher,
    ) -> Result<Worker, SandboxError> {
        let (orders, stdin) = launch::input().map_err(SandboxError::Launcher)?;
        let (answers, stdout) = launch::output().map_err(SandboxError::Launcher)?;
        let nowhere = File::options().write(true).open("/dev/null").map_err(SandboxError::Launcher)?;
        let stderr = OwnedFd::from(nowhere);
        let descriptors = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        launch::give_order(&mut launcher, confined, tier, descriptors).await?;
        launcher.started().await?;
        Ok(Worker { launcher, tier, orders, answers })
    }

    /// Returns the sandbox tier in which it runs.
    pub fn tier(&self) -> SandboxTier {
        self.tier
    }

    /// Splits the worker into its two pipes and a guard that ends it when dropped.
    pub fn apart(self) -> (pipe::Sender, pipe::Receiver, impl Send + use<>) {
        (self.orders, self.answers, self.launcher)
    }

    /// Waits for its end: it exited, its lifetime passed, or it exceeded a limit.
    pub async fn ended(&mut self) -> Result<(End, Spent), SandboxError> {
        self.launcher.ended().await
    }
}
