//! Unified diff of a file, as part of an approval request.

use std::time::Duration;

use registry::Change;
use serde::{Deserialize, Serialize};
use similar::{ChangeTag, TextDiff};
use tool::canonical;

use super::Tone;
use crate::approvals::shown::shown;

/// Unchanged lines shown around a change.
const AROUND: usize = 3;
/// Time limit of the search for the smallest diff. The diff found by then is correct, only longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Diff of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownChange {
    /// Canonical path.
    pub path: String,
    /// Summary of the change, such as `is deleted (12 bytes)`.
    pub what: String,
    /// Changed lines with some context.
    pub lines: Vec<(Side, String)>,
}

/// Kind of a line in a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Hunk header: the position in the file.
    Place,
    /// Unchanged line.
    Both,
    /// Removed line.
    Old,
    /// Added line.
    New,
    /// Note on the line before.
    Note,
}

impl ShownChange {
    /// Builds the diff. Returns `None` if the path or the new content is not UTF-8. Old content that is not
    /// UTF-8 is shown by its size and digest.
    pub(crate) fn of(change: &Change) -> Option<ShownChange> {
        let path = change.path.to_str()?.to_owned();
        let (size, digest) = match &change.before {
            Some(before) => (before.len(), canonical::sha256_hex(before)),
            None => (0, String::new()),
        };
        let new = change.after.as_deref().map(std::str::from_utf8).transpose().ok()?;
        let old = change.before.as_deref().map(std::str::from_utf8).transpose();
        let what = match (&change.before, new) {
            (None, None) => "stays absent".to_owned(),
            (None, Some(new)) => format!("is created with {} bytes", new.len()),
            (Some(_), None) => format!("is deleted ({size} bytes)"),
            (Some(before), Some(new)) if before == new.as_bytes() => format!("is unchanged ({size} bytes)"),
            (Some(_), Some(new)) => format!("is changed, from {size} bytes to {}", new.len()),
        };
        let Ok(old) = old else {
            let mut lines = vec![(Side::Note, format!("the current content is not text: sha256 {digest}"))];
            lines.extend(difference("", new.unwrap_or_default()));
            return Some(ShownChange { path, what, lines });
        };
        let lines = difference(old.unwrap_or_default(), new.unwrap_or_default());
        Some(ShownChange { path, what, lines })
    }

    /// Renders the diff as lines of an approval request.
    pub(super) fn put(&self, put: &mut impl FnMut(Tone, String)) {
        put(Tone::Plain, format!("file      {} {}", shown(&self.path), shown(&self.what)));
        for (side, text) in &self.lines {
            let (tone, sign) = match side {
                Side::Place => (Tone::Quiet, ""),
                Side::Both => (Tone::Plain, " "),
                Side::Old => (Tone::Removed, "-"),
                Side::New => (Tone::Added, "+"),
                Side::Note => (Tone::Quiet, "\\ "),
            };
            put(tone, format!("  {sign}{}", shown(text)));
        }
    }

    pub(super) fn each_text(&mut self, change: &mut impl FnMut(&mut String)) {
        self.lines.iter_mut().for_each(|(_, text)| change(text));
    }
}

fn difference(old: &str, new: &str) -> Vec<(Side, String)> {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(old, new);
    let mut lines = Vec::new();
    for group in diff.grouped_ops(AROUND) {
        if let (Some(first), Some(last)) = (group.first(), group.last()) {
            let (from, to) = (first.old_range().start + 1, first.new_range().start + 1);
            let (gone, come) = (last.old_range().end + 1 - from, last.new_range().end + 1 - to);
            lines.push((Side::Place, format!("@@ -{from},{gone} +{to},{come} @@")));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let side = match change.tag() {
                ChangeTag::Equal => Side::Both,
                ChangeTag::Delete => Side::Old,
                ChangeTag::Insert => Side::New,
            };
            let text = change.value();
            match text.strip_suffix('\n') {
                Some(line) => lines.push((side, line.to_owned())),
                None => {
                    lines.push((side, text.to_owned()));
                    lines.push((Side::Note, "no newline at end of file".to_owned()));
                }
            }
        }
    }
    lines
}
