//! State of `sinew approvals watch`. It uses no terminal, no daemon and no clock: it takes approval requests,
//! keys and times, and returns lines and actions. `keys` handles keys, `drawing` renders the screen.
//!
//! An approval is accepted only after the whole request was on the screen: the operator cannot agree to text
//! that was never displayed.

mod drawing;
mod keys;
mod layout;

use std::time::{Duration, Instant};

use approvals::{ListedApproval, escape_for_display};
use serde_json::{Map, Value};

/// Time that a request must be on the screen before it can be approved, so that a key meant for the previous
/// request does not approve this one.
const MIN_DISPLAY_TIME: Duration = Duration::from_millis(600);

/// Action that a key triggers.
#[derive(Debug, PartialEq)]
pub(super) enum ViewAction {
    Quit,
    Decide(String, Map<String, Value>),
    /// Repeats a decision with the typed PIN: PIN, approval id, parameters.
    DecideWithPin(String, String, Map<String, Value>),
    Edit(String),
}

#[derive(Default)]
pub(super) struct WatchView {
    approvals: Vec<ListedApproval>,
    /// Id of the selected request.
    selected_id: Option<String>,
    /// Place of the selected request in the list, where the selection stays when that request is decided.
    selected_index: usize,
    /// Time of the selection, or of the last approval key that came too early.
    selected_at: Option<Instant>,
    /// Id of the request decided last in this view. Its disappearance is expected.
    last_decided: Option<String>,
    scroll: usize,
    /// Screen width at the last draw.
    width: usize,
    /// Largest scroll offset, and the number of lines that one key scrolls. Set by drawing, which knows the
    /// height: a key must not skip lines that were never displayed.
    scroll_limits: (usize, usize),
    display_progress: DisplayProgress,
    /// Display progress of the rule that is shown for confirmation.
    rule_display_progress: DisplayProgress,
    status_text: String,
    input_mode: InputMode,
}

/// Display progress of a text: the last line that was on the screen, and the number of lines. Set by drawing.
#[derive(Clone, Copy)]
struct DisplayProgress {
    last_line: usize,
    line_count: usize,
}

impl Default for DisplayProgress {
    /// Returns the progress of a text that was not displayed yet.
    fn default() -> Self {
        DisplayProgress { last_line: 0, line_count: usize::MAX }
    }
}

impl DisplayProgress {
    fn is_complete(self) -> bool {
        self.last_line >= self.line_count
    }
}

/// Input mode, which determines what a key means.
#[derive(Default)]
enum InputMode {
    #[default]
    Browse,
    DenialMessage(String),
    Pin(String, String, Map<String, Value>),
    /// A rule is shown and is created if the operator confirms it.
    ConfirmRule(String, Map<String, Value>, Value),
    Reasons,
    /// The meaning of the keys is shown.
    Keys,
    /// The selected request disappeared without a decision in this view. Decision keys are ignored until the
    /// operator acknowledges this.
    SelectionGone,
}

impl WatchView {
    /// Replaces the list of pending requests and keeps the selection if it still exists.
    pub(super) fn update_approvals(&mut self, questions: Vec<ListedApproval>, now: Instant) {
        let place = self.approvals.iter().position(|one| Some(&one.request.id) == self.selected_id.as_ref());
        self.selected_index = place.unwrap_or(self.selected_index);
        self.approvals = questions;
        if self.selected().is_none() {
            // `SelectionGone` lasts until the operator acknowledges it, even if the queue empties and fills
            // again.
            let is_gone = matches!(self.input_mode, InputMode::SelectionGone)
                || (self.selected_id.is_some() && self.selected_id != self.last_decided);
            let next = self.approvals.get(self.selected_index).or(self.approvals.last());
            self.select(next.map(|one| one.request.id.clone()), now);
            if is_gone {
                self.input_mode = InputMode::SelectionGone;
            }
        }
    }

    fn select(&mut self, id: Option<String>, now: Instant) {
        if self.selected_id != id {
            (self.selected_id, self.scroll, self.input_mode) = (id, 0, InputMode::Browse);
            (self.selected_at, self.display_progress) = (Some(now), DisplayProgress::default());
        }
    }

    fn selected(&self) -> Option<&ListedApproval> {
        self.approvals.iter().find(|one| Some(&one.request.id) == self.selected_id.as_ref())
    }

    /// Returns the arguments of a request that can be edited, or the reason why they cannot.
    pub(super) fn editable_arguments(&self, id: &str) -> Result<Map<String, Value>, &'static str> {
        let listed = self.approvals.iter().find(|one| one.request.id == id);
        match listed.map(|one| (one.waiting, &one.editable)) {
            None => Err("the call is no longer pending"),
            Some((_, None)) => {
                Err("the arguments contain masked secrets: deny the call with a message instead (m)")
            }
            Some((false, _)) => {
                Err("its caller does not wait for the edit: deny the call with a message instead (m)")
            }
            Some((true, Some(arguments))) => Ok(arguments.clone()),
        }
    }

    pub(super) fn set_status(&mut self, text: &str) {
        self.status_text = escape_for_display(text);
    }

    /// Shows what was decided about which call.
    pub(super) fn show_decision(&mut self, id: &str, answer: &str, reply: &Value, now: Instant) {
        let listed = self.approvals.iter().find(|one| one.request.id == id);
        let what = listed.map_or_else(|| id.to_owned(), |one| one.request.summary.clone());
        (self.input_mode, self.last_decided) = (InputMode::Browse, Some(id.to_owned()));
        let text = |key: &str| reply.get(key).and_then(Value::as_str);
        match (text("grant"), text("new_request_id")) {
            (Some(grant), _) => self.set_status(&format!("approved, and rule {grant} created: {what}")),
            (None, Some(next)) => {
                self.set_status(&format!("edited, review it again: {what}"));
                self.select(Some(next.to_owned()), now);
            }
            (None, None) => self.set_status(&match answer {
                "approve" => format!("approved: {what}"),
                "deny" => format!("denied: {what}"),
                _ => format!("edited, and permitted without approval: {what}"),
            }),
        }
    }

    pub(super) fn ask_pin(&mut self, id: &str, params: Map<String, Value>) {
        self.input_mode = InputMode::Pin(String::new(), id.to_owned(), params);
    }

    pub(super) fn show_rule(&mut self, id: &str, params: Map<String, Value>, rule: Value) {
        (self.input_mode, self.scroll) = (InputMode::ConfirmRule(id.to_owned(), params, rule), 0);
        self.rule_display_progress = DisplayProgress::default();
    }
}

#[cfg(test)]
mod tests;
