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
