//! Report of a confined run.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tool::result::SandboxTier;

use crate::cleanup::quarantine::Quarantined;
use crate::output::capture::Captured;
use crate::prepare::program::Executable;

/// End of a confined program and the files it left behind. Every process that it started has ended.
#[derive(Debug)]
pub struct RunReport {
    /// Ending of the program.
    pub end: RunEnd,
    /// Captured standard output.
    pub stdout: Captured,
    /// Captured standard error.
    pub stderr: Captured,
    /// Sandbox tier in which it ran.
    pub tier: SandboxTier,
    /// Resource usage of the program and everything it started.
    pub usage: ResourceUsage,
    /// Time from the start of the preparation until the launcher had the run request.
    pub setup_time: Duration,
    /// Program that was run.
    pub executable: Executable,
    /// Digest of the access that the sandbox allowed.
    pub sandbox_sha256: String,
    /// Files that other programs run automatically, created by the run, and their new paths.
    pub quarantined: Vec<Quarantined>,
}

/// Ending of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum RunEnd {
    /// It exited with this code.
    Exited(i32),
    /// A signal ended it.
    Signalled(i32),
    /// It was killed for something no program may do: a call of another architecture, or hiding from the
    /// resource monitor.
    Denied,
    /// Its deadline passed.
    TimedOut,
    /// It used more memory than it was granted.
    OutOfMemory,
    /// It had more processes than it was granted, where the system cannot refuse them one by one.
    TooManyProcesses,
    /// The caller cancelled it or disconnected.
    Cancelled,
    /// It was killed from outside for an unknown reason, for example by the kernel's out-of-memory killer.
    Killed,
}

/// Resource usage of a program and everything it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ResourceUsage {
    /// Processor time, including the set-up of the sandbox.
    pub cpu: Duration,
    /// Highest sampled memory use, of one process or of all together.
    pub max_rss_bytes: u64,
    /// Bytes read by its system calls, from any source.
    pub read_bytes: u64,
    /// Bytes written by its system calls, to any target.
    pub written_bytes: u64,
    /// Number of processes and threads over the whole run. If the run had to be killed, the highest number
    /// sampled at one time.
    pub processes: u64,
}
