//! State of `sinew approvals watch`. It uses no terminal, no daemon and no clock: it takes approval requests,
//! keys and times, and returns lines and actions. `keys` handles keys, `drawing` renders the screen.
//!
//! An approval is accepted only after the whole request was on the screen: the operator cannot agree to text
//! that was never displayed.

mod drawing;
mod keys;
mod layout;

use std::time::{Duration, Instant};

use execution::{Listed, shown};
use serde_json::{Map, Value};

/// Time that a request must be on the screen before it can be approved, so that a key meant for the previous
/// request does not approve this one.
const SETTLED: Duration = Duration::from_millis(600);

/// Action that a key triggers.
#[derive(Debug, PartialEq)]
pub(super) enum Act {
    Quit,
    Decide(String, Map<String, Value>),
    /// Repeats a decision with the typed PIN: PIN, approval id, parameters.
    Pin(String, String, Map<String, Value>),
    Edit(String),
}

#[derive(Default)]
pub(super) struct View {
    questions: Vec<Listed>,
    /// Id of the selected request.
    chosen: Option<String>,
    /// Time of the selection, or of the last approval key that came too early.
    since: Option<Instant>,
    /// Id of the request decided last in this view. Its disappearance is expected.
    answered: Option<String>,
    scroll: usize,
    /// Screen width at the last draw.
    width: usize,
    /// Largest scroll offset, and the number of lines that one key scrolls. Set by drawing, which knows the
    /// height: a key must not skip lines that were never displayed.
    room: (usize, usize),
    seen: Seen,
    /// Display progress of the rule that is shown for confirmation.
    seen_of_rule: Seen,
    said: String,
    mode: Mode,
}

/// Display progress of a text: the last line that was on the screen, and the number of lines. Set by drawing.
#[derive(Clone, Copy)]
struct Seen {
    to: usize,
    of: usize,
}

impl Default for Seen {
    /// Returns the progress of a text that was not displayed yet.
    fn default() -> Self {
        Seen { to: 0, of: usize::MAX }
    }
}

impl Seen {
    fn is_whole(self) -> bool {
        self.to >= self.of
    }
}

/// Input mode, which determines what a key means.
#[derive(Default)]
enum Mode {
    #[default]
    Looking,
    Message(String),
    Pin(String, String, Map<String, Value>),
    /// A rule is shown and is created if the operator confirms it.
    Rule(String, Map<String, Value>, Value),
    Why,
    /// The selected request disappeared without a decision in this view. Decision keys are ignored until the
    /// operator acknowledges this.
    Gone,
}

impl View {
    /// Replaces the list of pending requests and keeps the selection if it still exists.
    pub(super) fn take(&mut self, questions: Vec<Listed>, now: Instant) {
        self.questions = questions;
        if self.chosen().is_none() {
            // `SelectionGone` lasts until the operator acknowledges it, even if the queue empties and fills
            // again.
            let is_gone =
                matches!(self.mode, Mode::Gone) || (self.chosen.is_some() && self.chosen != self.answered);
            self.choose(self.questions.first().map(|one| one.card.id.clone()), now);
            if is_gone {
                self.mode = Mode::Gone;
            }
        }
    }

    fn choose(&mut self, id: Option<String>, now: Instant) {
        if self.chosen != id {
            (self.chosen, self.scroll, self.mode) = (id, 0, Mode::Looking);
            (self.since, self.seen) = (Some(now), Seen::default());
        }
    }

    fn chosen(&self) -> Option<&Listed> {
        self.questions.iter().find(|one| Some(&one.card.id) == self.chosen.as_ref())
    }

    pub(super) fn editable(&self, id: &str) -> Option<Map<String, Value>> {
        self.questions.iter().find(|one| one.card.id == id).and_then(|one| one.editable.clone())
    }

    pub(super) fn say(&mut self, text: &str) {
        self.said = shown(text);
    }

    pub(super) fn decided(&mut self, id: &str, reply: &Value, now: Instant) {
        (self.mode, self.answered) = (Mode::Looking, Some(id.to_owned()));
        let text = |key: &str| reply.get(key).and_then(Value::as_str);
        match (text("grant"), text("asks_as")) {
            (Some(grant), _) => self.say(&format!("{id} is approved; rule {grant} was created")),
            (None, Some(next)) => {
                self.say(&format!("{id} was edited: review it again as {next}"));
                self.choose(Some(next.to_owned()), now);
            }
            (None, None) => self.say(&format!("{id} is decided")),
        }
    }

    pub(super) fn ask_pin(&mut self, id: &str, params: Map<String, Value>) {
        self.mode = Mode::Pin(String::new(), id.to_owned(), params);
    }

    pub(super) fn display(&mut self, id: &str, params: Map<String, Value>, rule: Value) {
        (self.mode, self.scroll) = (Mode::Rule(id.to_owned(), params, rule), 0);
        self.seen_of_rule = Seen::default();
    }
}

#[cfg(test)]
mod tests;
