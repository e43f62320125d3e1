//! Records as they are read from the ledger.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tool::{CallId, Caller, Mode, TraceContext};

use crate::{
    entry::{Call, Entry, Status},
    tracker::Step,
};

/// Record: its sequence number, time, entry and original line.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Sequence number, without gaps.
    pub seq: u64,
    /// Time of writing by the system clock.
    pub time: Timestamp,
    /// Content of the record.
    pub entry: Entry,
    line: String,
}

#[derive(Deserialize)]
struct Frame {
    seq: u64,
    time: Timestamp,
    #[serde(flatten)]
    entry: Entry,
}

impl Record {
    /// Parses a line (without its newline). Does not check its seal.
    pub(crate) fn parse(line: &[u8]) -> Option<Record> {
        let line = std::str::from_utf8(line).ok()?.to_owned();
        let frame: Frame = serde_json::from_str(&line).ok()?;
        Some(Record { seq: frame.seq, time: frame.time, entry: frame.entry, line })
    }

    /// Returns the stored line, byte for byte, without its newline.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// Returns the line as a JSON value, including fields that a later version may have added.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.line).unwrap_or_default()
    }
}

/// Part of a call's record that recovery needs. A start reads thousands of them, and skips the facts and
/// rules that make up most of each.
pub(crate) struct Passage {
    pub(crate) time: Timestamp,
    pub(crate) call: Arc<Call>,
    pub(crate) step: Step,
}

#[derive(Deserialize)]
struct Bare {
    time: Timestamp,
    kind: Kind,
    call_id: CallId,
    tool: String,
    mode: Mode,
    caller: Caller,
    trace: TraceContext,
    outcome: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Decision,
    Outcome,
    Refusal,
}

impl Passage {
    /// Parses a line (without its newline) if it belongs to a call.
    pub(crate) fn parse(line: &[u8]) -> Option<Passage> {
        let Bare { time, kind, call_id, tool, mode, caller, trace, outcome } =
            serde_json::from_slice(line).ok()?;
        let step = match kind {
            Kind::Decision => Step::Decided,
            Kind::Outcome => Step::Ended(outcome?),
            Kind::Refusal => Step::Refused,
        };
        Some(Passage { time, call: Arc::new(Call { call_id, tool, mode, caller, trace }), step })
    }
}

/// Returns the time of a line, read by position.
pub(crate) fn time_of(line: &[u8]) -> Option<Timestamp> {
    const NAME: &[u8] = br#""time":""#;
    let head = line.get(..64.min(line.len()))?;
    let start = head.windows(NAME.len()).position(|window| window == NAME)? + NAME.len();
    std::str::from_utf8(line.get(start..start + 24)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{hash::Hash, key::Key, line, samples, tracker::Tracker};

    /// Recovery must reach the same state from passages as from full records.
    #[test]
    fn a_passage_tracks_the_same_state_as_its_record() {
        let calls: Vec<_> = (0..6).map(|_| samples::call("write_file")).collect();
        let ends = [Status::Done, Status::Failed, Status::Unknown, Status::NotStarted];
        let mut entries: Vec<Entry> = calls.iter().map(samples::decision_of).collect();
        entries.extend(calls.iter().zip(ends).map(|(call, end)| samples::outcome_of(call, end)));
        entries.push(samples::refusal_of(&calls[4]));
        let (key, mut skimmed, mut read) =
            (Key::derive(&[1; 32]).unwrap(), Tracker::default(), Tracker::default());
        for entry in &entries {
            let body = line::Body::new(entry, &key).unwrap();
            let out = body.sealed(&key, 1, Timestamp::UNIX_EPOCH, &Hash::NONE).bytes;
            let text = out.strip_suffix(b"\n").unwrap();
            let Passage { time, call, step } = Passage::parse(text).unwrap();
            skimmed.step(&call, step, time);
            let record = Record::parse(text).unwrap();
            read.note(&record.entry, record.time);
            assert_eq!(skimmed.checkpoint(time), read.checkpoint(time), "{entry:?}");
        }
        assert_eq!(read.open_calls(), [std::sync::Arc::clone(&calls[5])], "the test must get there");
    }

    #[test]
    fn only_records_of_calls_parse_as_passages() {
        for entry in [samples::mode(Mode::Normal, Mode::Alert), samples::note("x")] {
            let text = serde_json::to_vec(&entry).unwrap();
            assert!(Passage::parse(&text).is_none(), "{entry:?}");
        }
    }
}
