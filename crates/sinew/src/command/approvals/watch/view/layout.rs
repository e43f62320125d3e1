//! Lines for the view: what stands in the place of a card, and how a line is made to fit.

use execution::{CardLine, Listed, Tone, shown};
use serde_json::Value;

pub(super) fn rule_lines(rule: &Value) -> Vec<CardLine> {
    let lines = rule.as_array().into_iter().flatten().map(|line| shown(line.as_str().unwrap_or_default()));
    let head = CardLine { tone: Tone::Title, text: "the rule that would be made".to_owned() };
    [head].into_iter().chain(lines.map(|text| CardLine { tone: Tone::Plain, text })).collect()
}

pub(super) fn why_lines(chosen: &Listed) -> Vec<CardLine> {
    let head =
        CardLine { tone: Tone::Title, text: format!("why you are asked about {}", shown(&chosen.card.tool)) };
    let rules = chosen.card.rules().into_iter();
    let rules =
        rules.map(|(rule, place)| CardLine { tone: Tone::Plain, text: format!("{rule} asks ({place})") });
    let hint = "nothing forbids the call; these rules want a human's leave for it. The first decision stands, is on \
                record, and lets this one call run once.";
    let tail = CardLine { tone: Tone::Quiet, text: hint.to_owned() };
    [head].into_iter().chain(rules).chain([tail]).collect()
}

/// How far the rest of a line that did not fit is set in.
const INDENT: &str = "    ";

/// A line in pieces that fit, parted between words where there are any. Every character of it is in one of them.
pub(super) fn wrap(line: &CardLine, width: usize) -> Vec<CardLine> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for c in line.text.chars() {
        if wide(&piece) + wide_char(c) > width {
            let rest = piece.split_off(last_word(&piece, width));
            pieces.push(std::mem::replace(&mut piece, format!("{INDENT}{rest}")));
        }
        piece.push(c);
    }
    pieces.push(piece);
    pieces.into_iter().map(|text| CardLine { tone: line.tone, text }).collect()
}

/// Where the last word of a full piece begins, unless it takes most of it: a path is parted anywhere.
fn last_word(piece: &str, width: usize) -> usize {
    let begins = piece.rfind(' ').map(|space| space + 1);
    begins.filter(|at| piece.get(..*at).is_some_and(|head| wide(head) > width / 2)).unwrap_or(piece.len())
}

fn wide(text: &str) -> usize {
    text.chars().map(wide_char).sum()
}

/// How many columns a character takes where it takes most. Terminals disagree about all that is not ASCII, and tables of
/// widths with them; a line that is parted early loses nothing.
fn wide_char(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

/// The beginning of a line, and that there is more.
pub(super) fn cut(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += wide_char(c);
        if used >= width {
            out.push('…');
            break;
        }
        out.push(c);
    }
    out
}
