//! Nearest known word to a misspelt one, for every "did you mean" suggestion.

use crate::LONGEST_WORD;

/// Returns the known word closest to `wanted`, if it is close enough to be a typing error.
///
/// Returns none if two words are equally close: a wrong suggestion is worse than none. A word longer than
/// `MAX_QUOTED_CHARS` has no match, so that a caller cannot make the comparison expensive.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if wanted.chars().nth(LONGEST_WORD).is_some() {
        return None;
    }
    let wanted = fold(wanted);
    let limit = (wanted.chars().count() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    let mut tied = false;
    // No longer word can be within the largest distance, even if all its characters take four bytes.
    for word in known.into_iter().filter(|word| word.len() <= 4 * (LONGEST_WORD + 3)) {
        let distance = strsim::osa_distance(&wanted, &fold(word));
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

/// Returns true if `word` is `meant` with one typing error: a letter too many, missing, wrong, or two
/// swapped. Digits must be equal: `sha512` is not a misspelling of `sha256`.
pub fn is_slip_of(word: &str, meant: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    digits(word) == digits(meant) && strsim::osa_distance(&fold(word), &fold(meant)) <= 1
}

/// Removes case and separators: differences in them are the most common errors and count as no distance.
fn fold(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_match_and_ties_do_not() {
        let known = ["read_file", "write_file", "list_directory"];
        let check = |wanted, expect| assert_eq!(nearest(wanted, known), expect, "{wanted}");
        check("raed_file", Some("read_file"));
        check("ReadFile", Some("read_file"));
        check("list_dir", None);
        check("delete_everything", None);
        assert_eq!(nearest("ab", ["ac", "ad"]), None, "a tie gives no suggestion");
    }

    #[test]
    fn overlong_word_matches_nothing() {
        let longest = "a".repeat(LONGEST_WORD);
        assert_eq!(nearest(&longest, [longest.as_str()]), Some(longest.as_str()));
        let longer = "é".repeat(LONGEST_WORD + 1);
        assert_eq!(nearest(&longer, [longer.as_str()]), None);
    }
}
