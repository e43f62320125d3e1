//! Formatting of a record as one line of JSON that cannot mislead a terminal or a line reader.
//!
//! In addition to what JSON requires, every control and direction character is escaped: DEL, C1, the line and
//! paragraph separators, the bidirectional overrides and the byte order mark.

use serde::Serialize;
use tool::json_text::{self, Texts};

use super::record::Record;

/// Formats a record and its newline, to be written at once.
pub(super) fn line(record: &Record) -> Vec<u8> {
    let mut line = compact(record);
    line.push(b'\n');
    line
}

/// Formats a value on one line that is safe to display.
pub(super) fn compact(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    // This cannot fail: it writes to memory, and all keys are strings.
    let _ = json_text::append(&mut out, value, Texts::Visible(is_unsafe));
    out
}

/// Returns true for characters that a terminal or a line reader may interpret.
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
