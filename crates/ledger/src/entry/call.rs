//! Entries about calls: decision, outcome, both in one, and refusal.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::result::{Truncation, Usage};
use tool::text::SharedText;
use tool::{CallId, Caller, FailureKind, Mode, RefusalCode, RiskLevel, RuleRef, TraceContext};

/// Common fields of every record of a call, so that each line can be found and read on its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallHeader {
    /// Id of the call, also used in the reply, the logs and the spans.
    pub call_id: CallId,
    /// Name of the tool, or the requested name if there is no such tool.
    pub tool: String,
    /// Mode in which the call was judged.
    pub mode: Mode,
    /// Caller of the tool.
    pub caller: Arc<Caller>,
    /// Trace context of the call.
    pub trace: TraceContext,
}

/// Effect of a call on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedEffect {
    /// The call is read-only.
    Reads,
    /// The call changes the machine or an external system.
    Changes,
}

/// Permitted call, recorded before it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedDecision {
    /// Common fields of the call.
    #[serde(flatten)]
    pub call: Arc<CallHeader>,
    /// Risk level of the tool.
    pub risk: RiskLevel,
    /// Effect of the call, which determines how durable this record must be before the call runs.
    pub effect: RecordedEffect,
    /// Time of the decision, if it could only be recorded later: the call started before this line was
    /// written. Absent if the record was written first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Timestamp>,
    /// Hash of the tool definition.
    pub definition_hash: SharedText,
    /// Hash of the policy that judged the call.
    pub policy_hash: SharedText,
    /// Keyed digest of the canonical arguments.
    pub arguments_digest: SharedText,
    /// Key by which the caller marks repeats of this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Keyed digest of the request sent with that key, before any edit during approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_digest: Option<String>,
    /// Id of the approval that the call consumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    /// Rules that decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleRef>,
    /// Redacted facts that the decision was based on, in an entry that was read.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub facts: Value,
    /// The same as JSON text, in an entry that is to be written: the writer adds it as the member `facts`. A value costs
    /// dozens of allocations, and every call waits for its record.
    #[serde(skip)]
    pub facts_json: String,
}

/// Final status of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeStatus {
    /// The call completed.
    Done,
    /// The call failed.
    Failed,
    /// The call was interrupted; its result is unknown.
    Unknown,
    /// The call was recorded and then abandoned before anything ran.
    NotStarted,
}

impl OutcomeStatus {
    /// Returns the value used in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            OutcomeStatus::Done => "done",
            OutcomeStatus::Failed => "failed",
            OutcomeStatus::Unknown => "unknown",
            OutcomeStatus::NotStarted => "not_started",
        }
    }
}

/// Outcome of a call, as given to [`Ledger::conclude`](crate::Ledger::conclude).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerOutcome {
    /// Final status.
    #[serde(rename = "outcome")]
    pub status: OutcomeStatus,
    /// Kind of the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureKind>,
    /// Redacted message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time from the request to the end, in microseconds.
    pub latency_us: u64,
    /// Keyed digest of the tool's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_digest: Option<String>,
    /// Canonical names of the changed files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_touched: Vec<String>,
    /// Truncation of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncation>,
    /// Resources that the call used.
    #[serde(default)]
    pub usage: Usage,
    /// Further facts about the end of the call. The field of the line is not `facts`, because a `call` has those of
    /// its decision there.
    #[serde(default, rename = "run", skip_serializing_if = "OutcomeFacts::is_empty")]
    pub facts: OutcomeFacts,
}

/// Further facts about the end of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomeFacts {
    /// Time of each pipeline stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageTime>,
    /// Number of attempts, if more than one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// True if the changes can be undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoable: Option<bool>,
    /// Earlier call whose cached result was returned. The tool did not run for this call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_from: Option<CallId>,
}

impl OutcomeFacts {
    fn is_empty(&self) -> bool {
        *self == OutcomeFacts::default()
    }
}

/// Duration of one pipeline stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageTime {
    /// Name of the stage.
    pub stage: Cow<'static, str>,
    /// Start of the stage in microseconds after the start of the call.
    pub start_us: u64,
    /// Duration in microseconds.
    pub duration_us: u64,
}

impl LedgerOutcome {
    /// Creates an outcome with only a status and a latency.
    pub fn new(status: OutcomeStatus, latency: std::time::Duration) -> Self {
        LedgerOutcome {
            status,
            failure: None,
            message: None,
            latency_us: u64::try_from(latency.as_micros()).unwrap_or(u64::MAX),
            output_digest: None,
            files_touched: Vec::new(),
            truncated: None,
            usage: Usage::default(),
            facts: OutcomeFacts::default(),
        }
    }
}

