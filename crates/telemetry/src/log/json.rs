//! A record as one line of JSON that no terminal and no line reader can be misled by.
//!
//! Beside what JSON requires, every control and direction character is escaped: DEL, C1, the line and paragraph
//! separators, the bidirectional overrides and the byte order mark.

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

use super::record::Record;

/// The record and its newline, ready to be written at once.
pub(super) fn line(record: &Record) -> Vec<u8> {
    let mut line = compact(record);
    line.push(b'\n');
    line
}

/// The value on one line, safe to show.
pub(super) fn compact(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    // Writing to memory, and all keys are strings: nothing here can fail.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut out, Escaping));
    out
}

struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        if text.is_ascii() && !text.as_bytes().contains(&0x7f) {
            return CompactFormatter.write_string_fragment(writer, text);
        }
        let mut plain = 0;
        for (at, c) in text.char_indices().filter(|(_, c)| is_unsafe(*c)) {
            writer.write_all(text.get(plain..at).unwrap_or_default().as_bytes())?;
            write!(writer, "\\u{:04x}", u32::from(c))?;
            plain = at + c.len_utf8();
        }
        writer.write_all(text.get(plain..).unwrap_or_default().as_bytes())
    }
}

/// All of them are in the basic plane, so one `\u` escape names them.
fn is_unsafe(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
    )
}
