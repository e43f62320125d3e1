//! Records as they are read from the ledger.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tool::{CallId, Caller, Mode, TraceContext};

use crate::{
    entry::{CallHeader, LedgerEntry, OutcomeStatus},
    tracker::CallTransition,
};

/// Record: its sequence number, time, entry and original line.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerRecord {
    /// Sequence number, without gaps.
    pub seq: u64,
    /// Time of writing by the system clock.
    pub time: Timestamp,
    /// Content of the record.
    pub entry: LedgerEntry,
    line: String,
}

#[derive(Deserialize)]
struct RecordFrame {
    seq: u64,
    time: Timestamp,
    #[serde(flatten)]
    entry: LedgerEntry,
}

impl LedgerRecord {
    /// Parses a line (without its newline). Does not check its seal.
    pub(crate) fn parse(line: &[u8]) -> Option<LedgerRecord> {
        let line = std::str::from_utf8(line).ok()?.to_owned();
        let frame: RecordFrame = serde_json::from_str(&line).ok()?;
        Some(LedgerRecord { seq: frame.seq, time: frame.time, entry: frame.entry, line })
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
pub(crate) struct CallRecordSummary {
    pub(crate) time: Timestamp,
    pub(crate) call: Arc<CallHeader>,
    pub(crate) transition: CallTransition,
}

#[derive(Deserialize)]
struct RawCallRecord {
    time: Timestamp,
    kind: CallRecordKind,
    call_id: CallId,
    tool: String,
    mode: Mode,
    caller: Caller,
    trace: TraceContext,
    outcome: Option<OutcomeStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum CallRecordKind {
    Decision,
    Outcome,
    Call,
    Refusal,
}

impl CallRecordSummary {
    /// Parses a line (without its newline) if it belongs to a call.
    pub(crate) fn parse(line: &[u8]) -> Option<CallRecordSummary> {
        let RawCallRecord { time, kind, call_id, tool, mode, caller, trace, outcome } =
            serde_json::from_slice(line).ok()?;
        let step = match kind {
            CallRecordKind::Decision => CallTransition::Decided,
            CallRecordKind::Outcome => CallTransition::Ended(outcome?),
            CallRecordKind::Call => CallTransition::DecidedAndEnded(outcome?),
            CallRecordKind::Refusal => CallTransition::Refused,
        };
        Some(CallRecordSummary {
            time,
            call: Arc::new(CallHeader { call_id, tool, mode, caller: Arc::new(caller), trace }),
            transition: step,
        })
    }
}

/// Returns the time of a line, read by position.
pub(crate) fn parse_time(line: &[u8]) -> Option<Timestamp> {
    const NAME: &[u8] = br#""time":""#;
    let head = line.get(..64.min(line.len()))?;
    let start = head.windows(NAME.len()).position(|window| window == NAME)? + NAME.len();
    std::str::from_utf8(line.get(start..start + 24)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{hash::SealHash, key::LedgerKey, line, samples, tracker::LedgerStateTracker};

    /// Recovery must reach the same state from passages as from full records.
    #[test]
    fn call_summary_gives_the_same_state_as_its_record() {
        let calls: Vec<_> = (0..6).map(|_| samples::call("write_file")).collect();
        let ends =
            [OutcomeStatus::Done, OutcomeStatus::Failed, OutcomeStatus::Unknown, OutcomeStatus::NotStarted];
        let mut entries: Vec<LedgerEntry> = calls.iter().map(samples::decision_entry).collect();
        entries.extend(calls.iter().zip(ends).map(|(call, end)| samples::outcome_entry(call, end)));
        entries.push(samples::refusal_entry(&calls[4]));
        entries.extend(ends.map(|end| samples::call_entry(&samples::call("read_file"), end)));
        let (key, mut skimmed, mut read) = (
            LedgerKey::derive(&[1; 32]).unwrap(),
            LedgerStateTracker::default(),
            LedgerStateTracker::default(),
        );
        for entry in &entries {
            let body = line::EntryBody::new(entry, &key).unwrap();
            let out = body.into_sealed_line(&key, 1, Timestamp::UNIX_EPOCH, &SealHash::NONE).bytes;
            let text = out.strip_suffix(b"\n").unwrap();
            let CallRecordSummary { time, call, transition: step } = CallRecordSummary::parse(text).unwrap();
            skimmed.apply_call(&call, step, time);
            let record = LedgerRecord::parse(text).unwrap();
            read.apply(&record.entry, record.time);
            assert_eq!(skimmed.checkpoint(time), read.checkpoint(time), "{entry:?}");
        }
        assert_eq!(read.open_calls(), [std::sync::Arc::clone(&calls[5])], "the test must get there");
    }

    #[test]
    fn only_records_of_calls_parse_as_summaries() {
        for entry in [samples::mode(Mode::Normal, Mode::Alert), samples::note("x")] {
            let text = serde_json::to_vec(&entry).unwrap();
            assert!(CallRecordSummary::parse(&text).is_none(), "{entry:?}");
        }
    }
}
