//! Encoding of file bytes in a JSON result: as text if they are text, otherwise as base64. Both are lossless.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::output_budget;

/// Requested encoding of the content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ContentEncoding {
    /// Text if it is text, otherwise base64.
    #[default]
    Auto,
    /// Always base64.
    Base64,
}

/// Encodes bytes as text if they are text, in whole characters, or as base64, up to the budget after
/// escaping.
pub(super) fn encode_content(
    bytes: &[u8],
    budget: u64,
    more: bool,
    wanted: ContentEncoding,
) -> (String, &'static str, u64) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        // The text is cut inside a character: the incomplete character comes with the next part.
        Err(error) if more && error.error_len().is_none() => {
            let head = bytes.get(..error.valid_up_to()).and_then(|head| std::str::from_utf8(head).ok());
            // Less than one character was requested: an empty result would never make progress.
            head.filter(|head| !head.is_empty())
        }
        Err(_) => None,
    };
    // Text has no NUL, and a message with content to write may not contain one.
    match text.filter(|text| memchr::memchr(0, text.as_bytes()).is_none()) {
        Some(text) if wanted == ContentEncoding::Auto => {
            let head = output_budget::longest_prefix(text, budget);
            (head.to_owned(), "utf-8", head.len() as u64)
        }
        _ => {
            let max = usize::try_from(budget / 4 * 3).unwrap_or(usize::MAX);
            let head = bytes.get(..max.min(bytes.len())).unwrap_or(bytes);
            (STANDARD.encode(head), "base64", head.len() as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_content_is_lossless_base64() {
        assert_eq!(
            encode_content(b"\xff\xfe", 100, false, ContentEncoding::Auto),
            ("//4=".to_owned(), "base64", 2)
        );
        assert_eq!(
            encode_content("é".as_bytes(), 100, false, ContentEncoding::Auto),
            ("é".to_owned(), "utf-8", 2)
        );
        assert_eq!(
            encode_content(b"a\0b", 100, false, ContentEncoding::Auto),
            ("YQBi".to_owned(), "base64", 3)
        );
        assert_eq!(
            encode_content(b"ab", 100, false, ContentEncoding::Base64),
            ("YWI=".to_owned(), "base64", 2)
        );
        assert_eq!(
            encode_content(b"a\xc3", 100, true, ContentEncoding::Auto),
            ("a".to_owned(), "utf-8", 1),
            "an incomplete character is left for the next part"
        );
        assert_eq!(
            encode_content(b"\xc3", 100, true, ContentEncoding::Auto).2,
            1,
            "a result always makes progress"
        );
        assert_eq!(
            encode_content(b"a\xc3", 100, false, ContentEncoding::Auto).1,
            "base64",
            "an incomplete character at the end is not text"
        );
    }
}
