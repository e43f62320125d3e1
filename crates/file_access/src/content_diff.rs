//! Unified diff of a change to one file, for dry runs and approval requests.
//!
//! Does not read files: the caller passes both contents.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

/// Number of unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// Time limit for finding the smallest diff. Two large unrelated texts would otherwise block a thread for
/// long; after the limit the diff is correct but not minimal.
const MINIMIZE_TIMEOUT: Duration = Duration::from_millis(250);

/// Number of leading bytes that are checked for NUL, which marks content as binary.
const BINARY_SNIFF_BYTES: usize = 8 * 1024;

/// Diff between two contents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentDiff {
    /// Unified diff; one sentence if the content is not text; empty if nothing changes.
    pub text: String,
    /// Number of added lines.
    pub added: u64,
    /// Number of removed lines.
    pub removed: u64,
    /// True if hunks were left out because the text reached its size limit.
    pub truncated: bool,
}

/// Compares two contents of one file; `None` means that the file does not exist. The text has at most
/// `max_bytes` bytes and ends with a whole hunk.
pub fn content_diff(
    name: &str,
    before: Option<&[u8]>,
    after: Option<&[u8]>,
    max_bytes: usize,
) -> ContentDiff {
    let (old, new) = (before.unwrap_or_default(), after.unwrap_or_default());
    let (Some(old_text), Some(new_text)) = (as_text(old), as_text(new)) else {
        let sizes = format!("{} bytes before, {} bytes after", old.len(), new.len());
        let text = if old == new { String::new() } else { format!("{name} is not text: {sizes}\n") };
        return ContentDiff { text, added: 0, removed: 0, truncated: false };
    };
    let compared = TextDiff::configure().timeout(MINIMIZE_TIMEOUT).diff_lines(old_text, new_text);
    let count = |tag| compared.iter_all_changes().filter(|change| change.tag() == tag).count() as u64;
    let (added, removed) = (count(ChangeTag::Insert), count(ChangeTag::Delete));
    let shown = |there: Option<&[u8]>| if there.is_some() { name } else { "/dev/null" };
    let mut text = String::new();
    let mut truncated = false;
    for hunk in compared.unified_diff().context_radius(CONTEXT_LINES).iter_hunks() {
        if text.is_empty() {
            text = format!("--- {}\n+++ {}\n", shown(before), shown(after));
        }
        let hunk = hunk.to_string();
        if text.len() + hunk.len() > max_bytes {
            truncated = true;
            break;
        }
        text.push_str(&hunk);
    }
    ContentDiff { text, added, removed, truncated }
}

fn as_text(content: &[u8]) -> Option<&str> {
    let is_binary = content.iter().take(BINARY_SNIFF_BYTES).any(|byte| *byte == 0);
    std::str::from_utf8(content).ok().filter(|_| !is_binary)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: Option<&str>, after: Option<&str>, expect: &str) {
        let found = content_diff("f", before.map(str::as_bytes), after.map(str::as_bytes), 1000);
        assert_eq!(found.text, expect, "{before:?} {after:?}");
        assert!(!found.truncated);
    }

    #[test]
    fn diff_is_in_unified_format() {
        check(Some("a\nb\n"), Some("a\nc\n"), "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
        check(None, Some("a\n"), "--- /dev/null\n+++ f\n@@ -0,0 +1 @@\n+a\n");
        check(Some("a\n"), None, "--- f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n");
        check(Some("a"), Some("a\n"), "--- f\n+++ f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
        check(Some("a\n"), Some("a\n"), "");
        check(None, None, "");
    }

    #[test]
    fn binary_content_is_reported_by_size() {
        for content in [&b"\xff\xfe"[..], b"a\0"] {
            let found = content_diff("f", Some(content), Some(b"text"), 1000);
            assert_eq!(found.text, "f is not text: 2 bytes before, 4 bytes after\n");
        }
        assert_eq!(content_diff("f", Some(b"\xff"), Some(b"\xff"), 1000).text, "");
    }

    #[test]
    fn long_diff_ends_with_a_whole_hunk_and_is_marked() {
        let old: String = (0..100).map(|line| format!("{line}\n")).collect();
        let new = old.replace("10\n", "x\n").replace("90\n", "y\n");
        let found = content_diff("f", Some(old.as_bytes()), Some(new.as_bytes()), 80);
        assert_eq!((found.added, found.removed, found.truncated), (2, 2, true));
        assert!(
            found.text.len() <= 80 && found.text.contains("+x") && !found.text.contains("+y"),
            "{}",
            found.text
        );
        let whole = content_diff("f", Some(old.as_bytes()), Some(new.as_bytes()), 8000);
        assert!(!whole.truncated && whole.text.contains("+y"));
    }

    #[test]
    fn unrelated_large_texts_are_compared_in_bounded_time() {
        let text = |seed: usize| (0..40_000).map(|line| format!("{}\n", line * 2 + seed)).collect::<String>();
        let began = std::time::Instant::now();
        let found = content_diff("f", Some(text(0).as_bytes()), Some(text(1).as_bytes()), 1000);
        assert_eq!((found.added, found.removed, found.truncated), (40_000, 40_000, true));
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    }
}
