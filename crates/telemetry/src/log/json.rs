//! Formatting of a record as one line of JSON that cannot mislead a terminal or a line reader.

use serde::Serialize;
use tool::escaped_json;

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
    let _ = escaped_json::append(&mut out, value);
    out
}
