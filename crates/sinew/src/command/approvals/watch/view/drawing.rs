//! Renders the screen: the pending requests, the selected request and the key help. Drawing also records how
//! much of a request has been displayed.

use approvals::{ApprovalRequestLine, LineStyle, escape_for_display};

use super::super::super::colour_line;
use super::layout::{key_lines, reason_lines, rule_lines, truncate, wrap};
use super::{DisplayProgress, InputMode, WatchView};
use crate::terminal::{DIM_STYLE, HEADING_STYLE, WARNING_STYLE, paint};
use crate::text_layout::keep_end;
use crate::units;

/// Minimum screen width. On a narrower screen nothing is displayed, so nothing can be approved.
const MIN_WIDTH: usize = 20;
/// Maximum number of requests in the list. If there are more, the list shows those around the selected one.
const MAX_LISTED: usize = 6;
/// Width from which the list has room for ids.
const WIDTH_WITH_IDS: usize = 90;
const KEYS: [&str; 11] = [
    "a approve",
    "d deny",
    "m deny with a message",
    "e edit",
    "s approve for this session",
    "t for 10 minutes",
    "x why",
    "j/k choose",
    "space scroll",
    "? keys",
    "q quit",
];
const REASONS_HELP: &str = "q returns to the request";
const SELECTION_GONE_HELP: &str =
    "the call you were reviewing is no longer pending, and you did not decide it (escape shows the next one)";

/// Shortens the summary of a call at the beginning of its path, whose end is more informative.
fn short_summary(summary: &str, width: usize, used: usize) -> String {
    match summary.split_once(" /") {
        Some((tool, path)) => {
            // `truncate` counts the sign of the cut as two columns, and leaves the last one free.
            let space = width.saturating_sub(used + tool.chars().count() + 4);
            format!("{tool} {}", keep_end(&format!("/{path}"), space))
        }
        None => summary.to_owned(),
    }
}

impl WatchView {
    /// Returns the lines of the screen. They contain only visible characters and the colours set here.
    pub(in super::super) fn lines(&mut self, width: usize, height: usize) -> Vec<String> {
        if self.width != width {
            // The text wraps differently now, so the lines displayed so far no longer count.
            (self.width, self.scroll) = (width, 0);
            (self.display_progress, self.rule_display_progress) =
                (DisplayProgress::default(), DisplayProgress::default());
        }
        if width < MIN_WIDTH {
            return vec![truncate("too narrow", width)];
        }
        let mut lines = vec![paint(HEADING_STYLE, self.title())];
        lines.extend(self.list_lines(width));
        lines.push(paint(DIM_STYLE, "─".repeat(width)));
        let foot = self.footer_lines(width);
        let space = height.saturating_sub(lines.len() + foot.len() + 1).max(1);
        // If no line is left for the request, it is not displayed and its progress does not advance.
        if lines.len() < height {
            lines.extend(self.request_lines(width, space));
        }
        while lines.len() + foot.len() < height {
            lines.push(String::new());
        }
        lines.extend(foot);
        lines.truncate(height);
        lines
    }

    fn title(&self) -> String {
        match self.approvals.len() {
            0 => "sinew approvals: no calls are pending".to_owned(),
            1 => "sinew approvals: 1 call is pending".to_owned(),
            count => format!("sinew approvals: {count} calls are pending"),
        }
    }

    fn list_lines(&self, width: usize) -> Vec<String> {
        let at = self.approvals.iter().position(|one| Some(&one.request.id) == self.selected_id.as_ref());
        let first = at.unwrap_or_default().saturating_sub(MAX_LISTED / 2);
        let shown_ones = self.approvals.iter().skip(first).take(MAX_LISTED);
        let mut lines: Vec<String> = shown_ones
            .map(|one| {
                let is_chosen = Some(&one.request.id) == self.selected_id.as_ref();
                let sign = if is_chosen { ">" } else { " " };
                let (id, summary) =
                    (escape_for_display(&one.request.id), escape_for_display(&one.request.summary));
                let risk = one.request.risk.as_str();
                let id = if width < WIDTH_WITH_IDS { String::new() } else { format!("{id}  ") };
                let left = units::span(one.seconds_left);
                let head = format!("{sign} {id}{left:>9}  {risk:6}  ");
                let line =
                    truncate(&(head.clone() + &short_summary(&summary, width, head.chars().count())), width);
                if is_chosen { paint(HEADING_STYLE, line) } else { line }
            })
            .collect();
        let hidden = self.approvals.len().saturating_sub(lines.len());
        if hidden > 0 {
            lines.push(paint(WARNING_STYLE, format!("  and {hidden} more")));
        }
        lines
    }

