//! What a key does. Only a key that was pressed by itself, for what is on the screen and was there for a while, is an answer.

use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Map, Value, json};

use super::{Act, Mode, SETTLED, View};

impl View {
    /// What a key means now.
    pub(in super::super) fn press(&mut self, key: KeyEvent, now: Instant) -> Option<Act> {
        if key.modifiers == KeyModifiers::CONTROL && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Some(Act::Quit);
        }
        // A key with another one held down is meant for the terminal or the desktop.
        if !(key.modifiers - KeyModifiers::SHIFT).is_empty() {
            return None;
        }
        self.said.clear();
        match std::mem::take(&mut self.mode) {
            Mode::Looking => self.look(key.code, now),
            // It is left for the card; what answers there answers here.
            Mode::Why if matches!(key.code, KeyCode::Char('q' | 'x') | KeyCode::Esc | KeyCode::Enter) => {
                self.scroll = 0;
                None
            }
            Mode::Why => self.look(key.code, now),
            Mode::Gone => {
                match key.code {
                    KeyCode::Esc | KeyCode::Enter => self.since = Some(now),
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
        match code {
            KeyCode::Char('y') if self.seen_of_rule.is_whole() => {
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

    fn look(&mut self, code: KeyCode, now: Instant) -> Option<Act> {
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return Some(Act::Quit),
            KeyCode::Char('a') => return self.approve(&[], now),
            KeyCode::Char('s') => return self.approve(&[("for_session", json!(true))], now),
            KeyCode::Char('t') => return self.approve(&[("for_seconds", json!(600))], now),
            KeyCode::Char('d') => return self.deny(None),
            KeyCode::Char('m') if self.chosen().is_some() => self.mode = Mode::Message(String::new()),
            KeyCode::Char('x') => self.mode = Mode::Why,
            KeyCode::Char('e') => return self.chosen().map(|one| Act::Edit(one.card.id.clone())),
            KeyCode::Char('j') | KeyCode::Down => self.step(1, now),
            KeyCode::Char('k') | KeyCode::Up => self.step(-1, now),
            KeyCode::Char(' ') | KeyCode::PageDown => self.down(),
            KeyCode::Char('b') | KeyCode::PageUp => self.up(),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        None
    }

    /// A screen further, but for the line that was last: nothing falls between two screens.
    fn down(&mut self) {
        let (last, page) = self.room;
        self.scroll = self.scroll.saturating_add(page).min(last);
    }

    fn up(&mut self) {
        let (last, page) = self.room;
        self.scroll = self.scroll.min(last).saturating_sub(page);
    }

    fn step(&mut self, by: isize, now: Instant) {
        let at = self.questions.iter().position(|one| Some(&one.card.id) == self.chosen.as_ref());
        let next =
            at.unwrap_or_default().saturating_add_signed(by).min(self.questions.len().saturating_sub(1));
        self.choose(self.questions.get(next).map(|one| one.card.id.clone()), now);
    }

    /// A yes to what was on the screen, all of it.
    fn approve(&mut self, more: &[(&str, Value)], now: Instant) -> Option<Act> {
        let id = self.chosen()?.card.id.clone();
        if self.since.is_some_and(|since| now.duration_since(since) < SETTLED) {
            // From now on: a key that is held down comes again and again, and is one answer.
            self.since = Some(now);
            self.say("this is another call: look at it first");
            return None;
        }
        if !self.seen.is_whole() {
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

    /// Text that came in one piece is text, and never a key.
    pub(in super::super) fn paste(&mut self, text: &str) {
        if let Mode::Message(into) | Mode::Pin(into, ..) = &mut self.mode {
            text.chars().for_each(|c| typed(into, KeyCode::Char(c)));
        }
    }
}

fn typed(text: &mut String, code: KeyCode) {
    match code {
        KeyCode::Char(c) if text.len() < 500 => text.push(c),
        KeyCode::Backspace => drop(text.pop()),
        _ => {}
    }
}
