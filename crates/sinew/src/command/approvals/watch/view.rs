//! What is on the screen and what a key does to it. No terminal and no daemon: lines out, acts out.
//!
//! A yes is only taken once the whole card was on the screen: what could not be seen was not agreed to.

mod layout;

use std::cell::Cell;
use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use execution::{CardLine, Listed, Tone, shown};
use serde_json::{Map, Value, json};

use super::super::painted;
use crate::terminal::{NOTE, QUIET, STRONG, paint};
use layout::{cut, rule_lines, why_lines, wrap};

/// Questions that have a line of their own; of more, those around the chosen one.
const MOST_LISTED: usize = 6;
/// How long a card is on the screen before a yes counts: a key that was meant for the one before is not one for this.
const SETTLED: Duration = Duration::from_millis(600);
const KEYS: [&str; 10] = [
    "a approve",
    "d deny",
    "m deny with a message",
    "e edit",
    "s approve for this session",
    "t for 10 minutes",
    "x why",
    "j/k choose",
    "space scroll",
    "q quit",
];

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
    /// Since when it is.
    since: Option<Instant>,
    scroll: usize,
    /// How far down the first line can be, and how many lines one key scrolls: set by drawing, for a screen has the height
    /// it has, and what a key skips was not seen.
    room: Cell<(usize, usize)>,
    /// The last line of the chosen card that was on the screen, and how many it has: set by drawing it.
    seen: Cell<(usize, usize)>,
    /// The same of the rule that is displayed.
    seen_of_rule: Cell<(usize, usize)>,
    said: String,
    mode: Mode,
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
    /// What was being typed about is not there any more: no key means anything until the person has seen that.
    Gone,
}

const GONE: &str = "the call you were at is gone; nothing was decided (escape goes on to the next one)";

impl View {
    /// The questions as they are now. What was chosen stays so.
    pub(super) fn take(&mut self, questions: Vec<Listed>) {
        self.questions = questions;
        if self.chosen().is_none() {
            let busy = self.chosen.is_some() && !matches!(self.mode, Mode::Looking);
            self.choose(self.questions.first().map(|one| one.card.id.clone()));
            if busy {
                self.mode = Mode::Gone;
            }
        }
    }

    fn choose(&mut self, id: Option<String>) {
        if self.chosen != id {
            (self.chosen, self.scroll, self.mode) = (id, 0, Mode::Looking);
            self.since = Some(Instant::now());
            self.seen.set((0, usize::MAX));
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

    pub(super) fn decided(&mut self, id: &str, reply: &Value) {
        self.mode = Mode::Looking;
        let text = |key: &str| reply.get(key).and_then(Value::as_str);
        match (text("grant"), text("asks_as")) {
            (Some(grant), _) => self.say(&format!("{id} is approved; the rule is {grant}")),
            (None, Some(next)) => {
                self.say(&format!("{id} was changed: look at it again as {next}"));
                self.choose(Some(next.to_owned()));
            }
            (None, None) => self.say(&format!("{id} is decided")),
        }
    }

    pub(super) fn ask_pin(&mut self, id: &str, params: Map<String, Value>) {
        self.mode = Mode::Pin(String::new(), id.to_owned(), params);
    }

    pub(super) fn display(&mut self, id: &str, params: Map<String, Value>, rule: Value) {
        (self.mode, self.scroll) = (Mode::Rule(id.to_owned(), params, rule), 0);
        self.seen_of_rule.set((0, usize::MAX));
    }

    /// What a key means now.
    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Act> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Some(Act::Quit);
        }
        self.said.clear();
        match std::mem::take(&mut self.mode) {
            Mode::Looking | Mode::Why => self.look(key.code),
            Mode::Gone => {
                match key.code {
                    KeyCode::Esc | KeyCode::Enter => self.since = Some(Instant::now()),
                    _ => self.mode = Mode::Gone,
                }
                None
            }
            Mode::Message(mut text) => match key.code {
                KeyCode::Enter => self.deny(Some(&text)),
                KeyCode::Esc => None,
                code => {
                    typed(&mut text, code);
                    self.mode = Mode::Message(text);
                    None
                }
            },
            Mode::Pin(mut pin, id, params) => match key.code {
                KeyCode::Enter => Some(Act::Pin(pin, id, params)),
                KeyCode::Esc => None,
                code => {
                    typed(&mut pin, code);
                    self.mode = Mode::Pin(pin, id, params);
                    None
                }
            },
            Mode::Rule(id, params, rule) => self.agree(key.code, id, params, rule),
        }
    }

