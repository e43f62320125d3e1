//! What a call has in hand on its way: how it goes about a human, and the answer it may have.

/// How a call goes about a human.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    /// It waits for the answer.
    #[default]
    Wait,
    /// It is told which question to come back with, and ends.
    Async,
    /// Nobody is asked.
    Never,
}

/// A question that a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hand {
    pub(crate) id: String,
    /// Whether this very call asked it. One that another call asked is only presented, and is left as it is.
    pub(crate) own: bool,
}

/// Leave by a human, not yet used.
#[derive(Debug)]
pub(crate) enum Approved {
    /// One answer, for one call.
    Once {
        hand: Hand,
        /// The rules that ask.
        rules: Vec<String>,
    },
    /// A rule that stands.
    ByRule { rules: Vec<String> },
}
