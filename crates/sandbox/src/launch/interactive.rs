//! Interactive program: its standard streams belong to the caller while it runs in the sandbox of a permit.
//! Dropping it ends it, and the cleanup is the same as after any other run.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tokio::net::unix::pipe;
use tool::result::SandboxTier;

use crate::cleanup::RunHandle;
use crate::cleanup::quarantine::Quarantined;
use crate::error::SandboxError;
use crate::launch;
use crate::launch::pool::Launcher;
use crate::prepare::ConfinedCommand;

/// A running interactive program.
pub struct InteractiveProgram {
    run: RunHandle,
    tier: SandboxTier,
}

/// Pipes to the standard streams of an interactive program.
#[derive(Debug)]
pub struct StdioPipes {
    /// Its standard input.
    pub input: pipe::Sender,
    /// Its standard output.
    pub output: pipe::Receiver,
    /// Its standard error.
    pub errors: pipe::Receiver,
}

impl InteractiveProgram {
    pub(crate) fn new(run: RunHandle, tier: SandboxTier) -> InteractiveProgram {
        InteractiveProgram { run, tier }
    }

    /// Returns the sandbox tier in which it runs.
    pub fn tier(&self) -> SandboxTier {
        self.tier
    }

    /// Returns true if it is not known to have ended.
    pub fn is_alive(&mut self) -> bool {
        self.run.parts().is_some_and(|(_, launcher)| launcher.is_alive())
    }

    /// Ends the program and waits for its cleanup; returns the files that were quarantined.
    pub async fn end(self) -> Result<Vec<Quarantined>, SandboxError> {
        self.run.end().await
    }
}

/// Sends a launcher its run request and returns once the program runs.
pub(crate) async fn start(
    confined: &ConfinedCommand,
    tier: SandboxTier,
    launcher: &mut Launcher,
) -> Result<StdioPipes, SandboxError> {
    let made =
        || -> io::Result<_> { Ok((launch::stdin_pipe()?, launch::output_pipe()?, launch::output_pipe()?)) };
    let ((input, stdin), (output, stdout), (errors, stderr)): (_, (_, OwnedFd), (_, OwnedFd)) =
        made().map_err(SandboxError::Launcher)?;
    let descriptors = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    launch::send_request(launcher, confined, tier, descriptors).await?;
    launcher.wait_until_started().await?;
    Ok(StdioPipes { input, output, errors })
}
