//! A program that is spoken to while it runs: its standard input and output belong to whoever started it, behind the
//! walls of a permit. Dropping it ends it, and what it leaves behind is seen to as after any run.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tokio::net::unix::pipe;
use tool::SandboxTier;

use crate::aftermath::Underway;
use crate::confined::Confined;
use crate::error::SandboxError;
use crate::pool::Launcher;
use crate::quarantine::Quarantined;
use crate::run;

/// A program that runs.
pub struct Served {
    underway: Underway,
    tier: SandboxTier,
}

/// What it is spoken to through.
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

    /// The walls it runs in.
    pub fn tier(&self) -> SandboxTier {
        self.tier
    }

    /// Whether it has not ended, as far as is known.
    pub fn is_alive(&mut self) -> bool {
        self.underway.parts().is_some_and(|(_, launcher)| launcher.is_alive())
    }

    /// Ends it, and comes back once nothing of it is left but what it made; what was set aside of that.
    pub async fn end(self) -> Result<Vec<Quarantined>, SandboxError> {
        self.underway.end().await
    }
}

/// Hands a launcher its order and comes back once the program runs.
pub(crate) async fn start(
    confined: &Confined,
    tier: SandboxTier,
    launcher: &mut Launcher,
) -> Result<Pipes, SandboxError> {
    let made = || -> io::Result<_> { Ok((run::input()?, run::output()?, run::output()?)) };
    let ((input, stdin), (output, stdout), (errors, stderr)): (_, (_, OwnedFd), (_, OwnedFd)) =
        made().map_err(SandboxError::Launcher)?;
    let descriptors = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
    run::give_order(launcher, confined, tier, descriptors).await?;
    launcher.started().await?;
    Ok(Pipes { input, output, errors })
}
