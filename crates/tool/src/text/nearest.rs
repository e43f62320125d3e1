//! Nearest known word to a misspelt one, for every "did you mean" suggestion.

use crate::text::MAX_QUOTED_CHARS;

/// Returns the known word closest to `wanted`, if it is close enough to be a typing error.
///
/// Returns none if two words are equally close: a wrong suggestion is worse than none. A word longer than
/// `MAX_QUOTED_CHARS` has no match, so that a caller cannot make the comparison expensive.
pub fn nearest_word<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if wanted.chars().nth(MAX_QUOTED_CHARS).is_some() {
        return None;
    }
    let wanted = normalize(wanted);
    let limit = (wanted.chars().count() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    let mut tied = false;
    // No longer word can be within the largest distance, even if all its characters take four bytes.
    for word in known.into_iter().filter(|word| word.len() <= 4 * (MAX_QUOTED_CHARS + 3)) {
        let distance = strsim::osa_distance(&wanted, &normalize(word));
        if distance > limit {
            continue;
        }
        match best {
            Some((least, _)) if distance > least => {}
            Some((least, _)) if distance == least => tied = true,
            _ => (best, tied) = (Some((distance, word)), false),
        }
    }
    best.filter(|_| !tied).map(|(_, word)| word)
}

/// Returns true if `word` is `known_word` with one typing error: a letter too many, missing, wrong, or two
/// swapped. Digits must be equal: `sha512` is not a misspelling of `sha256`.
pub fn is_typo_of(word: &str, known_word: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    digits(word) == digits(known_word) && strsim::osa_distance(&normalize(word), &normalize(known_word)) <= 1
}

/// Removes case and separators: differences in them are the most common errors and count as no distance.
fn normalize(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_match_and_ties_do_not() {
        let known = ["read_file", "write_file", "list_directory"];
        let check = |wanted, expect| assert_eq!(nearest_word(wanted, known), expect, "{wanted}");
        check("raed_file", Some("read_file"));
        check("ReadFile", Some("read_file"));
        check("list_dir", None);
        check("delete_everything", None);
        assert_eq!(nearest_word("ab", ["ac", "ad"]), None, "a tie gives no suggestion");
    }

    #[test]
    fn overlong_word_matches_nothing() {
        let longest = "a".repeat(MAX_QUOTED_CHARS);
        assert_eq!(nearest_word(&longest, [longest.as_str()]), Some(longest.as_str()));
        let longer = "é".repeat(MAX_QUOTED_CHARS + 1);
        assert_eq!(nearest_word(&longer, [longer.as_str()]), None);
    }
}
