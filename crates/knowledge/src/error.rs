//! Errors of a function run. Each of them refuses the call.

use crate::function::FunctionKind;

/// Reason why a function gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnowledgeError {
    /// It exceeded its time limit and was stopped.
    #[error("{} `{id}` exceeded {} timeout{}", .kind.as_str(), limit(*.kind), safety(*.kind))]
    TimedOut {
        /// Kind of the function.
        kind: FunctionKind,
        /// Id of the function.
        id: String,
    },
    /// It exceeded its memory limit.
    #[error("{} `{id}` exceeded 8MB memory limit", .kind.as_str())]
    OutOfMemory {
        /// Kind of the function.
        kind: FunctionKind,
        /// Id of the function.
        id: String,
    },
    /// It threw, or cannot be parsed.
    #[error("{} `{id}` execution failed: {message}", .kind.as_str())]
    Failed {
        /// Kind of the function.
        kind: FunctionKind,
        /// Id of the function.
        id: String,
        /// Message of the exception.
        message: String,
    },
    /// It returned a value of the wrong form.
    #[error("{} `{id}` returned invalid format: {message}", .kind.as_str())]
    InvalidResult {
        /// Kind of the function.
        kind: FunctionKind,
        /// Id of the function.
        id: String,
        /// Description of the error.
        message: String,
    },
    /// It crashed the engine.
    #[error("{} `{id}` crashed the engine, which was replaced", .kind.as_str())]
    Crashed {
        /// Kind of the function.
        kind: FunctionKind,
        /// Id of the function.
        id: String,
    },
    /// It called a helper that does not exist.
    #[error("helper `{id}` not found; available: {}", listed(.known))]
    NoHelper {
        /// Id of the missing helper.
        id: String,
        /// Ids of the available helpers.
        known: Vec<String>,
    },
    /// No engine is available.
    #[error("the JavaScript engine could not be started: {0}")]
    Unavailable(String),
    /// It cannot be parsed.
    #[error("line {line}: {message}")]
    Syntax {
        /// Line number, from 1.
        line: usize,
        /// Column number, from 1.
        column: usize,
        /// Message of the engine.
        message: String,
    },
}

fn listed(ids: &[String]) -> String {
    if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }
}

fn limit(kind: FunctionKind) -> &'static str {
    match kind {
        FunctionKind::Helper | FunctionKind::Processor => "1s",
        FunctionKind::Validator => "500ms",
    }
}

fn safety(kind: FunctionKind) -> &'static str {
    match kind {
        FunctionKind::Validator => ". Validation failed for safety",
        FunctionKind::Helper | FunctionKind::Processor => "",
    }
}
