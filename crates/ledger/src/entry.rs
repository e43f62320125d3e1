//! What the record can say. One type per kind of line; every free text and value in them was redacted by whoever
//! made the entry, and contents appear by keyed digest only.
//!
//! Nothing here knows how a line is sealed or stored.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::{
    CallId, Caller, FailureKind, Mode, RefusalCode, RiskLevel, RuleRef, TraceContext, Truncation, Usage,
};

use crate::housekeeping::{Checkpoint, Recovered, Resumed, Retention};

/// One line of the record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// A call was permitted and is about to run: the intent.
    Decision(Decision),
    /// How a call ended that had an intent.
    Outcome(Concluded),
    /// A call was not run.
    Refusal(Refused),
    /// The mode changed.
    Mode(ModeChange),
    /// The policy, the tools or the settings were read again.
    Reload(Reload),
    /// The daemon started.
    Start(Start),
    /// The daemon stopped in good order.
    Stop(Stop),
    /// A worker session was opened or closed.
    Session(Session),
    /// An approval was asked for, decided, used or lapsed.
    Approval(Approval),
    /// Something that can be undone was saved or restored.
    Undo(Undo),
    /// Anything else worth keeping.
    Note(Note),
    /// What a segment must know of those before it; the first line of each. Written by the ledger itself.
    Checkpoint(Checkpoint),
    /// What was found amiss at start. Written by the ledger itself.
    Recovered(Recovered),
    /// The record goes on in a new segment after an error. Written by the ledger itself.
    Resumed(Resumed),
    /// Old segments were let go. Written by the ledger itself.
    Retention(Retention),
    /// A kind that a later version wrote.
    #[serde(other)]
    Other,
}

impl Entry {
    /// The word in the line's `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Entry::Decision(_) => "decision",
            Entry::Outcome(_) => "outcome",
            Entry::Refusal(_) => "refusal",
            Entry::Mode(_) => "mode",
            Entry::Reload(_) => "reload",
            Entry::Start(_) => "start",
            Entry::Stop(_) => "stop",
            Entry::Session(_) => "session",
            Entry::Approval(_) => "approval",
            Entry::Undo(_) => "undo",
            Entry::Note(_) => "note",
            Entry::Checkpoint(_) => "checkpoint",
            Entry::Recovered(_) => "recovered",
            Entry::Resumed(_) => "resumed",
            Entry::Retention(_) => "retention",
            Entry::Other => "other",
        }
    }
}

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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Which call.
    #[serde(flatten)]
    pub call: Arc<Call>,
    /// The harm the tool can do.
    pub risk: RiskLevel,
    /// Whether it can change anything: decides how durable this record is before the call runs.
    pub effect: Effect,
    /// Pins the definition.
    pub definition_hash: String,
    /// Pins the policy that judged.
    pub policy_hash: String,
    /// The keyed digest of the canonical arguments.
    pub arguments_digest: String,
    /// What the caller said makes a repeat of this call the same call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The approval that was used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    /// The rules that decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleRef>,
    /// What the judge saw, redacted.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub facts: Value,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    #[serde(rename = "outcome")]
    pub status: Status,
    /// What went wrong, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureKind>,
    /// The sentence, redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// From the request to the end, in microseconds.
    pub latency_us: u64,
    /// The keyed digest of what the tool answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_digest: Option<String>,
    /// Canonical names of what it changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_touched: Vec<String>,
    /// What was cut from the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncation>,
    /// What it used.
    #[serde(default)]
    pub usage: Usage,
    /// Anything else, redacted: the sandbox tier, the exit code, the time of each stage.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub facts: Value,
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
            facts: Value::Null,
        }
    }
}

/// An outcome with the call it belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// A change of mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModeChange {
    /// The mode that was left.
    pub from: Mode,
    /// The mode that holds now.
    pub to: Mode,
    /// Why.
    pub reason: String,
    /// Who or what decided: a rule's name or a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What the sensors said.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// What became of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReloadResult {
    /// It holds.
    Applied,
    /// It loosens something and waits for a person.
    Waiting,
    /// It was wrong; the last good state holds.
    Rejected,
}

/// A reload of policy, tools or settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reload {
    /// What became of it.
    pub result: ReloadResult,
    /// Pins the policy that holds after it.
    pub policy_hash: String,
    /// Why it was rejected or waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What changed.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub changes: Value,
}

/// A start of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Its version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Anything else: policy hash, sandbox tier, settings.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// A stop of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// Why.
    pub reason: String,
}

/// Something that happened to a worker session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Names the session.
    pub id: String,
    /// `opened`, `closed` or a word of the owner's.
    pub event: String,
    /// Its budgets and allowlist.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// Something that happened to an approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Names the approval.
    pub id: String,
    /// `requested`, `granted`, `denied`, `expired`, `used` or a word of the owner's.
    pub event: String,
    /// The call that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// The tool it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The digest of what was shown and will run.
    pub digest: String,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Anything else, redacted.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// Something that happened to a saved state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Undo {
    /// Names the saved state.
    pub id: String,
    /// `saved`, `restored`, `expired` or a word of the owner's.
    pub event: String,
    /// The call whose effect it reverts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// What is needed to revert, by digest and path.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// Anything else worth keeping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    /// What it is about, in one word.
    pub about: String,
    /// The sentence.
    pub text: String,
    /// The facts.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}
