//! Exit codes and the error type of all commands.

use serde_json::{Value, json};
use tool::{FailureKind, RefusalCode, ToolResult};

/// Exit status of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ExitKind {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Refused = 3,
    Approval = 4,
    TimedOut = 5,
    Unreachable = 6,
    BadConfiguration = 7,
    Locked = 8,
}

impl ExitKind {
    /// Returns the status for an exit code.
    pub(crate) fn from_code(code: i32) -> Option<ExitKind> {
        Some(match code {
            0 => ExitKind::Done,
            1 => ExitKind::Failed,
            2 => ExitKind::Usage,
            3 => ExitKind::Refused,
            4 => ExitKind::Approval,
            5 => ExitKind::TimedOut,
            6 => ExitKind::Unreachable,
            7 => ExitKind::BadConfiguration,
            8 => ExitKind::Locked,
            _ => return None,
        })
    }

    /// Returns the word for programs.
    fn as_str(self) -> &'static str {
        match self {
            ExitKind::Done => "done",
            ExitKind::Failed => "failed",
            ExitKind::Usage => "usage",
            ExitKind::Refused => "refused",
            ExitKind::Approval => "approval",
            ExitKind::TimedOut => "timed_out",
            ExitKind::Unreachable => "unreachable",
            ExitKind::BadConfiguration => "bad_configuration",
            ExitKind::Locked => "locked",
        }
    }

    /// Returns the exit status for a tool result.
    pub(crate) fn from_result(result: &ToolResult) -> ExitKind {
        if let Some(refusal) = &result.metadata.refusal {
            return match refusal.code {
                RefusalCode::ApprovalPending | RefusalCode::ApprovalTimedOut => ExitKind::Approval,
                _ => ExitKind::Refused,
            };
        }
        match &result.metadata.failure {
            Some(failure) if failure.kind == FailureKind::TimedOut => ExitKind::TimedOut,
            _ if result.success => ExitKind::Done,
            _ => ExitKind::Failed,
        }
    }
}

impl From<ExitKind> for std::process::ExitCode {
    fn from(exit: ExitKind) -> Self {
        std::process::ExitCode::from(exit as u8)
    }
}

/// Error that ends a command: message, hint and exit status.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) exit: ExitKind,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl CommandError {
    pub(crate) fn new(exit: ExitKind, message: impl Into<String>) -> Self {
        CommandError { exit, message: message.into(), hint: None }
    }

    /// Ends the command quietly because the reader of standard output closed it, as `head` does. The exit
    /// status is success, and nothing is printed.
    pub(crate) fn output_closed() -> Self {
        CommandError::new(ExitKind::Done, String::new())
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Creates an error for a command that could not do its work.
    pub(crate) fn failed(error: impl std::fmt::Display) -> Self {
        CommandError::new(ExitKind::Failed, error.to_string())
    }

    /// Creates an error for an invalid command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        CommandError::new(ExitKind::Usage, message)
    }

    /// Returns the error as a program reads it.
    pub(crate) fn to_json(&self) -> Value {
        json!({"error": {"code": self.exit.as_str(), "message": self.message, "hint": self.hint,
            "exit_code": self.exit as u8}})
    }

    /// Creates an error for an invalid configuration.
    pub(crate) fn configuration(error: impl std::fmt::Display) -> Self {
        CommandError::new(ExitKind::BadConfiguration, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_round_trips() {
        for code in 0..=8_u8 {
            let exit = ExitKind::from_code(i32::from(code)).unwrap();
            assert_eq!(exit as u8, code, "{exit:?}");
        }
        for code in [-1, 9, 101, 256] {
            assert_eq!(ExitKind::from_code(code), None);
        }
    }
}
