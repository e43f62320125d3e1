//! Property of the line format, for the fuzz target `ledger_lines`.

use jiff::Timestamp;
use serde_json::json;

use crate::hash::SealHash;
use crate::key::LedgerKey;
use crate::line::{EntryBody, parse_line, parse_seq};
use crate::record::{CallRecordSummary, LedgerRecord, parse_time};

/// Asserts that the two parsers of a line agree, and that an entry with this text becomes one line whose seal
/// fails once a byte changes.
pub fn fuzz_ledger_lines(data: &[u8]) {
    let _ = (LedgerRecord::parse(data), CallRecordSummary::parse(data), parse_time(data));
    if let Some(parsed) = parse_line(data) {
        assert_eq!(parse_seq(data), Some(parsed.seq));
    }
    let Some(key) = LedgerKey::derive(&[1; 32]) else { return };
    let entry = json!({"kind": "note", "text": String::from_utf8_lossy(data)});
    let Ok(body) = EntryBody::from_json(&entry, &key) else { return };
    let line = body.into_sealed_line(&key, 7, Timestamp::UNIX_EPOCH, &SealHash::NONE).bytes;
    let Some(written) = line.strip_suffix(b"\n") else { return assert!(line.ends_with(b"\n")) };
    assert!(!written.iter().any(u8::is_ascii_control), "one visible line");
    assert!(parse_line(written).is_some_and(|parsed| parsed.seq == 7 && parsed.is_authentic(&key)));
    let mut changed = written.to_vec();
    let at =
        data.iter().fold(0, |sum: usize, byte| sum.wrapping_mul(31) + usize::from(*byte)) % changed.len();
    if let Some(byte) = changed.get_mut(at) {
        *byte ^= 1;
    }
    assert!(parse_line(&changed).is_none_or(|parsed| !parsed.is_authentic(&key)), "byte {at} of {data:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_becomes_one_line_that_cannot_be_changed() {
        for data in [&b"plain"[..], b"\",\"hash\":\"", b"a\nb\0\x1b[2J", b"\xff\xfe", "\u{202e}".as_bytes()] {
            fuzz_ledger_lines(data);
        }
    }
}
