//! Shortening of untrusted text for messages. A name in a call or a schema may be megabytes long.

use std::borrow::Cow;

/// Maximum length, in characters, of a word that is quoted or compared. No name defined by Sinew is longer.
pub const MAX_QUOTED_CHARS: usize = 64;

/// Returns the first `most` characters of a text, with `…` if it was longer. Does not escape anything.
pub fn shorten(text: &str, max_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max_chars) {
        None => Cow::Borrowed(text),
        Some(_) => Cow::Owned(text.chars().take(max_chars).chain(['…']).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_longer_text_is_cut_at_a_character_boundary() {
        let check = |text: &str, expect: &str| assert_eq!(shorten(text, 3), expect, "{text}");
        check("", "");
        check("abc", "abc");
        check("abcd", "abc…");
        check("éèê", "éèê");
        check("éèêë", "éèê…");
    }
}
