//! Unified diff of a file, as part of an approval request.

use std::time::Duration;

use registry::FileChange;
use serde::{Deserialize, Serialize};
use similar::{ChangeTag, TextDiff};
use tool::canonical;

use super::LineStyle;
use crate::display_escape::escape_for_display;

/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;
/// Time limit of the search for the smallest diff. The diff found by then is correct, only longer.
const DIFF_TIMEOUT: Duration = Duration::from_secs(1);

/// Diff of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    /// Canonical path.
    pub path: String,
    /// Summary of the change, such as `is deleted (12 bytes)`.
    pub what: String,
    /// Changed lines with some context.
    pub lines: Vec<(DiffLineKind, String)>,
}

/// Kind of a line in a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffLineKind {
    /// Hunk header: the position in the file.
    #[serde(alias = "place")]
    Hunk,
    /// Unchanged line.
    Both,
    /// Removed line.
    Old,
    /// Added line.
    New,
    /// Note on the line before.
    Note,
}

impl FileDiff {
    /// Builds the diff. Returns `None` if the path or the new content is not UTF-8. Old content that is not
    /// UTF-8 is shown by its size and digest.
    pub(crate) fn from_change(change: &FileChange) -> Option<FileDiff> {
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
            let mut lines =
                vec![(DiffLineKind::Note, format!("the current content is not text: sha256 {digest}"))];
            lines.extend(diff_lines("", new.unwrap_or_default()));
            return Some(FileDiff { path, what, lines });
        };
        let lines = diff_lines(old.unwrap_or_default(), new.unwrap_or_default());
        Some(FileDiff { path, what, lines })
    }

    /// Renders the diff as lines of an approval request.
    pub(super) fn push_lines(&self, put: &mut impl FnMut(LineStyle, String)) {
        put(
            LineStyle::Plain,
            format!("file      {} {}", escape_for_display(&self.path), escape_for_display(&self.what)),
        );
        for (side, text) in &self.lines {
            let (style, sign) = match side {
                DiffLineKind::Hunk => (LineStyle::Muted, ""),
                DiffLineKind::Both => (LineStyle::Plain, " "),
                DiffLineKind::Old => (LineStyle::Removed, "-"),
                DiffLineKind::New => (LineStyle::Added, "+"),
                DiffLineKind::Note => (LineStyle::Muted, "\\ "),
            };
            put(style, format!("  {sign}{}", escape_for_display(text)));
        }
    }

    pub(super) fn for_each_text(&mut self, change: &mut impl FnMut(&mut String)) {
        self.lines.iter_mut().for_each(|(_, text)| change(text));
    }
}

fn diff_lines(old: &str, new: &str) -> Vec<(DiffLineKind, String)> {
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(old, new);
    let mut lines = Vec::new();
    for group in diff.grouped_ops(CONTEXT_LINES) {
        if let (Some(first), Some(last)) = (group.first(), group.last()) {
            let (from, to) = (first.old_range().start + 1, first.new_range().start + 1);
            let (gone, come) = (last.old_range().end + 1 - from, last.new_range().end + 1 - to);
            lines.push((DiffLineKind::Hunk, format!("@@ -{from},{gone} +{to},{come} @@")));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let side = match change.tag() {
                ChangeTag::Equal => DiffLineKind::Both,
                ChangeTag::Delete => DiffLineKind::Old,
                ChangeTag::Insert => DiffLineKind::New,
            };
            let text = change.value();
            match text.strip_suffix('\n') {
                Some(line) => lines.push((side, line.to_owned())),
                None => {
                    lines.push((side, text.to_owned()));
                    lines.push((DiffLineKind::Note, "no newline at end of file".to_owned()));
                }
            }
        }
    }
    lines
}
