//! A file before and after, as a unified diff.

use std::time::Duration;

use registry::Change;
use serde::{Deserialize, Serialize};
use similar::{ChangeTag, TextDiff};
use tool::canonical;

use super::Tone;
use crate::approvals::shown::shown;

/// Lines around a change that stays.
const AROUND: usize = 3;
/// A longer search for the smallest difference keeps a person waiting; what is found by then is right, only longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// A file whose content would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownChange {
    /// Its canonical name.
    pub path: String,
    /// What happens to it, in words.
    pub what: String,
    /// The lines that differ, and some around them.
    pub lines: Vec<(Side, String)>,
}

/// Which side of a change a line is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Where in the file.
    Place,
    /// It stays.
    Both,
    /// It goes.
    Old,
    /// It comes.
    New,
    /// A word about the line before.
    Note,
}

impl ShownChange {
    /// The change as text, if it is one. What would be written must be; what is lost may be anything, and is counted.
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
            (Some(before), Some(new)) if before == new.as_bytes() => format!("keeps its {size} bytes"),
            (Some(_), Some(new)) => format!("is changed, from {size} bytes to {}", new.len()),
        };
        let Ok(old) = old else {
            let mut lines = vec![(Side::Note, format!("what is there is no text: sha256 {digest}"))];
            lines.extend(difference("", new.unwrap_or_default()));
            return Some(ShownChange { path, what, lines });
        };
        let lines = difference(old.unwrap_or_default(), new.unwrap_or_default());
        Some(ShownChange { path, what, lines })
    }

    /// Puts it on a card.
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
                    lines.push((Side::Note, "no newline after this".to_owned()));
                }
            }
        }
    }
    lines
}