/// Outcome with its call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedOutcome {
    /// Common fields of the call.
    #[serde(flatten)]
    pub call: Arc<CallHeader>,
    /// Outcome of the call.
    #[serde(flatten)]
    pub outcome: LedgerOutcome,
}

/// Decision and outcome of a call in one record. Only a call that reads inside the daemon has one: it has no effect
/// that could be lost, and the record is written before its result leaves the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedRead {
    /// Decision on the call.
    #[serde(flatten)]
    pub decision: Box<RecordedDecision>,
    /// Outcome of the call.
    #[serde(flatten)]
    pub outcome: LedgerOutcome,
}

/// Refused call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedRefusal {
    /// Common fields of the call.
    #[serde(flatten)]
    pub call: Arc<CallHeader>,
    /// Stable refusal code.
    pub code: RefusalCode,
    /// More specific reason word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Message that the caller received.
    pub reason: String,
    /// Rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleRef>,
    /// Hash of the policy that judged the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_hash: Option<String>,
    /// Keyed digest of the canonical arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_digest: Option<String>,
    /// Time from the request to the refusal, in microseconds.
    pub latency_us: u64,
    /// Redacted facts that the decision was based on.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub facts: Value,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use tool::result::TruncationUnit;

    use super::*;
    use crate::{LedgerEntry, samples};

    /// Asserts that an entry is written with these members in this order, and that it reads back unchanged.
    #[track_caller]
    fn check(entry: &LedgerEntry, members: &str) {
        let text = serde_json::to_string(entry).unwrap();
        assert_eq!(serde_json::from_str::<LedgerEntry>(&text).unwrap(), *entry, "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        let found: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(found.join(" "), members);
    }

    #[test]
    fn decision_fields_are_written_in_order_without_empty_ones() {
        let bare = RecordedDecision { facts: Value::Null, ..samples::decision_for(&samples::call("t")) };
        check(
            &LedgerEntry::Decision(bare.clone()),
            "kind call_id tool mode caller trace risk effect definition_hash policy_hash arguments_digest",
        );
        let whole = RecordedDecision {
            decided_at: Some(Timestamp::UNIX_EPOCH),
            idempotency_key: Some("k".into()),
            request_digest: Some("r".into()),
            approval_id: Some("a".into()),
            rules: vec![RuleRef { file: "f".into(), line: 1, id: "i".into() }],
            facts: json!({"seen": true}),
            ..bare
        };
        check(
            &LedgerEntry::Decision(whole),
            "kind call_id tool mode caller trace risk effect decided_at definition_hash policy_hash \
             arguments_digest idempotency_key request_digest approval_id rules facts",
        );
    }

    /// Both parts have facts, and each must read its own.
    #[test]
    fn a_call_keeps_the_facts_of_decision_and_outcome_apart() {
        let decision = samples::decision_for(&samples::call("t"));
        let bare = LedgerOutcome::new(OutcomeStatus::Done, Duration::from_micros(3));
        let with_facts = LedgerOutcome {
            facts: OutcomeFacts { attempts: Some(2), ..OutcomeFacts::default() },
            ..bare.clone()
        };
        let fields =
            "kind call_id tool mode caller trace risk effect definition_hash policy_hash arguments_digest";
        for (facts, outcome, rest) in [
            (json!({"paths": []}), with_facts.clone(), "facts outcome latency_us usage run"),
            (Value::Null, with_facts, "outcome latency_us usage run"),
            (json!({"paths": []}), bare, "facts outcome latency_us usage"),
        ] {
            let decision = Box::new(RecordedDecision { facts, ..decision.clone() });
            check(&LedgerEntry::Call(RecordedRead { decision, outcome }), &format!("{fields} {rest}"));
        }
    }

    #[test]
    fn outcome_fields_are_written_in_order_without_empty_ones() {
        let call = samples::call("t");
        let bare = LedgerOutcome::new(OutcomeStatus::Done, Duration::from_micros(3));
        let entry =
            |outcome: LedgerOutcome| LedgerEntry::Outcome(RecordedOutcome { call: call.clone(), outcome });
        check(&entry(bare.clone()), "kind call_id tool mode caller trace outcome latency_us usage");
        let stage = StageTime { stage: "run".into(), start_us: 1, duration_us: 2 };
        let whole = LedgerOutcome {
            failure: Some(FailureKind::Io),
            message: Some("m".into()),
            output_digest: Some("o".into()),
            files_touched: vec!["f".into()],
            truncated: Some(Truncation {
                unit: TruncationUnit::default(),
                total: 9,
                returned: 1,
                how_to_continue: "h".into(),
            }),
            facts: OutcomeFacts { stages: vec![stage], ..OutcomeFacts::default() },
            ..bare
        };
        check(
            &entry(whole),
            "kind call_id tool mode caller trace outcome failure message latency_us output_digest \
             files_touched truncated usage run",
        );
    }
}
