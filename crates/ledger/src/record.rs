//! One record as it is read back.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tool::{CallId, Caller, Mode, TraceContext};

use crate::{
    entry::{Call, Entry, Status},
    tracker::Step,
};

/// A record: its number, its time, what it says, and the line it stands in.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its number; there are no gaps.
    pub seq: u64,
    /// When it was written, by the clock on the wall.
    pub time: Timestamp,
    /// What it says.
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
    /// Reads a line (without its newline). Its seal is not checked here.
    pub(crate) fn parse(line: &[u8]) -> Option<Record> {
        let line = std::str::from_utf8(line).ok()?.to_owned();
        let frame: Frame = serde_json::from_str(&line).ok()?;
        Some(Record { seq: frame.seq, time: frame.time, entry: frame.entry, line })
    }

    /// The line, byte for byte as it is stored, without its newline.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// The line as a value, with everything a later version may have added.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.line).unwrap_or_default()
    }
}

/// What a start needs of the record of a call. A start reads thousands of them, and most of each is facts and rules.
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
    /// Reads a line (without its newline), where it is of a call.
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

/// The time of a line, read by position.
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

    /// A start that skims must come to the same as one that reads.
    #[test]
    fn a_passage_says_what_the_record_says() {
        let calls: Vec<_> = (0..6).map(|_| samples::call("write_file")).collect();
        let ends = [Status::Done, Status::Failed, Status::Unknown, Status::NotStarted];
        let mut entries: Vec<Entry> = calls.iter().map(samples::decision_of).collect();
        entries.extend(calls.iter().zip(ends).map(|(call, end)| samples::outcome_of(call, end)));
        entries.push(samples::refusal_of(&calls[4]));
        let (key, mut skimmed, mut read) =
            (Key::derive(&[1; 32]).unwrap(), Tracker::default(), Tracker::default());
        for entry in &entries {
            let body = line::Body::new(entry, &key).unwrap();
            let out = body.sealed(&key, 1, Timestamp::UNIX_EPOCH, &Hash::NONE).bytes().to_vec();
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
    fn only_what_is_of_a_call_is_a_passage() {
        for entry in [samples::mode(Mode::Normal, Mode::Alert), samples::note("x")] {
            let text = serde_json::to_vec(&entry).unwrap();
            assert!(Passage::parse(&text).is_none(), "{entry:?}");
        }
    }
}
