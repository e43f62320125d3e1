//! Format of one line: serialising an entry and parsing a line. Pure.
//!
//! A line is `{"seq":N,"time":"…","kind":"…", …,"prev":"<64 hex>","hash":"<64 hex>"}` and a newline. `hash`
//! is the keyed seal over every byte before `,"hash"`; `prev` is the hash of the previous line. A line is
//! parsed by position and not as JSON, so that no two byte strings count as the same line.

use std::cell::Cell;

use jiff::Timestamp;
use serde::Serialize;
use tool::json_text::{self, Texts, write_number};

use crate::{LedgerError, hash::Hash, key::Key, shrink, time_text::write_time};

const HASH: &[u8] = br#","hash":""#;
const PREV: &[u8] = br#","prev":""#;
const CLOSE: &[u8] = br#""}"#;
const SEQ: &[u8] = br#"{"seq":"#;
const TIME: &[u8] = br#","time":""#;
const KIND: &[u8] = br#"","kind":""#;

thread_local! {
    /// Buffer of the last body, reused for the next one, because allocating it takes longer than filling it.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Free bytes before an entry. The start of a line needs no more for years of four digits.
const FREE: usize = 64;
/// Initial capacity, sufficient for most lines.
const USUAL: usize = 2048;
/// Maximum capacity of the buffer that a thread keeps.
const MOST_SPARE: usize = 16 * 1024;

/// Serialised entry `{"kind":"…",…}` with free space in front for the start of the line, so that the line is
/// built in place without moving the entry.
#[derive(Debug)]
pub(crate) struct Body(Vec<u8>);

impl Body {
    /// Serialises an entry; one that is too long is shortened and marked with its original length and digest.
    pub(crate) fn new(entry: &impl Serialize, key: &Key) -> Result<Body, LedgerError> {
        let body = Body::whole(entry)?;
        if body.len() <= shrink::LONGEST {
            return Ok(body);
        }
        Body::whole(&shrink::shrink(body.json(), key)?)
    }

    /// Serialises an entry of the ledger itself, regardless of its length.
    pub(crate) fn whole(entry: &impl Serialize) -> Result<Body, LedgerError> {
        let encode = |error: serde_json::Error| LedgerError::Encode(error.to_string());
        let mut body = Body(SPARE.try_with(Cell::take).unwrap_or_default());
        body.0.clear();
        body.0.reserve(USUAL);
        body.0.resize(FREE, b' ');
        json_text::append(&mut body.0, entry, Texts::Visible(is_hidden)).map_err(encode)?;
        if !body.members().starts_with(br#""kind":""#) {
            return Err(LedgerError::Encode("an entry begins with its kind".into()));
        }
        // A fold without an early exit lets the compiler check many bytes at once.
        if body.0.iter().fold(false, |found, byte| found | (*byte < b' ')) {
            return Err(LedgerError::Encode("an entry holds a control character".into()));
        }
        Ok(body)
    }

    /// Returns the number of bytes that the entry takes in a line.
    pub(crate) fn len(&self) -> usize {
        self.members().len()
    }

    fn json(&self) -> &[u8] {
        self.0.get(FREE..).unwrap_or_default()
    }

    /// Returns everything between the braces, or nothing if there are none.
    fn members(&self) -> &[u8] {
        let inner = self.json().strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
        inner.unwrap_or_default()
    }

    /// Turns the entry into a sealed line.
    pub(crate) fn sealed(mut self, key: &Key, seq: u64, time: Timestamp, prev: &Hash) -> SealedLine {
        let out = &mut self.0;
        // The closing brace is added again after the seal.
        out.pop();
        let start = begin(out, seq, time);
        out.extend_from_slice(PREV);
        prev.write(out);
        out.push(b'"');
        let hash = key.seal(out.get(start..).unwrap_or_default());
        out.extend_from_slice(HASH);
        hash.write(out);
        out.extend_from_slice(CLOSE);
        out.push(b'\n');
        SealedLine { body: self, start, hash }
    }
}

/// Puts the start of the line in front of the entry, replacing its opening brace, and returns its offset.
fn begin(out: &mut Vec<u8>, seq: u64, time: Timestamp) -> usize {
    let end = out.len();
    out.extend_from_slice(SEQ);
    write_number(out, seq);
    out.extend_from_slice(TIME);
    write_time(out, time);
    out.extend_from_slice(b"\",");
    let count = out.len() - end;
    let Some(start) = (FREE + 1).checked_sub(count) else {
        // The year has more than four digits.
        let beginning = out.split_off(end);
        out.splice(..=FREE, beginning);
        return 0;
    };
    out.copy_within(end.., start);
    out.truncate(end);
    start
}

impl Drop for Body {
    fn drop(&mut self) {
        if self.0.capacity() <= MOST_SPARE {
            // This fails only while the thread is ending; then the buffer is dropped.
            let _ = SPARE.try_with(|spare| spare.set(std::mem::take(&mut self.0)));
        }
    }
}

/// Line with its seal.
#[derive(Debug)]
pub(crate) struct SealedLine {
    body: Body,
    start: usize,
    pub(crate) hash: Hash,
}

impl SealedLine {
    /// Returns the line, including its newline.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.body.0.get(self.start..).unwrap_or_default()
    }
}

