//! Sandboxed worker process. It runs this program in its own sandbox until the handle is dropped. It reads requests from one
//! pipe and writes responses to another; this crate does not define their format. It has no grants, so a
//! hostile document that takes it over gains nothing. Dropping the handle ends the worker and everything it
//! started.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use tokio::net::unix::pipe;
use tool::result::SandboxTier;

use crate::error::SandboxError;
use crate::launch;
use crate::launch::launcher::WORKER_NAME;
use crate::launch::pool::Launcher;
use crate::prepare::ConfinedCommand;
use crate::prepare::program;
use crate::report::{ResourceUsage, RunEnd};

/// Task of a worker and its limits.
#[derive(Clone, Copy, Debug)]
pub struct WorkerTask {
    /// Name that [`enter`](crate::enter) passes to the worker, which identifies its task.
    pub name: &'static str,
    /// Memory limit of all its processes together.
    pub memory_bytes: u64,
    /// Limit of processes and threads.
    pub processes: u64,
    /// Longest lifetime. A worker that is needed longer is replaced.
    pub lifetime: Duration,
}

impl WorkerTask {
    pub(crate) fn confined(&self) -> Result<ConfinedCommand, SandboxError> {
        let arguments = vec![WORKER_NAME.into(), self.name.into()];
        let program = program::current_program()?;
        Ok(ConfinedCommand::without_grants(
            program,
            arguments,
            self.memory_bytes,
            self.processes,
            self.lifetime,
        ))
    }
}

/// A running worker.
#[derive(Debug)]
pub struct SandboxWorker {
    launcher: Launcher,
    tier: SandboxTier,
    /// Its standard input.
    pub requests: pipe::Sender,
    /// Its standard output.
    pub responses: pipe::Receiver,
}

impl SandboxWorker {
    /// Starts a worker; returns once it runs in its sandbox.
    pub(crate) async fn start(
        confined: &ConfinedCommand,
        tier: SandboxTier,
        mut launcher: Launcher,
    ) -> Result<SandboxWorker, SandboxError> {
        let (requests, stdin) = launch::stdin_pipe().map_err(SandboxError::Launcher)?;
        let (responses, stdout) = launch::output_pipe().map_err(SandboxError::Launcher)?;
        let null_device = File::options().write(true).open("/dev/null").map_err(SandboxError::Launcher)?;
        let stderr = OwnedFd::from(null_device);
        let descriptors = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        launch::send_request(&mut launcher, confined, tier, descriptors).await?;
        launcher.wait_until_started().await?;
        Ok(SandboxWorker { launcher, tier, requests, responses })
    }

    /// Returns the sandbox tier in which it runs.
    pub fn tier(&self) -> SandboxTier {
        self.tier
    }

    /// Splits the worker into its two pipes and a guard that ends it when dropped.
    pub fn into_parts(self) -> (pipe::Sender, pipe::Receiver, impl Send + use<>) {
        (self.requests, self.responses, self.launcher)
    }

    /// Waits until the worker has exited, reached the end of its lifetime or exceeded a limit.
    pub async fn wait_until_ended(&mut self) -> Result<(RunEnd, ResourceUsage), SandboxError> {
        self.launcher.wait_until_ended().await
    }
}