    /// A rule is made only once all of it was on the screen, like a yes to a card.
    fn agree(
        &mut self,
        code: KeyCode,
        id: String,
        mut params: Map<String, Value>,
        rule: Value,
    ) -> Option<Act> {
        let (seen, all) = self.seen_of_rule.get();
        match code {
            KeyCode::Char('y') if seen >= all => {
                self.scroll = 0;
                params.insert("rule".to_owned(), rule);
                return Some(Act::Decide(id, params));
            }
            KeyCode::Char('y') => self.say("there is more of the rule: scroll to its end first (space)"),
            KeyCode::Char(' ') | KeyCode::PageDown => self.down(),
            KeyCode::Char('b') | KeyCode::PageUp => self.up(),
            _ => {
                self.scroll = 0;
                self.say("no rule was made, and nothing was approved");
                return None;
            }
        }
        self.mode = Mode::Rule(id, params, rule);
        None
    }

    fn look(&mut self, code: KeyCode) -> Option<Act> {
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Act::Quit),
            KeyCode::Char('a') => return self.approve(&[]),
            KeyCode::Char('s') => return self.approve(&[("for_session", json!(true))]),
            KeyCode::Char('t') => return self.approve(&[("for_seconds", json!(600))]),
            KeyCode::Char('d') => return self.deny(None),
            KeyCode::Char('m') if self.chosen().is_some() => self.mode = Mode::Message(String::new()),
            KeyCode::Char('x') => self.mode = Mode::Why,
            KeyCode::Char('e') => return self.chosen().map(|one| Act::Edit(one.card.id.clone())),
            KeyCode::Char('j') | KeyCode::Down => self.step(1),
            KeyCode::Char('k') | KeyCode::Up => self.step(-1),
            KeyCode::Char(' ') | KeyCode::PageDown => self.down(),
            KeyCode::Char('b') | KeyCode::PageUp => self.up(),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        None
    }

    /// A screen further, but for the line that was last: nothing falls between two screens.
    fn down(&mut self) {
        let (last, page) = self.room.get();
        self.scroll = self.scroll.saturating_add(page).min(last);
    }

    fn up(&mut self) {
        let (last, page) = self.room.get();
        self.scroll = self.scroll.min(last).saturating_sub(page);
    }

    fn step(&mut self, by: isize) {
        let at = self.questions.iter().position(|one| Some(&one.card.id) == self.chosen.as_ref());
        let next =
            at.unwrap_or_default().saturating_add_signed(by).min(self.questions.len().saturating_sub(1));
        self.choose(self.questions.get(next).map(|one| one.card.id.clone()));
    }

    /// A yes to what was on the screen, all of it.
    fn approve(&mut self, more: &[(&str, Value)]) -> Option<Act> {
        let id = self.chosen()?.card.id.clone();
        if self.since.is_some_and(|since| since.elapsed() < SETTLED) {
            self.say("this is another call: look at it first");
            return None;
        }
        let (seen, all) = self.seen.get();
        if seen < all {
            self.say("there is more to see: scroll to its end first (space)");
            return None;
        }
        let mut params = Map::new();
        params.insert("answer".to_owned(), json!("approve"));
        params.extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        Some(Act::Decide(id, params))
    }

    fn deny(&mut self, message: Option<&str>) -> Option<Act> {
        let id = self.chosen()?.card.id.clone();
        let mut params = Map::new();
        params.insert("answer".to_owned(), json!("deny"));
        params
            .extend(message.filter(|text| !text.is_empty()).map(|text| ("message".to_owned(), json!(text))));
        Some(Act::Decide(id, params))
    }

    /// The screen, line by line: visible characters, and the colours that are ours.
    pub(super) fn lines(&self, width: usize, height: usize) -> Vec<String> {
        let width = width.max(20);
        let mut lines = vec![paint(STRONG, self.title())];
        lines.extend(self.list(width));
        lines.push(paint(QUIET, "─".repeat(width)));
        let foot = self.foot(width);
        let room = height.saturating_sub(lines.len() + foot.len() + 1).max(1);
        // A card that no line is left for is not shown, and not seen.
        if lines.len() < height {
            lines.extend(self.card(width, room));
        }
        while lines.len() + foot.len() < height {
            lines.push(String::new());
        }
        lines.extend(foot);
        lines.truncate(height);
        lines
    }

    fn title(&self) -> String {
        match self.questions.len() {
            0 => "sinew approvals: nothing waits for you".to_owned(),
            1 => "sinew approvals: 1 call waits for you".to_owned(),
            count => format!("sinew approvals: {count} calls wait for you"),
        }
    }

    fn list(&self, width: usize) -> Vec<String> {
        let at = self.questions.iter().position(|one| Some(&one.card.id) == self.chosen.as_ref());
        let first = at.unwrap_or_default().saturating_sub(MOST_LISTED / 2);
        let shown_ones = self.questions.iter().skip(first).take(MOST_LISTED);
        let mut lines: Vec<String> = shown_ones
            .map(|one| {
                let is_chosen = Some(&one.card.id) == self.chosen.as_ref();
                let sign = if is_chosen { ">" } else { " " };
                let (id, summary) = (shown(&one.card.id), shown(&one.card.summary));
                let risk = one.card.risk.as_str();
                let line =
                    cut(&format!("{sign} {id}  {:>4} s  {risk:6}  {summary}", one.seconds_left), width);
                if is_chosen { paint(STRONG, line) } else { line }
            })
            .collect();
        let hidden = self.questions.len().saturating_sub(lines.len());
        if hidden > 0 {
            lines.push(paint(NOTE, format!("  and {hidden} more")));
        }
        lines
    }

    fn card(&self, width: usize, room: usize) -> Vec<String> {
        let Some(chosen) = self.chosen() else { return Vec::new() };
        let text = match &self.mode {
            Mode::Rule(_, _, rule) => rule_lines(rule),
            Mode::Why => why_lines(chosen),
            Mode::Looking | Mode::Message(_) | Mode::Pin(..) | Mode::Gone => chosen.card.lines(),
        };
        let wrapped: Vec<CardLine> = text.iter().flat_map(|line| wrap(line, width)).collect();
        let fits = wrapped.len() <= room;
        let room = if fits { room } else { room.saturating_sub(1).max(1) };
        let last = wrapped.len().saturating_sub(room);
        self.room.set((last, room.saturating_sub(1).max(1)));
        let from = self.scroll.min(last);
        let to = (from + room).min(wrapped.len());
        let looked_at = match self.mode {
            Mode::Looking => Some(&self.seen),
            Mode::Rule(..) => Some(&self.seen_of_rule),
            Mode::Message(_) | Mode::Pin(..) | Mode::Why | Mode::Gone => None,
        };
        if let Some(looked_at) = looked_at {
            let (seen, _) = looked_at.get();
            let seen = if seen >= from { seen.max(to) } else { seen };
            looked_at.set((seen, wrapped.len()));
        }
        let mut lines: Vec<String> = wrapped.iter().take(to).skip(from).map(painted).collect();
        if !fits {
            let below = wrapped.len() - to;
            let more = format!("lines {}–{to} of {}; {below} more below (space)", from + 1, wrapped.len());
            lines.push(paint(NOTE, more));
        }
        lines
    }

    fn foot(&self, width: usize) -> Vec<String> {
        let line = match &self.mode {
            Mode::Message(text) => {
                format!("what the model is told: {}▏  (enter sends, escape leaves)", shown(text))
            }
            Mode::Pin(pin, ..) => format!("operator PIN: {}▏", "•".repeat(pin.chars().count())),
            Mode::Rule(..) => {
                "y makes this rule and approves; space scrolls; any other key does neither".to_owned()
            }
            Mode::Gone => GONE.to_owned(),
            Mode::Looking | Mode::Why if self.questions.is_empty() => "q quit".to_owned(),
            Mode::Looking | Mode::Why => return self.keys(width),
        };
        let wrapped = wrap(&CardLine { tone: Tone::Quiet, text: line }, width);
        let mut lines: Vec<String> = wrapped.iter().map(painted).collect();
        lines.insert(0, paint(NOTE, cut(&self.said, width)));
        lines
    }
}

impl View {
    /// What was said, and the keys, none of them broken in two.
    fn keys(&self, width: usize) -> Vec<String> {
        let mut rows = vec![String::new()];
        for key in KEYS {
            match rows.last_mut() {
                Some(row) if row.is_empty() => row.push_str(key),
                Some(row) if row.len() + 2 + key.len() <= width => {
                    row.push_str("  ");
                    row.push_str(key);
                }
                _ => rows.push(key.to_owned()),
            }
        }
        let keys = rows.iter().map(|row| paint(QUIET, cut(row, width + 1)));
        [paint(NOTE, cut(&self.said, width))].into_iter().chain(keys).collect()
    }
}

fn typed(text: &mut String, code: KeyCode) {
    match code {
        KeyCode::Char(c) if text.len() < 500 => text.push(c),
        KeyCode::Backspace => drop(text.pop()),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
