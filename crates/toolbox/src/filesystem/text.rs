//! Bytes as they can stand in a JSON answer: as text where they are text, else as base64. Neither loses anything.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::room;

/// How content is to be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Encoding {
    /// As text, where it is text.
    #[default]
    Auto,
    /// As base64, whatever it is.
    Base64,
}

/// The bytes as text where they are text, whole characters only, and no more than fits the budget once escaped.
pub(super) fn encode(bytes: &[u8], budget: u64, more: bool, wanted: Encoding) -> (String, &'static str, u64) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        // Cut in the middle of a character, and text up to there: the rest comes with the next part.
        Err(error) if more && error.error_len().is_none() => {
            let head = bytes.get(..error.valid_up_to()).and_then(|head| std::str::from_utf8(head).ok());
            // Less than one character was asked for: nothing at all would never lead on.
            head.filter(|head| !head.is_empty())
        }
        Err(_) => None,
    };
    // A NUL is in no text, and no message that brings content to be written may hold one.
    match text.filter(|text| memchr::memchr(0, text.as_bytes()).is_none()) {
        Some(text) if wanted == Encoding::Auto => {
            let head = room::beginning(text, budget);
            (head.to_owned(), "utf-8", head.len() as u64)
        }
        _ => {
            let most = usize::try_from(budget / 4 * 3).unwrap_or(usize::MAX);
            let head = bytes.get(..most.min(bytes.len())).unwrap_or(bytes);
            (STANDARD.encode(head), "base64", head.len() as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_text_is_base64_and_loses_nothing() {
        assert_eq!(encode(b"\xff\xfe", 100, false, Encoding::Auto), ("//4=".to_owned(), "base64", 2));
        assert_eq!(encode("é".as_bytes(), 100, false, Encoding::Auto), ("é".to_owned(), "utf-8", 2));
        assert_eq!(encode(b"a\0b", 100, false, Encoding::Auto), ("YQBi".to_owned(), "base64", 3));
        assert_eq!(encode(b"ab", 100, false, Encoding::Base64), ("YWI=".to_owned(), "base64", 2));
        assert_eq!(
            encode(b"a\xc3", 100, true, Encoding::Auto),
            ("a".to_owned(), "utf-8", 1),
            "half a character waits"
        );
        assert_eq!(encode(b"\xc3", 100, true, Encoding::Auto).2, 1, "an answer always leads on");
        assert_eq!(
            encode(b"a\xc3", 100, false, Encoding::Auto).1,
            "base64",
            "half a character at the end is not text"
        );
    }
}
