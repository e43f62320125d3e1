//! Searchable fields of a record, read from its line without building the whole entry. Pure.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Deserialize;

/// Searchable fields of a record.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SearchFields<'a> {
    pub(crate) seq: u64,
    /// Milliseconds since 1970.
    pub(crate) time: i64,
    pub(crate) kind: Cow<'a, str>,
    pub(crate) tool: Option<Cow<'a, str>>,
    pub(crate) outcome: Option<Cow<'a, str>>,
    pub(crate) mode: Option<Cow<'a, str>>,
    pub(crate) caller: Option<Cow<'a, str>>,
    pub(crate) session: Option<Cow<'a, str>>,
    pub(crate) trace: Option<Cow<'a, str>>,
    pub(crate) call: Option<Cow<'a, str>>,
    pub(crate) idempotency_key: Option<Cow<'a, str>>,
    /// Sequence number of the first retained record, in a retention entry.
    pub(crate) first_retained: Option<u64>,
}

#[derive(Deserialize)]
struct RawSearchFields<'a> {
    seq: u64,
    time: Timestamp,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    tool: Option<BorrowedText<'a>>,
    outcome: Option<BorrowedText<'a>>,
    mode: Option<BorrowedText<'a>>,
    to: Option<serde_json::Value>,
    caller: Option<RawCaller<'a>>,
    trace: Option<RawTrace<'a>>,
    call_id: Option<BorrowedText<'a>>,
    idempotency_key: Option<BorrowedText<'a>>,
    id: Option<BorrowedText<'a>>,
    first: Option<u64>,
}

#[derive(Deserialize)]
struct RawCaller<'a> {
    uid: u32,
    #[serde(borrow)]
    client: Option<BorrowedText<'a>>,
    session: Option<BorrowedText<'a>>,
}

#[derive(Deserialize)]
struct RawTrace<'a> {
    #[serde(borrow)]
    trace_id: Cow<'a, str>,
}

/// Text borrowed from the line unless it contains an escape, which is rare. serde never borrows an
/// `Option<Cow>`, so the newtype is needed.
#[derive(Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> SearchFields<'a> {
    /// Parses a line without its newline.
    pub(crate) fn parse(line: &'a [u8]) -> Option<SearchFields<'a>> {
        // Valid UTF-8 is checked once for the whole line. Otherwise serde checks only the strings that are
        // read.
        let raw: Option<RawSearchFields> = match std::str::from_utf8(line) {
            Ok(text) => serde_json::from_str(text).ok(),
            Err(_) => serde_json::from_slice(line).ok(),
        };
        let raw = raw?;
        let word = |word: Option<BorrowedText<'a>>| word.map(|BorrowedText(text)| text);
        let outcome = if raw.kind == "refusal" { Some("refused".into()) } else { word(raw.outcome) };
        let entered = raw.to.filter(|_| raw.kind == "mode");
        let entered = || entered?.as_str().map(|mode| Cow::Owned(mode.to_owned()));
        let (mut caller, mut session) = (None, None);
        if let Some(found) = raw.caller {
            caller = word(found.client).or_else(|| Some(format!("uid {}", found.uid).into()));
            session = word(found.session);
        }
        Some(SearchFields {
            session: if raw.kind == "session" { word(raw.id) } else { session },
            first_retained: raw.first.filter(|_| raw.kind == "retention"),
            seq: raw.seq,
            time: raw.time.as_millisecond(),
            kind: raw.kind,
            tool: word(raw.tool),
            outcome,
            mode: word(raw.mode).or_else(entered),
            caller,
            trace: raw.trace.map(|trace| trace.trace_id),
            call: word(raw.call_id),
            idempotency_key: word(raw.idempotency_key),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf8_in_an_unread_field_does_not_hide_the_line() {
        let line = br#"{"seq":7,"time":"2026-01-01T00:00:00.000Z","kind":"note","text":"X"}"#;
        for byte in [b'X', 0xff] {
            let line: Vec<u8> = line.iter().map(|one| if *one == b'X' { byte } else { *one }).collect();
            let fields = SearchFields::parse(&line).expect("a line");
            assert_eq!((fields.seq, &*fields.kind), (7, "note"));
        }
    }
}
