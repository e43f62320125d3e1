//! The nearest known word to a misspelt one, for every "did you mean" of the project.

use crate::LONGEST_WORD;

/// The one known word closest to `wanted`, if it is close enough to be a slip of the keyboard.
///
/// Two words equally close are no answer: a suggestion that may be wrong is worse than none. A word longer than
/// [`LONGEST_WORD`] is near nothing, so that what a caller sends cannot make the comparison dear.
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if wanted.chars().nth(LONGEST_WORD).is_some() {
        return None;
    }
    let wanted = fold(wanted);
    let limit = (wanted.chars().count() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    let mut tied = false;
    // A byte more than the longest that could be near, in characters of four bytes.
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

/// Whether a word is another with one slip of the keyboard: a letter too many, too few, or wrong, or two exchanged. Digits
/// do not slip: `sha512` is not `sha256`.
pub fn is_slip_of(word: &str, meant: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    digits(word) == digits(meant) && strsim::osa_distance(&fold(word), &fold(meant)) <= 1
}

/// Case and the choice of separator are the commonest slips; they cost nothing here.
fn fold(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_slips_and_refuses_to_guess() {
        let known = ["read_file", "write_file", "list_directory"];
        let check = |wanted, expect| assert_eq!(nearest(wanted, known), expect, "{wanted}");
        check("raed_file", Some("read_file"));
        check("ReadFile", Some("read_file"));
        check("list_dir", None);
        check("delete_everything", None);
        assert_eq!(nearest("ab", ["ac", "ad"]), None, "a tie is no answer");
    }

    #[test]
    fn a_long_word_is_near_nothing() {
        let longest = "a".repeat(LONGEST_WORD);
        assert_eq!(nearest(&longest, [longest.as_str()]), Some(longest.as_str()));
        let longer = "é".repeat(LONGEST_WORD + 1);
        assert_eq!(nearest(&longer, [longer.as_str()]), None);
    }
}
