//! Why a function gave no answer. Each of these refuses the call.

use crate::function::Kind;

/// Why a function gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnowledgeError {
    /// It took too long, and was stopped.
    #[error("{} `{id}` exceeded {} timeout{}", .kind.as_str(), limit(*.kind), safety(*.kind))]
    TimedOut {
        /// What it is for.
        kind: Kind,
        /// What it is called.
        id: String,
    },
    /// It wanted too much memory.
    #[error("{} `{id}` exceeded 8MB memory limit", .kind.as_str())]
    OutOfMemory {
        /// What it is for.
        kind: Kind,
        /// What it is called.
        id: String,
    },
    /// It threw, or cannot be parsed.
    #[error("{} `{id}` execution failed: {message}", .kind.as_str())]
    Failed {
        /// What it is for.
        kind: Kind,
        /// What it is called.
        id: String,
        /// What was thrown.
        message: String,
    },
    /// It answered with something that cannot be one.
    #[error("{} `{id}` returned invalid format: {message}", .kind.as_str())]
    Shape {
        /// What it is for.
        kind: Kind,
        /// What it is called.
        id: String,
        /// What is wrong with it.
        message: String,
    },
    /// The engine died under it.
    #[error("{} `{id}` crashed the engine, which was replaced", .kind.as_str())]
    Crashed {
        /// What it is for.
        kind: Kind,
        /// What it is called.
        id: String,
    },
    /// There is no helper of that name.
    #[error("helper `{id}` not found; available: {}", listed(.known))]
    NoHelper {
        /// What was asked for.
        id: String,
        /// What there is.
        known: Vec<String>,
    },
    /// No engine can be had.
    #[error("no engine can be started for functions: {0}")]
    Unavailable(String),
    /// It cannot be parsed.
    #[error("line {line}: {message}")]
    Syntax {
        /// 1-based.
        line: usize,
        /// 1-based.
        column: usize,
        /// The engine's words.
        message: String,
    },
}

fn listed(ids: &[String]) -> String {
    if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }
}

fn limit(kind: Kind) -> &'static str {
    match kind {
        Kind::Helper | Kind::Processor => "1s",
        Kind::Validator => "500ms",
    }
}

fn safety(kind: Kind) -> &'static str {
    match kind {
        Kind::Validator => ". Validation failed for safety",
        Kind::Helper | Kind::Processor => "",
    }
}
