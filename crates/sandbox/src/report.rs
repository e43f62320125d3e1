//! What became of a confined program.

use std::time::Duration;

use tool::SandboxTier;

use crate::capture::Captured;
use crate::program::Executable;
use crate::quarantine::Quarantined;

/// The end of a confined program and what it left behind. Everything it started is gone.
#[derive(Debug)]
pub struct Report {
    /// How it ended.
    pub end: End,
    /// What it wrote to its standard output.
    pub stdout: Captured,
    /// What it wrote to its standard error.
    pub stderr: Captured,
    /// The walls it ran in.
    pub tier: SandboxTier,
    /// What it used, with everything it started.
    pub spent: Spent,
    /// From the beginning of its preparation until the processes that stood ready had its order.
    pub confining: Duration,
    /// What was run.
    pub executable: Executable,
    /// Pins what its walls let through.
    pub walls_sha256: String,
    /// Names it created that somebody would run by themselves, and where they are now.
    pub quarantined: Vec<Quarantined>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal.
    Signalled(i32),
    /// For what no program gets: a call of another architecture, or to be hidden from who counts what it holds.
    Denied,
    /// Its time was over.
    TimedOut,
    /// It used more memory than it was granted.
    OutOfMemory,
    /// It had more processes than it was granted, where the system cannot refuse them one by one.
    TooManyProcesses,
    /// Nobody waits for it any more.
    Cancelled,
    /// From outside, and nobody said why: the system's own protection against running out of memory does that.
    Killed,
}

impl End {
    pub(crate) fn words(self) -> (&'static str, i32) {
        match self {
            End::Exited(code) => ("exited", code),
            End::Signalled(signal) => ("signalled", signal),
            End::Denied => ("denied", 0),
            End::TimedOut => ("timed_out", 0),
            End::OutOfMemory => ("out_of_memory", 0),
            End::TooManyProcesses => ("too_many_processes", 0),
            End::Cancelled => ("cancelled", 0),
            End::Killed => ("killed", 0),
        }
    }

    pub(crate) fn from_words(how: &str, value: i32) -> Option<End> {
        Some(match how {
            "exited" => End::Exited(value),
            "signalled" => End::Signalled(value),
            "denied" => End::Denied,
            "timed_out" => End::TimedOut,
            "out_of_memory" => End::OutOfMemory,
            "too_many_processes" => End::TooManyProcesses,
            "cancelled" => End::Cancelled,
            "killed" => End::Killed,
            _ => return None,
        })
    }
}

/// What a program and everything it started used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Time on a processor, building the walls included.
    pub cpu: Duration,
    /// The most memory it had at a time, as far as it was seen: of one process, or of all of them together.
    pub max_rss_bytes: u64,
    /// Read by its system calls, from wherever.
    pub read_bytes: u64,
    /// Written by its system calls, to wherever.
    pub written_bytes: u64,
    /// How many processes and threads it had, one after the other. One that had to be killed did not say; then the most
    /// that were seen at a time.
    pub processes: u64,
}
