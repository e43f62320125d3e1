//! Entries about everything except calls.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::{CallId, Mode};

/// Change of mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModeChange {
    /// Mode before the change.
    pub from: Mode,
    /// Mode after the change.
    pub to: Mode,
    /// Reason for the change.
    pub reason: String,
    /// Rule or person that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Client through which the operator decided, if it is not the command line: `console`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Sensor values behind the change.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// Result of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReloadResult {
    /// The new configuration applies.
    Applied,
    /// The new configuration loosens a rule and waits for the operator's approval.
    Waiting,
    /// The new configuration is invalid; the last valid one stays in effect.
    Rejected,
}

/// Reload of policy, tools or settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReloadEntry {
    /// Result of the reload.
    pub result: ReloadResult,
    /// Hash of the policy in effect afterwards.
    pub policy_hash: String,
    /// Reason why the reload was rejected or waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Changes of the configuration.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub changes: Value,
}

/// Start of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DaemonStart {
    /// Version of the daemon.
    pub version: String,
    /// Process id of the daemon.
    pub pid: u32,
    /// Further data: policy hash, sandbox tier, settings.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// Clean shutdown of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DaemonStop {
    /// Reason for the shutdown.
    pub reason: String,
}

/// Event of a worker session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionEvent {
    /// The session was opened.
    Opened,
    /// The session was closed.
    Closed,
    /// Event of a later version.
    #[serde(other)]
    Other,
}

/// Event record of a worker session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionEntry {
    /// Id of the session.
    pub id: String,
    /// Event that happened.
    pub event: SessionEvent,
    /// Budgets and allowlist of the session.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// Event of an approval, or of a standing approval rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalEvent {
    /// A call requested approval.
    Requested,
    /// The operator approved the call.
    Granted,
    /// The operator created a standing rule that approves matching calls without asking.
    Standing,
    /// The operator denied the call.
    Denied,
    /// The approval request expired.
    Expired,
    /// The approval was consumed by a call.
    Used,
    /// The approval was invalidated.
    Void,
    /// The operator revoked a standing rule.
    Revoked,
    /// Event of a later version. It closes the approval, because an unknown event must not let a call run.
    #[serde(other)]
    Other,
}

impl ApprovalEvent {
    /// Returns true if the approval can still be decided or used after this event.
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

/// Event record of an approval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalEventEntry {
    /// Id of the approval.
    pub id: String,
    /// Event that happened.
    pub event: ApprovalEvent,
    /// Call that requested approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// Tool of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Digest of the call that was shown and will run.
    pub digest: String,
    /// Person or component that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Client through which the operator decided, if it is not the command line: `console`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// Further data, redacted.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// Event record of a saved undo state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UndoEntry {
    /// Id of the saved state.
    pub id: String,
    /// `saved`, `restored`, `expired` or another word of the component that owns the state.
    pub event: String,
    /// Call whose effect it reverts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// Data needed to revert, as digests and paths.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// Any other event worth recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoteEntry {
    /// Subject of the note, in one word.
    pub about: String,
    /// Text of the note.
    pub text: String,
    /// Data of the note.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}
