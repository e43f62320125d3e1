//! Line layout for the view: texts shown instead of a request, and wrapping to the screen width.

use approvals::{ApprovalRequestLine, LineStyle, ListedApproval, escape_for_display};
use serde_json::Value;

pub(super) fn rule_lines(rule: &Value) -> Vec<ApprovalRequestLine> {
    let lines = rule
        .as_array()
        .into_iter()
        .flatten()
        .map(|line| escape_for_display(line.as_str().unwrap_or_default()));
    let head =
        ApprovalRequestLine { style: LineStyle::Title, text: "the rule that would be created".to_owned() };
    [head]
        .into_iter()
        .chain(lines.map(|text| ApprovalRequestLine { style: LineStyle::Plain, text }))
        .collect()
}

pub(super) fn reason_lines(chosen: &ListedApproval) -> Vec<ApprovalRequestLine> {
    let head = ApprovalRequestLine {
        style: LineStyle::Title,
        text: format!("why {} needs approval", escape_for_display(&chosen.request.tool)),
    };
    let rules = chosen.request.rules().into_iter();
    let rules = rules.map(|(rule, place)| ApprovalRequestLine {
        style: LineStyle::Plain,
        text: format!("{rule} requires approval ({place})"),
    });
    let hint = "No rule forbids the call; these rules require operator approval. The first decision is final and is \
                recorded in the ledger. An approval lets this one call run once.";
    let tail = ApprovalRequestLine { style: LineStyle::Muted, text: hint.to_owned() };
    [head].into_iter().chain(rules).chain([tail]).collect()
}

/// Keys of the view with their meaning.
const KEY_HELP: [(&str, &str); 12] = [
    ("a", "approve the call, once"),
    ("s", "approve it and similar calls of this session"),
    ("t", "approve it and similar calls for 10 minutes"),
    ("d", "deny the call"),
    ("m", "deny the call with a message to the model"),
    ("e", "edit the arguments; the changed call is judged again"),
    ("x", "show why the call needs approval"),
    ("j k", "choose another call; the arrow keys do the same"),
    ("space b", "scroll down and up"),
    ("home", "scroll to the start"),
    ("?", "show or leave this list"),
    ("q", "quit; pending calls stay pending"),
];

pub(super) fn key_lines() -> Vec<ApprovalRequestLine> {
    let line = |style, text| ApprovalRequestLine { style, text };
    let keys = KEY_HELP.iter().map(|(key, meaning)| line(LineStyle::Plain, format!("{key:<8}{meaning}")));
    [line(LineStyle::Title, "keys".to_owned())].into_iter().chain(keys).collect()
}

/// Indentation of continuation lines.
const INDENT: &str = "    ";

/// Wraps a line to `width`, between words where possible. No character is lost.
pub(super) fn wrap(line: &ApprovalRequestLine, width: usize) -> Vec<ApprovalRequestLine> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for c in line.text.chars() {
        if text_width(&piece) + char_width(c) > width {
            let rest = piece.split_off(break_offset(&piece, width));
            pieces.push(std::mem::replace(&mut piece, format!("{INDENT}{rest}")));
        }
        piece.push(c);
    }
    pieces.push(piece);
    pieces.into_iter().map(|text| ApprovalRequestLine { style: line.style, text }).collect()
}

/// Returns the byte offset at which to break a full line: before its last word, or at its end if that word
/// fills more than half of the line, as a long path does.
fn break_offset(piece: &str, width: usize) -> usize {
    let begins = piece.rfind(' ').map(|space| space + 1);
    begins
        .filter(|at| piece.get(..*at).is_some_and(|head| text_width(head) > width / 2))
        .unwrap_or(piece.len())
}

fn text_width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Returns the maximum number of columns a character may take. Terminals and width tables disagree about
/// non-ASCII characters, and breaking a line early loses nothing.
fn char_width(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

/// Truncates a line to `width` and marks the cut with `…`.
pub(super) fn truncate(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += char_width(c);
        if used >= width {
            out.push('…');
            break;
        }
        out.push(c);
    }
    out
}
