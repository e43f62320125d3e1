//! Lines for the view: what stands in the place of a card, and how a line is made to fit.

use execution::{CardLine, Listed, Tone, shown};
use serde_json::Value;
use unicode_width::UnicodeWidthChar;

pub(super) fn rule_lines(rule: &Value) -> Vec<CardLine> {
    let lines = rule.as_array().into_iter().flatten().map(|line| shown(line.as_str().unwrap_or_default()));
    let head = CardLine { tone: Tone::Title, text: "the rule that would be made".to_owned() };
    [head].into_iter().chain(lines.map(|text| CardLine { tone: Tone::Plain, text })).collect()
}

pub(super) fn why_lines(chosen: &Listed) -> Vec<CardLine> {
    let head =
        CardLine { tone: Tone::Title, text: format!("why you are asked about {}", shown(&chosen.card.tool)) };
    let rules = chosen.card.asked_by.iter().map(|rule| {
        let place =
            if rule.line == 0 { shown(&rule.file) } else { format!("{}:{}", shown(&rule.file), rule.line) };
        CardLine { tone: Tone::Plain, text: format!("{} asks ({place})", shown(&rule.id)) }
    });
    let hint = "nothing forbids the call; these rules want a human's leave for it. The first decision stands, is on \
                record, and lets this one call run once.";
    let tail = CardLine { tone: Tone::Quiet, text: hint.to_owned() };
    [head].into_iter().chain(rules).chain([tail]).collect()
}

/// A line in pieces that fit.
pub(super) fn wrap(line: &CardLine, width: usize) -> Vec<CardLine> {
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for c in line.text.chars() {
        let wide = c.width().unwrap_or(1);
        if used + wide > width {
            pieces.push("    ".to_owned());
            used = 4;
        }
        if let Some(last) = pieces.last_mut() {
            last.push(c);
        }
        used += wide;
    }
    pieces.into_iter().map(|text| CardLine { tone: line.tone, text }).collect()
}

/// The beginning of a line, and that there is more.
pub(super) fn cut(text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(1);
        if used >= width {
            out.push('…');
            break;
        }
        out.push(c);
    }
    out
}
