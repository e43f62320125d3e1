//! Renders the screen: the pending requests, the selected request and the key help. Drawing also records how
//! much of a request has been displayed.

use execution::{CardLine, Tone, shown};

use super::super::super::painted;
use super::layout::{cut, rule_lines, why_lines, wrap};
use super::{Mode, Seen, View};
use crate::terminal::{NOTE, QUIET, STRONG, paint};

/// Minimum screen width. On a narrower screen nothing is displayed, so nothing can be approved.
const NARROWEST: usize = 20;
/// Maximum number of requests in the list. If there are more, the list shows those around the selected one.
const MOST_LISTED: usize = 6;
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
const WHY: &str = "q returns to the request";
const GONE: &str =
    "the call you were reviewing is gone, and not by your decision (escape goes to the next one)";

impl View {
    /// Returns the lines of the screen. They contain only visible characters and the colours set here.
    pub(in super::super) fn lines(&mut self, width: usize, height: usize) -> Vec<String> {
        if self.width != width {
            // The text wraps differently now, so the lines displayed so far no longer count.
            (self.width, self.scroll) = (width, 0);
            (self.seen, self.seen_of_rule) = (Seen::default(), Seen::default());
        }
        if width < NARROWEST {
            return vec![cut("too narrow", width)];
        }
        let mut lines = vec![paint(STRONG, self.title())];
        lines.extend(self.list(width));
        lines.push(paint(QUIET, "─".repeat(width)));
        let foot = self.foot(width);
        let room = height.saturating_sub(lines.len() + foot.len() + 1).max(1);
        // If no line is left for the request, it is not displayed and its progress does not advance.
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
            0 => "sinew approvals: no calls are pending".to_owned(),
            1 => "sinew approvals: 1 call is pending".to_owned(),
            count => format!("sinew approvals: {count} calls are pending"),
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

    fn card(&mut self, width: usize, room: usize) -> Vec<String> {
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
        self.room = (last, room.saturating_sub(1).max(1));
        let from = self.scroll.min(last);
        let to = (from + room).min(wrapped.len());
        let looked_at = match self.mode {
            Mode::Looking => Some(&mut self.seen),
            Mode::Rule(..) => Some(&mut self.seen_of_rule),
            Mode::Message(_) | Mode::Pin(..) | Mode::Why | Mode::Gone => None,
        };
        if let Some(seen) = looked_at {
            let to = if seen.to >= from { seen.to.max(to) } else { seen.to };
            *seen = Seen { to, of: wrapped.len() };
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
                format!("message to the model: {}▏  (enter sends, escape cancels)", shown(text))
            }
            Mode::Pin(pin, ..) => format!("operator PIN: {}▏", "•".repeat(pin.chars().count())),
            Mode::Rule(..) => {
                "y creates this rule and approves; space scrolls; any other key cancels".to_owned()
            }
            Mode::Gone => GONE.to_owned(),
            Mode::Why => WHY.to_owned(),
            Mode::Looking if self.questions.is_empty() => "q quit".to_owned(),
            Mode::Looking => return self.keys(width),
        };
        let wrapped = wrap(&CardLine { tone: Tone::Quiet, text: line }, width);
        let mut lines: Vec<String> = wrapped.iter().map(painted).collect();
        lines.insert(0, paint(NOTE, cut(&self.said, width)));
        lines
    }

    /// Returns the status line and the key help, which wraps only between keys.
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
