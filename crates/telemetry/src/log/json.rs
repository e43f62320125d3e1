//! A record as one line of JSON that no terminal and no line reader can be misled by.
//!
//! Beside what JSON requires, every control and direction character is escaped: DEL, C1, the line and paragraph
//! separators, the bidirectional overrides and the byte order mark.

use serde::Serialize;
use tool::json_text::{self, Texts};

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
    let _ = json_text::append(&mut out, value, Texts::Visible(is_unsafe));
    out
}

/// What a terminal or a line reader could take for more than text.
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
