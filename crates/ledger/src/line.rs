//! Format of one line: serialising an entry and parsing a line. Pure.
//!
//! A line is `{"seq":N,"time":"…","kind":"…", …,"prev":"<64 hex>","hash":"<64 hex>"}` and a newline. `hash`
//! is the keyed seal over every byte before `,"hash"`; `prev` is the hash of the previous line. A line is
//! parsed by position and not as JSON, so that no two byte strings count as the same line.

use std::io::Write;

use jiff::Timestamp;
use serde::Serialize;
use tool::escaped_json;

use crate::{LedgerError, entry::LedgerEntry, hash::SealHash, key::LedgerKey, shrink};

const HASH: &[u8] = br#","hash":""#;
const PREV: &[u8] = br#","prev":""#;
const CLOSE: &[u8] = br#""}"#;
const SEQ: &[u8] = br#"{"seq":"#;
const TIME: &[u8] = br#","time":""#;
const KIND: &[u8] = br#"","kind":""#;
/// Initial capacity for an entry, enough for most. Growing to it would copy an entry of a call five times.
const TYPICAL_ENTRY_BYTES: usize = 2048;
/// Bytes that a line has besides its entry, at most: number, time, previous hash and seal.
const FRAME_BYTES: usize = 256;

/// Serialised entry `{"kind":"…",…}`.
#[derive(Debug)]
pub(crate) struct EntryBody(Vec<u8>);

impl EntryBody {
    /// Serialises an entry; one that is too long is shortened and marked with its original length and digest.
    pub(crate) fn new(entry: &LedgerEntry, key: &LedgerKey) -> Result<EntryBody, LedgerError> {
        let mut body = EntryBody::unshortened(entry)?;
        let facts = entry.decision().map_or("", |decision| &decision.facts_json);
        if !facts.is_empty() {
            body.0.pop();
            body.0.extend([br#","facts":"#, facts.as_bytes(), b"}"].concat());
        }
        body.shortened(key)
    }

    /// Like `new`, for any JSON object that begins with its kind.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn from_json(entry: &serde_json::Value, key: &LedgerKey) -> Result<EntryBody, LedgerError> {
        EntryBody::unshortened(entry)?.shortened(key)
    }

    fn shortened(self, key: &LedgerKey) -> Result<EntryBody, LedgerError> {
        if self.len() <= shrink::MAX_ENTRY_BYTES {
            return Ok(self);
        }
        EntryBody::unshortened(&shrink::shrink(&self.0, key)?)
    }

    /// Serialises an entry of the ledger itself, regardless of its length.
    pub(crate) fn unshortened(entry: &impl Serialize) -> Result<EntryBody, LedgerError> {
        let mut body = EntryBody(Vec::with_capacity(TYPICAL_ENTRY_BYTES));
        escaped_json::append(&mut body.0, entry).map_err(|error| LedgerError::Encode(error.to_string()))?;
        if !body.members().starts_with(br#""kind":""#) {
            return Err(LedgerError::Encode("an entry begins with its kind".into()));
        }
        Ok(body)
    }

    /// Returns the number of bytes that the entry takes in a line.
    pub(crate) fn len(&self) -> usize {
        self.members().len()
    }

    /// Returns everything between the braces, or nothing if there are none.
    fn members(&self) -> &[u8] {
        self.0.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}")).unwrap_or_default()
    }

    /// Turns the entry into a sealed line.
    pub(crate) fn into_sealed_line(
        self,
        key: &LedgerKey,
        seq: u64,
        time: Timestamp,
        prev: &SealHash,
    ) -> SealedLine {
        let mut bytes = Vec::with_capacity(FRAME_BYTES + self.len());
        // Writing into a `Vec` cannot fail.
        let _ = write!(bytes, r#"{{"seq":{seq},"time":"{time:.3}","#);
        bytes.extend_from_slice(self.members());
        bytes.extend_from_slice(PREV);
        prev.write(&mut bytes);
        bytes.push(b'"');
        let hash = key.seal(&bytes);
        bytes.extend_from_slice(HASH);
        hash.write(&mut bytes);
        bytes.extend_from_slice(CLOSE);
        bytes.push(b'\n');
        SealedLine { bytes, hash }
    }
}

/// Line with its seal.
#[derive(Debug)]
pub(crate) struct SealedLine {
    /// The line, including its newline.
    pub(crate) bytes: Vec<u8>,
    pub(crate) hash: SealHash,
}

/// Parsed line.
#[derive(Debug, PartialEq)]
pub(crate) struct ParsedLine<'a> {
    pub(crate) seq: u64,
    pub(crate) kind: &'a str,
    pub(crate) prev: SealHash,
    pub(crate) hash: SealHash,
    sealed: &'a [u8],
}

impl ParsedLine<'_> {
    /// Returns true if the seal matches these bytes and the key.
    pub(crate) fn is_authentic(&self, key: &LedgerKey) -> bool {
        key.seal(self.sealed) == self.hash
    }
}

/// Returns the sequence number of a line without parsing the rest.
pub(crate) fn parse_seq(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(SEQ)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()
}

/// Parses a line (without its newline), or returns `None` if it does not have this format.
pub(crate) fn parse_line(line: &[u8]) -> Option<ParsedLine<'_>> {
    let (sealed, hash) = split_member(line.strip_suffix(CLOSE)?, HASH)?;
    let (content, prev) = split_member(sealed.strip_suffix(b"\"")?, PREV)?;
    let rest = content.strip_prefix(SEQ)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = rest.split_at_checked(digits)?;
    let seq = std::str::from_utf8(number).ok()?.parse().ok()?;
    let rest = rest.strip_prefix(TIME)?;
    let time = rest.iter().position(|byte| *byte == b'"')?;
    let kind = rest.get(time..)?.strip_prefix(KIND)?;
    let end = kind.iter().position(|byte| *byte == b'"')?;
    let kind = std::str::from_utf8(kind.get(..end)?).ok()?;
    Some(ParsedLine { seq, kind, prev, hash, sealed })
}

