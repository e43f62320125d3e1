//! Key handling of `sinew approvals watch`. A key approves only if it is pressed without a modifier, after
//! the whole request was displayed and after it has been on the screen for `MIN_DISPLAY_TIME`.

use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Map, Value, json};

use super::{Act, Mode, SETTLED, View};

impl View {
    /// Handles a key in the current mode and returns the action it triggers.
    pub(in super::super) fn press(&mut self, key: KeyEvent, now: Instant) -> Option<Act> {
        if key.modifiers == KeyModifiers::CONTROL && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Some(Act::Quit);
        }
        // Keys with Control, Alt or Super are meant for the terminal or the desktop.
        if !(key.modifiers - KeyModifiers::SHIFT).is_empty() {
            return None;
        }
        self.said.clear();
        match std::mem::take(&mut self.mode) {
            Mode::Looking => self.look(key.code, now),
            // These keys return to the request. All others work as they do there.
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

    /// Handles a key while a rule is shown. Like an approval, `y` counts only after the whole rule was
    /// displayed.
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
            KeyCode::Char('y') => {
                self.say("part of the rule was not shown yet: scroll to its end first (space)")
            }
            KeyCode::Char(' ') | KeyCode::PageDown => self.down(),
            KeyCode::Char('b') | KeyCode::PageUp => self.up(),
            _ => {
                self.scroll = 0;
                self.say("no rule was created, and nothing was approved");
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

    /// Scrolls one page down. Pages overlap by one line, so that no line is skipped.
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

    /// Approves the selected request if all of it was displayed for long enough.
    fn approve(&mut self, more: &[(&str, Value)], now: Instant) -> Option<Act> {
        let id = self.chosen()?.card.id.clone();
        if self.since.is_some_and(|since| now.duration_since(since) < SETTLED) {
            // Restart the wait: a held key repeats, and only the press for the previous request was meant.
            self.since = Some(now);
            self.say("this is a different call: review it first");
            return None;
        }
        if !self.seen.is_whole() {
            self.say("part of the request was not shown yet: scroll to its end first (space)");
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

    /// Inserts pasted text into the open input field. Pasted text never acts as a key.
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