/// Parsed line.
#[derive(Debug, PartialEq)]
pub(crate) struct Parts<'a> {
    pub(crate) seq: u64,
    pub(crate) kind: &'a str,
    pub(crate) prev: Hash,
    pub(crate) hash: Hash,
    sealed: &'a [u8],
}

impl Parts<'_> {
    /// Returns true if the seal matches these bytes and the key.
    pub(crate) fn is_authentic(&self, key: &Key) -> bool {
        key.seal(self.sealed) == self.hash
    }
}

/// Returns the sequence number of a line without parsing the rest.
pub(crate) fn number(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(SEQ)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()
}

/// Parses a line (without its newline), or returns `None` if it does not have this format.
pub(crate) fn parts(line: &[u8]) -> Option<Parts<'_>> {
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
    Some(Parts { seq, kind, prev, hash, sealed })
}

fn split_member<'a>(text: &'a [u8], name: &[u8]) -> Option<(&'a [u8], Hash)> {
    let (rest, digits) = text.split_at_checked(text.len().checked_sub(Hash::DIGITS)?)?;
    Some((rest.strip_suffix(name)?, Hash::parse(digits)?))
}

/// Returns true for control characters, line and paragraph separators, and characters that are invisible or
/// reorder text.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json, value::RawValue};

    use super::*;

    fn key() -> Key {
        Key::derive(&[1; 32]).unwrap()
    }

    fn line(entry: &Value) -> Vec<u8> {
        let body = Body::new(entry, &key()).unwrap();
        body.sealed(&key(), 7, Timestamp::UNIX_EPOCH, &Hash::NONE).bytes().to_vec()
    }

    #[test]
    fn a_written_line_parses_back() {
        let line = line(&json!({"kind": "note", "text": "hello"}));
        let text = String::from_utf8(line.clone()).unwrap();
        assert!(text.starts_with(
            r#"{"seq":7,"time":"1970-01-01T00:00:00.000Z","kind":"note","text":"hello","prev":"0000"#
        ));
        let parts = parts(line.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!((parts.seq, parts.kind, parts.prev), (7, "note", Hash::NONE));
        assert!(parts.is_authentic(&key()));
        assert!(!parts.is_authentic(&Key::derive(&[2; 32]).unwrap()));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["hash"], parts.hash.to_string());
    }

    /// The length of the start of a line depends on the number and the time; the line must be valid for all
    /// of them.
    #[test]
    fn every_number_and_time_fits_before_the_entry() {
        for seq in [0, 1, 9, 10, 12_345_678, u64::MAX] {
            for time in [Timestamp::UNIX_EPOCH, Timestamp::MAX, Timestamp::MIN] {
                let body = Body::new(&json!({"kind": "note", "text": "hello"}), &key()).unwrap();
                let sealed = body.sealed(&key(), seq, time, &Hash([7; 32]));
                let text = String::from_utf8(sealed.bytes().to_vec()).unwrap();
                let mut written = Vec::new();
                write_time(&mut written, time);
                let begin = format!(
                    r#"{{"seq":{seq},"time":"{}","kind":"note","text":"hello","prev":"0707"#,
                    String::from_utf8(written).unwrap()
                );
                assert!(text.starts_with(&begin), "{text}");
                let parts = parts(text.strip_suffix('\n').unwrap().as_bytes()).unwrap();
                assert!(
                    parts.seq == seq && parts.hash == sealed.hash && parts.is_authentic(&key()),
                    "{text}"
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
                let accepted = parts(&changed).is_some_and(|parts| parts.is_authentic(&key()));
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
            assert_eq!(parts(wrong.as_bytes()), None, "{wrong}");
        }
        assert!(Body::new(&json!({"text": "no kind first", "kind": "note"}), &key()).is_err());
        assert!(Body::new(&json!(["kind"]), &key()).is_err());
    }

    #[test]
    fn a_reused_buffer_keeps_nothing_of_the_last_body() {
        let long = "x".repeat(3 * MOST_SPARE);
        for text in [long.as_str(), &long[..MOST_SPARE / 2], "short", ""] {
            let body = Body::new(&json!({"kind": "note", "text": text}), &key()).unwrap();
            assert_eq!(body.members(), format!(r#""kind":"note","text":"{text}""#).as_bytes());
            assert_eq!(body.len(), body.members().len());
            // A body that fails to serialise returns its buffer too.
            assert!(Body::new(&json!({"text": text}), &key()).is_err());
        }
        let kept = SPARE.take().capacity();
        assert!((1..=MOST_SPARE).contains(&kept), "{kept}");
    }

    #[test]
    fn raw_json_with_newlines_is_rejected() {
        let spaced: Box<RawValue> = serde_json::from_str("{\"kind\":\"note\",\n\"text\":1}").unwrap();
        assert!(Body::new(&spaced, &key()).is_err());
    }
}
