//! Paths as text. A name on disk is a sequence of bytes, and JSON carries only valid Unicode. Each byte that is not part
//! of valid UTF-8 becomes one private-use character, so that every name can be listed, sent back and opened.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// First character of the escapes: the byte `b` is written as `FIRST + (b - 0x80)`.
const FIRST: u32 = 0x10_FF80;
const LAST: u32 = 0x10_FFFF;

/// Converts a path to text that `parse_path` converts back.
pub fn path_to_text(path: &OsStr) -> Cow<'_, str> {
    match path.to_str() {
        Some(text) if !text.contains(is_escape) => Cow::Borrowed(text),
        _ => {
            let mut text = String::with_capacity(path.len());
            for chunk in path.as_bytes().utf8_chunks() {
                for valid in chunk.valid().chars() {
                    match is_escape(valid) {
                        // A name that has such a character itself is written by its bytes.
                        true => {
                            valid.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push(escape(byte)))
                        }
                        false => text.push(valid),
                    }
                }
                chunk.invalid().iter().for_each(|byte| text.push(escape(*byte)));
            }
            Cow::Owned(text)
        }
    }
}

/// Converts text from a caller to a path.
pub fn parse_path(text: &str) -> Cow<'_, OsStr> {
    if !text.contains(is_escape) {
        return Cow::Borrowed(OsStr::new(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match unescape(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
    Cow::Owned(OsString::from_vec(bytes))
}

fn is_escape(c: char) -> bool {
    (FIRST..=LAST).contains(&u32::from(c))
}

/// Only bytes from 0x80 on are escaped, so no escape represents `/`, `.` or NUL.
fn escape(byte: u8) -> char {
    let offset = u32::from(byte.saturating_sub(0x80));
    char::from_u32(FIRST + offset).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn unescape(c: char) -> Option<u8> {
    let offset = u32::from(c).checked_sub(FIRST)?;
    u8::try_from(offset).ok()?.checked_add(0x80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_survives_the_round_trip() {
        let all: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
        for name in
            [&b"plain.txt"[..], "gr\u{fc}n".as_bytes(), b"bad\xff.txt", b"\x80", b"\xed\xa0\x80", &all]
        {
            let name = OsStr::from_bytes(name);
            assert_eq!(parse_path(&path_to_text(name)), name, "{name:?}");
        }
        let own = OsString::from("\u{10ff80} \u{10ffff}");
        let text = path_to_text(&own);
        assert_ne!(text, "\u{10ff80} \u{10ffff}");
        assert_eq!(parse_path(&text), own, "a name with the escape characters themselves");
        assert_eq!(path_to_text(OsStr::new("plain")), "plain");
    }

    #[test]
    fn no_text_yields_another_separator_or_an_end() {
        for code in FIRST..=LAST {
            let Some(c) = char::from_u32(code) else { continue };
            let text = c.to_string();
            let path = parse_path(&text);
            assert!(path.len() == 1 && path.as_bytes()[0] >= 0x80, "{code:x}: {path:?}");
        }
    }
}