fn split_member<'a>(text: &'a [u8], name: &[u8]) -> Option<(&'a [u8], SealHash)> {
    let (rest, digits) = text.split_at_checked(text.len().checked_sub(SealHash::DIGITS)?)?;
    Some((rest.strip_suffix(name)?, SealHash::parse(digits)?))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tool::escaped_json::is_hidden;

    use super::*;
    use crate::entry::RecordedDecision;

    fn key() -> LedgerKey {
        LedgerKey::derive(&[1; 32]).unwrap()
    }

    fn line(entry: &Value) -> Vec<u8> {
        let body = EntryBody::from_json(entry, &key()).unwrap();
        body.into_sealed_line(&key(), 7, Timestamp::UNIX_EPOCH, &SealHash::NONE).bytes
    }

    #[test]
    fn a_written_line_parses_back() {
        let line = line(&json!({"kind": "note", "text": "hello"}));
        let text = String::from_utf8(line.clone()).unwrap();
        assert!(text.starts_with(
            r#"{"seq":7,"time":"1970-01-01T00:00:00.000Z","kind":"note","text":"hello","prev":"0000"#
        ));
        let parts = parse_line(line.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!((parts.seq, parts.kind, parts.prev), (7, "note", SealHash::NONE));
        assert!(parts.is_authentic(&key()));
        assert!(!parts.is_authentic(&LedgerKey::derive(&[2; 32]).unwrap()));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["hash"], parts.hash.to_string());
    }

    #[test]
    fn facts_given_as_text_are_a_member_of_the_entry() {
        let call = crate::samples::call("t");
        let decision = RecordedDecision {
            facts: Value::Null,
            facts_json: r#"{"paths":[{"key":"path"}]}"#.to_owned(),
            ..crate::samples::decision_for(&call)
        };
        let body = EntryBody::new(&LedgerEntry::Decision(decision), &key()).unwrap();
        let line = body.into_sealed_line(&key(), 7, Timestamp::UNIX_EPOCH, &SealHash::NONE).bytes;
        let value: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(value["facts"], json!({"paths": [{"key": "path"}]}));
        assert_eq!(value["arguments_digest"], "a".repeat(64));
    }

    /// Times have milliseconds and four-digit years in practice; the others must still form a valid line.
    #[test]
    fn every_number_and_time_makes_a_valid_line() {
        for seq in [0, 1, 9, 10, 12_345_678, u64::MAX] {
            for (time, text) in [
                (Timestamp::UNIX_EPOCH, "1970-01-01T00:00:00.000Z"),
                (Timestamp::new(1_709_251_199, 999_900_000).unwrap(), "2024-02-29T23:59:59.999Z"),
                (Timestamp::MAX, "9999-12-30T22:00:00.999Z"),
                (Timestamp::MIN, "-009999-01-02T01:59:59.000Z"),
            ] {
                let body = EntryBody::from_json(&json!({"kind": "note", "text": "hello"}), &key()).unwrap();
                let sealed = body.into_sealed_line(&key(), seq, time, &SealHash([7; 32]));
                let line = String::from_utf8(sealed.bytes).unwrap();
                let begin =
                    format!(r#"{{"seq":{seq},"time":"{text}","kind":"note","text":"hello","prev":"0707"#);
                assert!(line.starts_with(&begin), "{line}");
                let parts = parse_line(line.strip_suffix('\n').unwrap().as_bytes()).unwrap();
                assert!(
                    parts.seq == seq && parts.hash == sealed.hash && parts.is_authentic(&key()),
                    "{line}"
                );
            }
        }
    }

    #[test]
    fn every_changed_byte_breaks_form_or_seal() {
        let line = line(&json!({"kind": "note", "text": "hello"}));
        let line = line.strip_suffix(b"\n").unwrap();
        for place in 0..line.len() {
            for bit in 0..8 {
                let mut changed = line.to_vec();
                changed[place] ^= 1 << bit;
                let accepted = parse_line(&changed).is_some_and(|parts| parts.is_authentic(&key()));
                assert!(!accepted, "byte {place} bit {bit}");
            }
        }
    }

    #[test]
    fn hostile_text_stays_one_visible_line() {
        let hostile = "a\nb\r\0\u{1b}[2J\u{7f}\u{85}\u{9b}\u{2028}\u{2029}\u{202e}\u{200b}\u{feff}\u{e0041}é漢🦀\"\\\
            \n{\"seq\":9,\"time\":\"x\",\"kind\":\"note\",\"prev\":\"\",\"hash\":\"\"}";
        let line = line(&json!({"kind": "note", hostile: hostile, "nested": [{"k": hostile}]}));
        assert_eq!(line.iter().filter(|byte| **byte < b' ').count(), 1, "the newline at its end");
        let text = String::from_utf8(line).unwrap();
        assert_eq!(text.trim_end().chars().find(|c| is_hidden(*c)), None);
        assert!(text.contains("é漢🦀"), "what can be read stays readable");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value[hostile], hostile);
        assert_eq!(value["nested"][0]["k"], hostile);
    }

    #[test]
    fn text_of_another_form_does_not_parse() {
        for wrong in ["", "{}", "\"}", "{\"seq\":1}", &"x".repeat(400)] {
            assert_eq!(parse_line(wrong.as_bytes()), None, "{wrong}");
        }
        assert!(EntryBody::from_json(&json!({"text": "no kind first", "kind": "note"}), &key()).is_err());
        assert!(EntryBody::from_json(&json!(["kind"]), &key()).is_err());
    }
}
