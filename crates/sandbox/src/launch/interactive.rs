//! Interactive program: its standard streams belong to the caller while it runs in the sandbox of a permit.
//! Dropping it ends it, and the cleanup is the same as after any other run.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tokio::net::unix::pipe;
use tool::SandboxTier;

use crate::cleanup::Underway;
use crate::cleanup::quarantine::Quarantined;
use crate::error::SandboxError;
use crate::launch;
use crate::launch::pool::Launcher;
use crate::prepare::Confined;

/// A running interactive program.
pub struct Served {
    underway: Underway,
    tier: SandboxTier,
}

/// Pipes to the standard streams of an interactive program.
#[derive(Debug)]
pub struct Pipes {
    /// Its standard input.
    pub input: pipe::Sender,
    /// Its standard output.
    pub output: pipe::Receiver,
    /// Its standard error.
    pub errors: pipe::Receiver,
}

impl Served {
    pub(crate) fn new(underway: Underway, tier: SandboxTier) -> Served {
        Served { underway, tier }
    }

    /// Returns the sandbox tier in which it runs.
    pub fn tier(&self) -> SandboxTier {
        self.tier
    }

    /// Returns true if it is not known to have ended.
    pub fn is_alive(&mut self) -> bool {
        self.underway.parts().is_some_and(|(_, launcher)| launcher.is_alive())
    }

    /// Ends the program and waits for its cleanup; returns the files that were quarantined.
    pub async fn end(self) -> Result<Vec<Quarantined>, SandboxError> {
        self.underway.end().await
    }
}

/// Sends a launcher its run request and returns once the program runs.
pub(crate) async fn start(
    confined: &Confined,
    tier: SandboxTier,
    launcher: &mut Launcher,
) -> Result<Pipes, SandboxError> {
    let made = || -> io::Result<_> { Ok((launch::input()?, launch::output()?, launch::output()?)) };
    let ((input, stdin), (output, stdout), (errors, stderr)): (_, (_, OwnedFd), (_, OwnedFd)) =
        made().map_err(SandboxError::Launcher)?;
    let descriptors = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    launch::give_order(launcher, confined, tier, descriptors).await?;
    launcher.started().await?;
    Ok(Pipes { input, output, errors })
}