    fn request_lines(&mut self, width: usize, available: usize) -> Vec<String> {
        let Some(chosen) = self.selected() else { return Vec::new() };
        let text = match &self.input_mode {
            InputMode::ConfirmRule(_, _, rule) => rule_lines(rule),
            InputMode::Reasons => reason_lines(chosen),
            InputMode::Keys => key_lines(),
            InputMode::Browse
            | InputMode::DenialMessage(_)
            | InputMode::Pin(..)
            | InputMode::SelectionGone => chosen.request.lines(),
        };
        let wrapped: Vec<ApprovalRequestLine> = text.iter().flat_map(|line| wrap(line, width)).collect();
        let fits = wrapped.len() <= available;
        let available = if fits { available } else { available.saturating_sub(1).max(1) };
        let last = wrapped.len().saturating_sub(available);
        self.scroll_limits = (last, available.saturating_sub(1).max(1));
        let from = self.scroll.min(last);
        let to = (from + available).min(wrapped.len());
        let looked_at = match self.input_mode {
            InputMode::Browse => Some(&mut self.display_progress),
            InputMode::ConfirmRule(..) => Some(&mut self.rule_display_progress),
            InputMode::DenialMessage(_)
            | InputMode::Pin(..)
            | InputMode::Reasons
            | InputMode::Keys
            | InputMode::SelectionGone => None,
        };
        if let Some(seen) = looked_at {
            let to = if seen.last_line >= from { seen.last_line.max(to) } else { seen.last_line };
            *seen = DisplayProgress { last_line: to, line_count: wrapped.len() };
        }
        let mut lines: Vec<String> = wrapped.iter().take(to).skip(from).map(colour_line).collect();
        if !fits {
            let below = wrapped.len() - to;
            let more = format!("lines {}–{to} of {}; {below} more below (space)", from + 1, wrapped.len());
            lines.push(paint(WARNING_STYLE, more));
        }
        lines
    }

    fn footer_lines(&self, width: usize) -> Vec<String> {
        let line = match &self.input_mode {
            InputMode::DenialMessage(text) => {
                format!("message to the model: {}▏  (enter sends, escape cancels)", escape_for_display(text))
            }
            InputMode::Pin(pin, ..) => format!("operator PIN: {}▏", "•".repeat(pin.chars().count())),
            InputMode::ConfirmRule(..) => {
                "y creates this rule and approves; space scrolls; any other key cancels".to_owned()
            }
            InputMode::SelectionGone => SELECTION_GONE_HELP.to_owned(),
            InputMode::Reasons | InputMode::Keys => REASONS_HELP.to_owned(),
            InputMode::Browse if self.approvals.is_empty() => "q quit".to_owned(),
            InputMode::Browse => return self.key_help_lines(width),
        };
        let wrapped = wrap(&ApprovalRequestLine { style: LineStyle::Muted, text: line }, width);
        let lines: Vec<String> = wrapped.iter().map(colour_line).collect();
        self.status_lines(width).into_iter().chain(lines).collect()
    }

    /// Returns the status line and the key help, which wraps only between keys.
    fn key_help_lines(&self, width: usize) -> Vec<String> {
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
        let keys = rows.iter().map(|row| paint(DIM_STYLE, truncate(row, width + 1)));
        self.status_lines(width).into_iter().chain(keys).collect()
    }

    /// Returns the notice about the last key. It has a line of its own, also if it is empty.
    fn status_lines(&self, width: usize) -> Vec<String> {
        let line = ApprovalRequestLine { style: LineStyle::Warning, text: self.status_text.clone() };
        wrap(&line, width).iter().map(colour_line).collect()
    }
}
