//! The entries about calls: permitted, ended, refused. How the first two are written is in `flat`.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::{
    CallId, Caller, FailureKind, Mode, RefusalCode, RiskLevel, RuleRef, SharedText, TraceContext, Truncation,
    Usage,
};

use super::Facts;

/// What every record of a call says first, so that each line can be found and read alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Names the call in the reply, the logs and the spans too.
    pub call_id: CallId,
    /// The tool, as found, or as named where none was found.
    pub tool: String,
    /// The mode it was judged in.
    pub mode: Mode,
    /// Who asked.
    pub caller: Caller,
    /// Where it stands in its trace.
    pub trace: TraceContext,
}

/// Whether a call can change anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It only looks.
    Reads,
    /// It changes the machine, or something beyond it.
    Changes,
}

/// A permitted call, recorded before it runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Decision {
    /// Which call.
    #[serde(flatten)]
    pub call: Arc<Call>,
    /// The harm the tool can do.
    pub risk: RiskLevel,
    /// Whether it can change anything: decides how durable this record is before the call runs.
    pub effect: Effect,
    /// When it was decided, where that could be recorded only later: the call ran, or was running, before this line was
    /// written. Absent where the record came first.
    #[serde(default)]
    pub decided_at: Option<Timestamp>,
    /// Pins the definition.
    pub definition_hash: SharedText,
    /// Pins the policy that judged.
    pub policy_hash: SharedText,
    /// The keyed digest of the canonical arguments.
    pub arguments_digest: SharedText,
    /// What the caller said makes a repeat of this call the same call.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// The keyed digest of what was sent with that key, whatever a human made of it before it ran.
    #[serde(default)]
    pub request_digest: Option<String>,
    /// The approval that was used up.
    #[serde(default)]
    pub approval_id: Option<String>,
    /// The rules that decided.
    #[serde(default)]
    pub rules: Vec<RuleRef>,
    /// What the judge saw, redacted.
    #[serde(default)]
    pub facts: Facts,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It ran to its end.
    Done,
    /// It did not.
    Failed,
    /// It was under way when everything stopped; nobody can say.
    Unknown,
    /// It was recorded and then given up before anything ran.
    NotStarted,
}

impl Status {
    /// The word in the record.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Done => "done",
            Status::Failed => "failed",
            Status::Unknown => "unknown",
            Status::NotStarted => "not_started",
        }
    }
}

/// What the caller of [`Ledger::conclude`](crate::Ledger::conclude) knows of the end of a call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Outcome {
    /// How it ended.
    #[serde(rename = "outcome")]
    pub status: Status,
    /// What went wrong, in one word.
    #[serde(default)]
    pub failure: Option<FailureKind>,
    /// The sentence, redacted.
    #[serde(default)]
    pub message: Option<String>,
    /// From the request to the end, in microseconds.
    pub latency_us: u64,
    /// The keyed digest of what the tool answered.
    #[serde(default)]
    pub output_digest: Option<String>,
    /// Canonical names of what it changed.
    #[serde(default)]
    pub files_touched: Vec<String>,
    /// What was cut from the answer.
    #[serde(default)]
    pub truncated: Option<Truncation>,
    /// What it used.
    #[serde(default)]
    pub usage: Usage,
    /// What else is known of it.
    #[serde(default)]
    pub facts: EndFacts,
}

/// What else is known of the end of a call. Typed, so that writing it, which every call waits for, builds no values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndFacts {
    /// The time of each stage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageTime>,
    /// How often it was tried, where that was more than once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Whether what it changed can be taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoable: Option<bool>,
}

/// How long a stage of the road took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageTime {
    /// The stage.
    pub stage: Cow<'static, str>,
    /// Microseconds from the start of the call.
    pub start_us: u64,
    /// Microseconds.
    pub duration_us: u64,
}

impl Outcome {
    /// An outcome of which only the status and the time are known.
    pub fn new(status: Status, latency: std::time::Duration) -> Self {
        Outcome {
            status,
            failure: None,
            message: None,
            latency_us: u64::try_from(latency.as_micros()).unwrap_or(u64::MAX),
            output_digest: None,
            files_touched: Vec::new(),
            truncated: None,
            usage: Usage::default(),
            facts: EndFacts::default(),
        }
    }
}

/// An outcome with the call it belongs to.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Concluded {
    /// Which call.
    #[serde(flatten)]
    pub call: Arc<Call>,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// A call that was not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refused {
    /// Which call.
    #[serde(flatten)]
    pub call: Arc<Call>,
    /// The stable word.
    pub code: RefusalCode,
    /// A finer word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The sentence the caller got.
    pub reason: String,
    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleRef>,
    /// Pins the policy that judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_hash: Option<String>,
    /// The keyed digest of the canonical arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_digest: Option<String>,
    /// From the request to the refusal, in microseconds.
    pub latency_us: u64,
    /// What the judge saw, redacted.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub facts: Value,
}
