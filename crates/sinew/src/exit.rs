//! Exit codes, and the one error type a command ends with.

use tool::{FailureKind, RefusalCode, ToolResult};

/// How the process ends.
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
    /// What a tool result means for the shell.
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

/// Why a command could not do what was asked, the way out, and the exit code.
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

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A command line that cannot be understood.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Problem::new(Exit::Usage, message)
    }

    /// Configuration that cannot be used.
    pub(crate) fn configuration(error: impl std::fmt::Display) -> Self {
        Problem::new(Exit::BadConfiguration, error.to_string())
    }
}
