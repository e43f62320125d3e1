//! Messages from a launcher to the daemon: ready, set-up failure, end of the run. There is no message for a
//! successful start: the set-up socket closes with the exec.

use std::io;

use serde::{Deserialize, Serialize};

use crate::launch::wire_format;
use crate::report::{ResourceUsage, RunEnd};

/// One message of a launcher.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum LauncherStatus {
    /// The launcher, of this version, is ready and waits for a run request.
    Ready(String),
    /// A set-up step failed before the program ran.
    Failed(SetupFailure),
    /// The program and every process that it started have ended.
    Ended(RunEnd, ResourceUsage),
}

/// Failure of a set-up step.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct SetupFailure {
    pub(crate) step: SetupStep,
    /// Path or system call that the step was working on.
    pub(crate) what: String,
    /// `errno` of the cause; 0 if unknown.
    pub(crate) code: i32,
}

/// Set-up steps, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum SetupStep {
    Message,
    Namespaces,
    Mounts,
    Network,
    Capabilities,
    Landlock,
    Seccomp,
    Profile,
    Limits,
    Folder,
    Program,
}

impl SetupStep {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            SetupStep::Message => "message",
            SetupStep::Namespaces => "namespaces",
            SetupStep::Mounts => "mounts",
            SetupStep::Network => "network",
            SetupStep::Capabilities => "capabilities",
            SetupStep::Landlock => "landlock",
            SetupStep::Seccomp => "seccomp",
            SetupStep::Profile => "profile",
            SetupStep::Limits => "limits",
            SetupStep::Folder => "folder",
            SetupStep::Program => "program",
        }
    }
}

impl SetupFailure {
    pub(crate) fn new(step: SetupStep, what: impl Into<String>, cause: &io::Error) -> Self {
        SetupFailure { step, what: what.into(), code: cause.raw_os_error().unwrap_or(0) }
    }

    /// Returns the error of the operating system.
    pub(crate) fn cause(&self) -> io::Error {
        match self.code {
            0 => io::Error::other("unknown cause"),
            code => io::Error::from_raw_os_error(code),
        }
    }
}

impl LauncherStatus {
    /// Returns the status of a launcher that is ready.
    pub(crate) fn ready() -> LauncherStatus {
        LauncherStatus::Ready(env!("CARGO_PKG_VERSION").to_owned())
    }

    pub(crate) fn to_frame(&self) -> Vec<u8> {
        wire_format::framed_json(self)
    }

    /// Parses a message without its length prefix.
    pub(crate) fn parse(body: &[u8]) -> io::Result<LauncherStatus> {
        match serde_json::from_slice(body)? {
            LauncherStatus::Ready(version) if version != env!("CARGO_PKG_VERSION") => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "launcher of another version"))
            }
            status => Ok(status),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn launcher_status_round_trips() {
        let spent = ResourceUsage {
            cpu: Duration::from_micros(12),
            max_rss_bytes: 1 << 40,
            read_bytes: 3,
            written_bytes: 4,
            processes: 5,
        };
        let problem = SetupFailure { step: SetupStep::Mounts, what: "/tmp".to_owned(), code: 13 };
        let ends = [
            RunEnd::Exited(255),
            RunEnd::Signalled(9),
            RunEnd::Denied,
            RunEnd::TimedOut,
            RunEnd::OutOfMemory,
            RunEnd::Cancelled,
            RunEnd::Killed,
        ];
        let ended = ends.map(|end| LauncherStatus::Ended(end, spent));
        for status in [LauncherStatus::ready(), LauncherStatus::Failed(problem)].into_iter().chain(ended) {
            assert_eq!(
                LauncherStatus::parse(&status.to_frame()[wire_format::LENGTH_BYTES..]).unwrap(),
                status
            );
        }
    }

    #[test]
    fn launcher_of_another_version_is_refused() {
        let other = LauncherStatus::Ready("0.0.0-other".to_owned());
        assert!(LauncherStatus::parse(&other.to_frame()[wire_format::LENGTH_BYTES..]).is_err());
    }
}
