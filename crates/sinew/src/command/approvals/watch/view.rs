//! What is looked at, and what keys mean meanwhile. No terminal, no daemon and no clock: questions and times in, lines and
//! acts out. What a key does is in `keys`, what is on the screen in `drawing`.
//!
//! A yes is only taken once the whole card was on the screen: what could not be seen was not agreed to.

mod drawing;
mod keys;
mod layout;

use std::time::{Duration, Instant};

use execution::{Listed, shown};
use serde_json::{Map, Value};

/// How long a card is on the screen before a yes counts: a key that was meant for the one before is not one for this.
const SETTLED: Duration = Duration::from_millis(600);

/// What is to be done about a key.
#[derive(Debug, PartialEq)]
pub(super) enum Act {
    Quit,
    Decide(String, Map<String, Value>),
    /// The same again, with the PIN that was typed.
    Pin(String, String, Map<String, Value>),
    Edit(String),
}

#[derive(Default)]
pub(super) struct View {
    questions: Vec<Listed>,
    /// The id of the chosen one.
    chosen: Option<String>,
    /// Since when it is, and no key came that was too early.
    since: Option<Instant>,
    /// The one that was last answered here: it goes by the person's own key.
    answered: Option<String>,
    scroll: usize,
    /// How wide the screen was when it was last drawn.
    width: usize,
    /// How far down the first line can be, and how many lines one key scrolls: set by drawing, for a screen has the height
    /// it has, and what a key skips was not seen.
    room: (usize, usize),
    seen: Seen,
    /// The same of the rule that is displayed.
    seen_of_rule: Seen,
    said: String,
    mode: Mode,
}

/// The last line of the chosen card that was on the screen, and how many it has: set by drawing it.
#[derive(Clone, Copy)]
struct Seen {
    to: usize,
    of: usize,
}

impl Default for Seen {
    /// Nothing of it.
    fn default() -> Self {
        Seen { to: 0, of: usize::MAX }
    }
}

impl Seen {
    fn is_whole(self) -> bool {
        self.to >= self.of
    }
}

/// What keys mean.
#[derive(Default)]
enum Mode {
    #[default]
    Looking,
    Message(String),
    Pin(String, String, Map<String, Value>),
    /// A rule is displayed, and made if the person agrees.
    Rule(String, Map<String, Value>, Value),
    Why,
    /// What was looked at is not there any more, and not by an answer that was given here: no key means anything until the
    /// person has seen that.
    Gone,
}

impl View {
    /// The questions as they are now. What was chosen stays so.
    pub(super) fn take(&mut self, questions: Vec<Listed>, now: Instant) {
        self.questions = questions;
        if self.chosen().is_none() {
            // Once gone, gone until it was seen, however often the queue is empty and fills again.
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
            (Some(grant), _) => self.say(&format!("{id} is approved; the rule is {grant}")),
            (None, Some(next)) => {
                self.say(&format!("{id} was changed: look at it again as {next}"));
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
