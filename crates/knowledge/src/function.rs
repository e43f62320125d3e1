//! Functions of a manifest, their limits, and the result of a validator.

use std::sync::Arc;
use std::time::Duration;

/// Kind of a function, which decides its time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionKind {
    /// Computes a value for other functions.
    Helper,
    /// Transforms input or output.
    Processor,
    /// Refuses a call before it runs.
    Validator,
}

/// Memory limit of a function in bytes, including the engine's own use.
pub(crate) const MEMORY_LIMIT: usize = 8 * 1024 * 1024;

impl FunctionKind {
    /// Returns the time limit.
    pub fn time_limit(self) -> Duration {
        match self {
            FunctionKind::Helper | FunctionKind::Processor => Duration::from_millis(1000),
            FunctionKind::Validator => Duration::from_millis(500),
        }
    }

    /// Returns the word for messages.
    pub fn as_str(self) -> &'static str {
        match self {
            FunctionKind::Helper => "helper",
            FunctionKind::Processor => "processor",
            FunctionKind::Validator => "validator",
        }
    }
}

/// JavaScript function of a manifest.
#[derive(Clone, Debug)]
pub struct KnowledgeFunction {
    /// Kind of the function.
    pub kind: FunctionKind,
    /// Id of the function.
    pub id: Arc<str>,
    /// Source text.
    pub source: Arc<str>,
    /// Helpers of its manifest, which it may call, with id and source.
    pub helpers: Arc<[(Arc<str>, Arc<str>)]>,
}

impl KnowledgeFunction {
    /// Returns the ids of the helpers it may call.
    pub(crate) fn helper_ids(&self) -> Vec<String> {
        self.helpers.iter().map(|(id, _)| id.to_string()).collect()
    }

    /// Returns the first helper that the source names, as `helpers["id"]` or `helpers.id`, and that does not
    /// exist.
    pub(crate) fn missing_helper(&self) -> Option<String> {
        let named = self.source.split("helpers").skip(1).filter_map(|rest| {
            let quoted = |quote: char| rest.strip_prefix('[')?.strip_prefix(quote)?.split(quote).next();
            let plain = || rest.strip_prefix('.')?.split(|c: char| !c.is_alphanumeric() && c != '_').next();
            ['"', '\'', '`'].into_iter().find_map(quoted).or_else(plain)
        });
        let mut missing = named.filter(|id| !self.helpers.iter().any(|(known, _)| &**known == *id));
        missing.next().map(str::to_owned)
    }
}

/// Result of a validator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validation {
    /// Reasons for refusing the call; empty if it is accepted.
    pub errors: Vec<String>,
    /// Run time.
    pub duration: Duration,
}

impl Validation {
    /// Run time above which a validator is reported as slow.
    pub const SLOW_THRESHOLD: Duration = Duration::from_millis(50);

    /// Returns true if the call is accepted.
    pub fn passes(&self) -> bool {
        self.errors.is_empty()
    }
}
