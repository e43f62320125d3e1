//! Text of others, short enough to repeat. A caller's word may be megabytes long, and so may a schema's.

use std::borrow::Cow;

/// The longest word worth repeating or comparing, in characters. No name of ours is longer.
pub const LONGEST_WORD: usize = 64;

/// The first `most` characters of a text, and `…` where there were more. What is left is not escaped.
pub fn shorten(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some(_) => Cow::Owned(text.chars().take(most).chain(['…']).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_too_long_is_cut_and_never_inside_a_character() {
        let check = |text: &str, expect: &str| assert_eq!(shorten(text, 3), expect, "{text}");
        check("", "");
        check("abc", "abc");
        check("abcd", "abc…");
        check("éèê", "éèê");
        check("éèêë", "éèê…");
    }
}
