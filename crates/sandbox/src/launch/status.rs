//! Messages from a launcher to the daemon: ready, set-up failure, end of the run. There is no message for a
//! successful start: the set-up socket closes with the exec.

use std::io;
use std::time::Duration;

use crate::launch::wire_format::{self, Writer};
use crate::report::{End, Spent};

/// One message of a launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The launcher is ready and waits for a run request.
    Ready,
    /// A set-up step failed before the program ran.
    Failed(Problem),
    /// The program and everything it started are gone.
    Ended(End, Spent),
}

/// Failure of a set-up step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) step: Step,
    /// Path or system call that the step was working on.
    pub(crate) what: String,
    /// `errno` of the cause; 0 if unknown.
    pub(crate) code: i32,
}

/// Set-up steps, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    const ALL: [Step; 11] = [
        Step::Message,
        Step::Namespaces,
        Step::Mounts,
        Step::Network,
        Step::Capabilities,
        Step::Landlock,
        Step::Seccomp,
        Step::Profile,
        Step::Limits,
        Step::Folder,
        Step::Program,
    ];

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
    pub(crate) fn framed(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Status::Ready => writer.put("ready", env!("CARGO_PKG_VERSION")),
            Status::Failed(problem) => {
                writer.put("failed", problem.step.as_str());
                writer.put("what", &problem.what);
                writer.number("code", u64::from(problem.code.unsigned_abs()));
            }
            Status::Ended(end, spent) => {
                let (how, value) = end.words();
                writer.put("ended", how);
                writer.number("value", u64::from(value.unsigned_abs()));
                writer.number("cpu", u64::try_from(spent.cpu.as_micros()).unwrap_or(u64::MAX));
                writer.number("memory", spent.max_rss_bytes);
                writer.number("read", spent.read_bytes);
                writer.number("written", spent.written_bytes);
                writer.number("processes", spent.processes);
            }
        }
        writer.framed()
    }

    /// Parses a message without its length prefix.
    pub(crate) fn read(body: &[u8]) -> io::Result<Status> {
        let pairs = wire_format::pairs(body)?;
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "invalid launcher message");
        let (kind, first) = pairs.first().ok_or_else(invalid)?;
        let number =
            |at: usize| pairs.get(at).ok_or_else(invalid).and_then(|(_, value)| wire_format::number(value));
        let small = |at: usize| number(at).and_then(|n| i32::try_from(n).map_err(|_| invalid()));
        match kind.as_str() {
            "ready" if first == env!("CARGO_PKG_VERSION") => Ok(Status::Ready),
            "failed" => {
                let step = Step::ALL.into_iter().find(|step| first == step.as_str()).ok_or_else(invalid)?;
                let what = pairs.get(1).ok_or_else(invalid)?.1.to_string_lossy().into_owned();
                Ok(Status::Failed(Problem { step, what, code: small(2)? }))
            }
            "ended" => {
                let how = first.to_str().ok_or_else(invalid)?;
                let end = End::from_words(how, small(1)?).ok_or_else(invalid)?;
                let spent = Spent {
                    cpu: Duration::from_micros(number(2)?),
                    max_rss_bytes: number(3)?,
                    read_bytes: number(4)?,
                    written_bytes: number(5)?,
                    processes: number(6)?,
                };
                Ok(Status::Ended(end, spent))
            }
            _ => Err(invalid()),
        }
    }
}

#[cfg(test)]
mod tests {
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
        for status in [Status::Ready, Status::Failed(problem)].into_iter().chain(ended) {
            assert_eq!(Status::read(&status.framed()[wire_format::HEAD..]).unwrap(), status);
        }
    }

    #[test]
    fn launcher_of_another_version_is_refused() {
        let mut writer = Writer::default();
        writer.put("ready", "0.0.0-other");
        assert!(Status::read(&writer.framed()[wire_format::HEAD..]).is_err());
    }
}
