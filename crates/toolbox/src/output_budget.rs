//! Output budget: cuts texts and lists to what fits into a result, measured by their size as JSON.

use governance::Permit;
use serde::Serialize;
use tool::result::{Truncation, TruncationUnit};

/// Bytes reserved for the longest escaped path and the other fields beside the content.
const METADATA_RESERVE: u64 = 32 * 1024;

/// Largest size of one byte of text as JSON: `\u0001`.
const MAX_ESCAPE_BYTES: u64 = 6;

/// Returns the bytes available for the content of a result: the policy's bound minus the reserve for other
/// fields.
pub(crate) fn content_budget(permit: &Permit) -> u64 {
    permit.max_output_bytes().saturating_sub(METADATA_RESERVE).max(METADATA_RESERVE)
}

/// Returns the longest prefix of a text that takes at most `budget` bytes as a JSON string.
pub(crate) fn longest_prefix(text: &str, budget: u64) -> &str {
    if (text.len() as u64).saturating_mul(MAX_ESCAPE_BYTES) <= budget {
        return text;
    }
    let mut remaining = budget;
    for (at, c) in text.char_indices() {
        let cost = match c {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            c if c.is_ascii_control() => MAX_ESCAPE_BYTES,
            c => c.len_utf8() as u64,
        };
        if cost > remaining {
            return text.get(..at).unwrap_or_default();
        }
        remaining -= cost;
    }
    text
}

/// Returns the first items that together take at most `budget` bytes as JSON.
pub(crate) fn take_fitting<T: Serialize>(items: Vec<T>, budget: u64) -> Vec<T> {
    let mut remaining = budget;
    let mut fits = |item: &T| {
        let cost = serde_json::to_string(item).map_or(u64::MAX, |text| text.len() as u64 + 1);
        remaining.checked_sub(cost).map(|rest| remaining = rest).is_some()
    };
    items.into_iter().take_while(|item| fits(item)).collect()
}

/// Returns the first `max` items that fit into a result, and the number of all items.
pub(crate) fn listed<T: Serialize>(permit: &Permit, items: Vec<T>, max: usize) -> (Vec<T>, u64) {
    let total = items.len() as u64;
    (take_fitting(items.into_iter().take(max).collect(), content_budget(permit)), total)
}

/// Describes the truncation of a list, if items were left out, or if the source was truncated (`is_cut`).
pub(crate) fn truncation(returned: usize, total: u64, is_cut: bool, how: &str) -> Option<Truncation> {
    let returned = returned as u64;
    (returned < total || is_cut).then(|| Truncation {
        unit: TruncationUnit::Entries,
        total,
        returned,
        how_to_continue: how.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_lists_are_cut_by_their_json_size() {
        let check =
            |text: &str, budget, expect: &str| assert_eq!(longest_prefix(text, budget), expect, "{text:?}");
        check("abc", 3, "abc");
        check("abc", 2, "ab");
        check("", 0, "");
        check("aéb", 2, "a");
        check("a\nb", 3, "a\n");
        check("\u{1}\u{1}", 11, "\u{1}");
        assert_eq!(take_fitting(vec!["ab", "cd", "ef"], 10), ["ab", "cd"]);
        assert_eq!(take_fitting(vec!["ab"], 4), Vec::<&str>::new());
    }
}
