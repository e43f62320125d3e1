//! The entries about everything but calls.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::{CallId, Mode};

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

/// What can happen to a worker session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionEvent {
    /// It begins.
    Opened,
    /// It is over.
    Closed,
    /// A word of a later version.
    #[serde(other)]
    Other,
}

/// Something that happened to a worker session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Names the session.
    pub id: String,
    /// What.
    pub event: SessionEvent,
    /// Its budgets and allowlist.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// What can happen to an approval, or to a rule that stands for many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalEvent {
    /// A call asks.
    Requested,
    /// A human says yes.
    Granted,
    /// A human makes a rule by which nobody is asked.
    Standing,
    /// A human says no.
    Denied,
    /// Its time is up.
    Expired,
    /// The yes was used up.
    Used,
    /// It was taken back.
    Void,
    /// A human takes a rule back.
    Revoked,
    /// A word of a later version. It ends the approval: what nobody here knows lets nothing run.
    #[serde(other)]
    Other,
}

impl ApprovalEvent {
    /// Whether something can still come of it.
    pub(crate) fn is_open(self) -> bool {
        match self {
            ApprovalEvent::Requested | ApprovalEvent::Granted | ApprovalEvent::Standing => true,
            ApprovalEvent::Denied
            | ApprovalEvent::Expired
            | ApprovalEvent::Used
            | ApprovalEvent::Void
            | ApprovalEvent::Revoked
            | ApprovalEvent::Other => false,
        }
    }
}

/// Something that happened to an approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Names the approval.
    pub id: String,
    /// What.
    pub event: ApprovalEvent,
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
