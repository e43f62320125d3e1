//! Encoding of program output in a result: text if it is text, otherwise base64, always lossless.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Returns the bytes as text or base64, and the encoding, `utf-8` or `base64`.
pub(crate) fn encode(bytes: &[u8]) -> (String, &'static str) {
    match std::str::from_utf8(bytes) {
        // A text with a NUL is treated as binary: some programs would cut it there.
        Ok(text) if !text.contains('\0') => (text.to_owned(), "utf-8"),
        _ => encode_base64(bytes),
    }
}

/// Encodes bytes as base64.
pub(super) fn encode_base64(bytes: &[u8]) -> (String, &'static str) {
    (STANDARD.encode(bytes), "base64")
}

/// Removes an incomplete UTF-8 character from the end.
pub(super) fn trim_partial_char_at_end(bytes: &[u8]) -> &[u8] {
    let cut = (0..4).find(|cut| {
        let prefix = bytes.get(..bytes.len().saturating_sub(*cut)).unwrap_or_default();
        std::str::from_utf8(prefix).is_ok()
    });
    bytes.get(..bytes.len().saturating_sub(cut.unwrap_or(0))).unwrap_or_default()
}

/// Removes the rest of a cut UTF-8 character from the start.
pub(super) fn trim_partial_char_at_start(bytes: &[u8]) -> &[u8] {
    let is_rest = |byte: &u8| byte & 0xc0 == 0x80;
    let rest = bytes.iter().take(3).take_while(|byte| is_rest(byte)).count();
    bytes.get(rest..).unwrap_or_default()
}
