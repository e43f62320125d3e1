//! Bytes of a program in an answer: text where they are text, base64 where not, never changed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The bytes and their encoding, `utf-8` or `base64`.
pub(super) fn shown(bytes: &[u8]) -> (String, &'static str) {
    match std::str::from_utf8(bytes) {
        // With a NUL it is no text to those who would show it, and some would cut it there.
        Ok(text) if !text.contains('\0') => (text.to_owned(), "utf-8"),
        _ => encoded(bytes),
    }
}

/// What is no text.
pub(super) fn encoded(bytes: &[u8]) -> (String, &'static str) {
    (STANDARD.encode(bytes), "base64")
}

/// The same bytes without the beginning of a character that was cut in two.
pub(super) fn whole_at_end(bytes: &[u8]) -> &[u8] {
    let cut = (0..4).find(|cut| {
        let kept = bytes.get(..bytes.len().saturating_sub(*cut)).unwrap_or_default();
        std::str::from_utf8(kept).is_ok()
    });
    bytes.get(..bytes.len().saturating_sub(cut.unwrap_or(0))).unwrap_or_default()
}

/// The same bytes without the rest of a character that was cut in two.
pub(super) fn whole_at_start(bytes: &[u8]) -> &[u8] {
    let is_rest = |byte: &u8| byte & 0xc0 == 0x80;
    let rest = bytes.iter().take(3).take_while(|byte| is_rest(byte)).count();
    bytes.get(rest..).unwrap_or_default()
}
