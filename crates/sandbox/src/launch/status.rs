//! Messages from a launcher to the daemon: ready, set-up failure, end of the run. There is no message for a
//! successful start: the set-up socket closes with the exec.

use std::io;

use serde::{Deserialize, Serialize};

use crate::launch::wire_format;
use crate::report::{End, Spent};

/// One message of a launcher.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Status {
    /// The launcher, of this version, is ready and waits for a run request.
    Ready(String),
    /// A set-up step failed before the program ran.
    Failed(Problem),
    /// The program and everything it started are gone.
    Ended(End, Spent),
}

/// Failure of a set-up step.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Problem {
    pub(crate) step: Step,
    /// Path or system call that the step was working on.
    pub(crate) what: String,
    /// `errno` of the cause; 0 if unknown.
    pub(crate) code: i32,
}

/// Set-up steps, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) enum Step {
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

impl Step {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Step::Message => "message",
            Step::Namespaces => "namespaces",
            Step::Mounts => "mounts",
            Step::Network => "network",
            Step::Capabilities => "capabilities",
            Step::Landlock => "landlock",
            Step::Seccomp => "seccomp",
            Step::Profile => "profile",
            Step::Limits => "limits",
            Step::Folder => "folder",
            Step::Program => "program",
        }
    }
}

impl Problem {
    pub(crate) fn new(step: Step, what: impl Into<String>, cause: &io::Error) -> Self {
        Problem { step, what: what.into(), code: cause.raw_os_error().unwrap_or(0) }
    }

    /// Returns the error of the operating system.
    pub(crate) fn cause(&self) -> io::Error {
        match self.code {
            0 => io::Error::other("unknown cause"),
            code => io::Error::from_raw_os_error(code),
        }
    }
}

impl Status {
    /// Returns the status of a launcher that is ready.
    pub(crate) fn ready() -> Status {
        Status::Ready(env!("CARGO_PKG_VERSION").to_owned())
    }

    pub(crate) fn framed(&self) -> Vec<u8> {
        wire_format::framed_json(self)
    }

    /// Parses a message without its length prefix.
    pub(crate) fn read(body: &[u8]) -> io::Result<Status> {
        match serde_json::from_slice(body)? {
            Status::Ready(version) if version != env!("CARGO_PKG_VERSION") => {
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
        let spent = Spent {
            cpu: Duration::from_micros(12),
            max_rss_bytes: 1 << 40,
            read_bytes: 3,
            written_bytes: 4,
            processes: 5,
        };
        let problem = Problem { step: Step::Mounts, what: "/tmp".to_owned(), code: 13 };
        let ends = [
            End::Exited(255),
            End::Signalled(9),
            End::Denied,
            End::TimedOut,
            End::OutOfMemory,
            End::Cancelled,
            End::Killed,
        ];
        let ended = ends.map(|end| Status::Ended(end, spent));
        for status in [Status::ready(), Status::Failed(problem)].into_iter().chain(ended) {
            assert_eq!(Status::read(&status.framed()[wire_format::HEAD..]).unwrap(), status);
        }
    }

    #[test]
    fn launcher_of_another_version_is_refused() {
        let other = Status::Ready("0.0.0-other".to_owned());
        assert!(Status::read(&other.framed()[wire_format::HEAD..]).is_err());
    }
}
