//! Exit codes and the error type of all commands.

use tool::{FailureKind, RefusalCode, ToolResult};

/// Exit status of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Refused = 3,
    Approval = 4,
    TimedOut = 5,
    Unreachable = 6,
    BadConfiguration = 7,
}

impl Exit {
    /// Returns the status for an exit code.
    pub(crate) fn from_code(code: i32) -> Option<Exit> {
        Some(match code {
            0 => Exit::Done,
            1 => Exit::Failed,
            2 => Exit::Usage,
            3 => Exit::Refused,
            4 => Exit::Approval,
            5 => Exit::TimedOut,
            6 => Exit::Unreachable,
            7 => Exit::BadConfiguration,
            _ => return None,
        })
    }

    /// Returns the exit status for a tool result.
    pub(crate) fn of(result: &ToolResult) -> Exit {
        if let Some(refusal) = &result.metadata.refusal {
            return match refusal.code {
                RefusalCode::ApprovalPending | RefusalCode::ApprovalTimedOut => Exit::Approval,
                _ => Exit::Refused,
            };
        }
        match &result.metadata.failure {
            Some(failure) if failure.kind == FailureKind::TimedOut => Exit::TimedOut,
            _ if result.success => Exit::Done,
            _ => Exit::Failed,
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        std::process::ExitCode::from(exit as u8)
    }
}

/// Error that ends a command: message, hint and exit status.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Problem {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Problem { exit, message: message.into(), hint: None }
    }

    /// Ends the command quietly because the reader of standard output closed it, as `head` does. The exit
    /// status is success, and nothing is printed.
    pub(crate) fn unheard() -> Self {
        Problem::new(Exit::Done, String::new())
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Creates an error for a command that could not do its work.
    pub(crate) fn failed(error: impl std::fmt::Display) -> Self {
        Problem::new(Exit::Failed, error.to_string())
    }

    /// Creates an error for an invalid command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Problem::new(Exit::Usage, message)
    }

    /// Creates an error for an invalid configuration.
    pub(crate) fn configuration(error: impl std::fmt::Display) -> Self {
        Problem::new(Exit::BadConfiguration, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_round_trips() {
        for code in 0..=7_u8 {
            let exit = Exit::from_code(i32::from(code)).unwrap();
            assert_eq!(exit as u8, code, "{exit:?}");
        }
        for code in [-1, 8, 101, 256] {
            assert_eq!(Exit::from_code(code), None);
        }
    }
}
