//! Key handling of `sinew approvals watch`. A key approves only if it is pressed without a modifier, after
//! the whole request was displayed and after it has been on the screen for `MIN_DISPLAY_TIME`.

use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Map, Value, json};

use super::{InputMode, MIN_DISPLAY_TIME, ViewAction, WatchView};

impl WatchView {
    /// Handles a key in the current mode and returns the action it triggers.
    pub(in super::super) fn handle_key(&mut self, key: KeyEvent, now: Instant) -> Option<ViewAction> {
        if key.modifiers == KeyModifiers::CONTROL && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return Some(ViewAction::Quit);
        }
        // Keys with Control, Alt or Super are meant for the terminal or the desktop.
        if !(key.modifiers - KeyModifiers::SHIFT).is_empty() {
            return None;
        }
        self.status_text.clear();
        match std::mem::take(&mut self.input_mode) {
            InputMode::Browse => self.handle_browse_key(key.code, now),
            // These keys return to the request. All others work as they do there.
            InputMode::Reasons | InputMode::Keys
                if matches!(key.code, KeyCode::Char('q' | 'x' | '?') | KeyCode::Esc | KeyCode::Enter) =>
            {
                self.scroll = 0;
                None
            }
            InputMode::Reasons | InputMode::Keys => self.handle_browse_key(key.code, now),
            InputMode::SelectionGone => {
                match key.code {
                    KeyCode::Esc | KeyCode::Enter => self.selected_at = Some(now),
                    _ => self.input_mode = InputMode::SelectionGone,
                }
                None
            }
            InputMode::DenialMessage(mut text) => match key.code {
                KeyCode::Enter => self.deny(Some(&text)),
                KeyCode::Esc => None,
                code => {
                    edit_text(&mut text, code);
                    self.input_mode = InputMode::DenialMessage(text);
                    None
                }
            },
            InputMode::Pin(mut pin, id, params) => match key.code {
                KeyCode::Enter => Some(ViewAction::DecideWithPin(pin, id, params)),
                KeyCode::Esc => None,
                code => {
                    edit_text(&mut pin, code);
                    self.input_mode = InputMode::Pin(pin, id, params);
                    None
                }
            },
            InputMode::ConfirmRule(id, params, rule) => self.handle_rule_key(key.code, id, params, rule),
        }
    }

    /// Handles a key while a rule is shown. Like an approval, `y` counts only after the whole rule was
    /// displayed.
    fn handle_rule_key(
        &mut self,
        code: KeyCode,
        id: String,
        mut params: Map<String, Value>,
        rule: Value,
    ) -> Option<ViewAction> {
        match code {
            KeyCode::Char('y') if self.rule_display_progress.is_complete() => {
                self.scroll = 0;
                params.insert("rule".to_owned(), rule);
                return Some(ViewAction::Decide(id, params));
            }
            KeyCode::Char('y') => {
                self.set_status("part of the rule was not shown yet: scroll to its end first (space)")
            }
            KeyCode::Char(' ') | KeyCode::PageDown => self.page_down(),
            KeyCode::Char('b') | KeyCode::PageUp => self.page_up(),
            _ => {
                self.scroll = 0;
                self.set_status("no rule was created, and nothing was approved");
                return None;
            }
        }
        self.input_mode = InputMode::ConfirmRule(id, params, rule);
        None
    }

    fn handle_browse_key(&mut self, code: KeyCode, now: Instant) -> Option<ViewAction> {
        match code {
            KeyCode::Char('q') => return Some(ViewAction::Quit),
            KeyCode::Char('a') => return self.approve(&[], now),
            KeyCode::Char('s') => return self.approve(&[("for_session", json!(true))], now),
            KeyCode::Char('t') => return self.approve(&[("for_seconds", json!(600))], now),
            KeyCode::Char('d') => return self.deny(None),
            KeyCode::Char('m') if self.selected().is_some() => {
                self.input_mode = InputMode::DenialMessage(String::new())
            }
            KeyCode::Char('x') => self.input_mode = InputMode::Reasons,
            KeyCode::Char('?') => self.input_mode = InputMode::Keys,
            KeyCode::Char('e') => return self.selected().map(|one| ViewAction::Edit(one.request.id.clone())),
            KeyCode::Char('j') | KeyCode::Down => self.move_selection(1, now),
            KeyCode::Char('k') | KeyCode::Up => self.move_selection(-1, now),
            KeyCode::Char(' ') | KeyCode::PageDown => self.page_down(),
            KeyCode::Char('b') | KeyCode::PageUp => self.page_up(),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        None
    }

    /// Scrolls one page down. Pages overlap by one line, so that no line is skipped.
    fn page_down(&mut self) {
        let (last, page) = self.scroll_limits;
        self.scroll = self.scroll.saturating_add(page).min(last);
    }

    fn page_up(&mut self) {
        let (last, page) = self.scroll_limits;
        self.scroll = self.scroll.min(last).saturating_sub(page);
    }

    fn move_selection(&mut self, by: isize, now: Instant) {
        let at = self.approvals.iter().position(|one| Some(&one.request.id) == self.selected_id.as_ref());
        let next =
            at.unwrap_or_default().saturating_add_signed(by).min(self.approvals.len().saturating_sub(1));
        self.select(self.approvals.get(next).map(|one| one.request.id.clone()), now);
    }

    /// Approves the selected request if all of it was displayed for long enough.
    fn approve(&mut self, more: &[(&str, Value)], now: Instant) -> Option<ViewAction> {
        let id = self.selected()?.request.id.clone();
        if self.selected_at.is_some_and(|since| now.duration_since(since) < MIN_DISPLAY_TIME) {
            // Restart the wait: a held key repeats, and only the press for the previous request was meant.
            self.selected_at = Some(now);
            self.set_status("this is a different call: review it first");
            return None;
        }
        if !self.display_progress.is_complete() {
            self.set_status("part of the request was not shown yet: scroll to its end first (space)");
            return None;
        }
        let mut params = Map::new();
        params.insert("answer".to_owned(), json!("approve"));
        params.extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        Some(ViewAction::Decide(id, params))
    }

    fn deny(&mut self, message: Option<&str>) -> Option<ViewAction> {
        let id = self.selected()?.request.id.clone();
        let mut params = Map::new();
        params.insert("answer".to_owned(), json!("deny"));
        params
            .extend(message.filter(|text| !text.is_empty()).map(|text| ("message".to_owned(), json!(text))));
        Some(ViewAction::Decide(id, params))
    }

    /// Inserts pasted text into the open input field. Pasted text never acts as a key.
    pub(in super::super) fn paste(&mut self, text: &str) {
        if let InputMode::DenialMessage(into) | InputMode::Pin(into, ..) = &mut self.input_mode {
            text.chars().for_each(|c| edit_text(into, KeyCode::Char(c)));
        }
    }
}

fn edit_text(text: &mut String, code: KeyCode) {
    match code {
        KeyCode::Char(c) if text.len() < 500 => text.push(c),
        KeyCode::Backspace => drop(text.pop()),
        _ => {}
    }
}
