//! What is run and what it may use, and what a validator answers.

use std::sync::Arc;
use std::time::Duration;

/// What a function is for. It decides how long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Computes something for others.
    Helper,
    /// Changes what goes in or comes out.
    Processor,
    /// Refuses a call before it runs.
    Validator,
}

/// What a function may allocate, the engine's own part included.
pub(crate) const MEMORY: usize = 8 * 1024 * 1024;

impl Kind {
    /// How long it may take.
    pub fn time(self) -> Duration {
        match self {
            Kind::Helper | Kind::Processor => Duration::from_millis(1000),
            Kind::Validator => Duration::from_millis(500),
        }
    }

    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Helper => "helper",
            Kind::Processor => "processor",
            Kind::Validator => "validator",
        }
    }
}

/// A function of a manifest.
#[derive(Clone, Debug)]
pub struct Function {
    /// What it is for.
    pub kind: Kind,
    /// What it is called.
    pub id: Arc<str>,
    /// Its text.
    pub source: Arc<str>,
    /// What it may call, by id: the helpers of its manifest.
    pub helpers: Arc<[(Arc<str>, Arc<str>)]>,
}

impl Function {
    /// The ids of what it may call.
    pub(crate) fn helper_ids(&self) -> Vec<String> {
        self.helpers.iter().map(|(id, _)| id.to_string()).collect()
    }

    /// The first helper that its text names, as `helpers["id"]` or `helpers.id`, and that is not there.
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

/// What a validator says of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validation {
    /// Why the call is refused; nothing where it is not.
    pub errors: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

impl Validation {
    /// Above this a validator is told to be slow.
    pub const SLOW: Duration = Duration::from_millis(50);

    /// Whether the call may go on.
    pub fn passes(&self) -> bool {
        self.errors.is_empty()
    }
}
