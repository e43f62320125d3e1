//! Refusal of a call that did not run. All reasons share one shape.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Arguments;

/// Reason for a refusal, as a stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the words are the protocol's
pub enum RefusalCode {
    UnknownTool,
    NotInAllowlist,
    InvalidArguments,
    ValidatorRejected,
    ModeDenied,
    ApprovalDenied,
    ApprovalTimedOut,
    ApprovalPending,
    RateLimited,
    Busy,
    PathForbidden,
    PathNotAllowed,
    CommandNotAllowed,
    DomainNotAllowed,
    TooLarge,
    HopBudgetExhausted,
    CostCapExceeded,
    SandboxUnavailable,
    LedgerUnavailable,
    ResourceExhausted,
    ShuttingDown,
    Conflict,
    Cancelled,
    ControlPlane,
}

impl RefusalCode {
    /// Returns the word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            RefusalCode::UnknownTool => "unknown_tool",
            RefusalCode::NotInAllowlist => "not_in_allowlist",
            RefusalCode::InvalidArguments => "invalid_arguments",
            RefusalCode::ValidatorRejected => "validator_rejected",
            RefusalCode::ModeDenied => "mode_denied",
            RefusalCode::ApprovalDenied => "approval_denied",
            RefusalCode::ApprovalTimedOut => "approval_timed_out",
            RefusalCode::ApprovalPending => "approval_pending",
            RefusalCode::RateLimited => "rate_limited",
            RefusalCode::Busy => "busy",
            RefusalCode::PathForbidden => "path_forbidden",
            RefusalCode::PathNotAllowed => "path_not_allowed",
            RefusalCode::CommandNotAllowed => "command_not_allowed",
            RefusalCode::DomainNotAllowed => "domain_not_allowed",
            RefusalCode::TooLarge => "too_large",
            RefusalCode::HopBudgetExhausted => "hop_budget_exhausted",
            RefusalCode::CostCapExceeded => "cost_cap_exceeded",
            RefusalCode::SandboxUnavailable => "sandbox_unavailable",
            RefusalCode::LedgerUnavailable => "ledger_unavailable",
            RefusalCode::ResourceExhausted => "resource_exhausted",
            RefusalCode::ShuttingDown => "shutting_down",
            RefusalCode::Conflict => "conflict",
            RefusalCode::Cancelled => "cancelled",
            RefusalCode::ControlPlane => "control_plane",
        }
    }

    /// Returns true if the caller can succeed later, or now with other arguments.
    pub fn is_retryable(self) -> bool {
        match self {
            RefusalCode::UnknownTool
            | RefusalCode::InvalidArguments
            | RefusalCode::ValidatorRejected
            | RefusalCode::ApprovalTimedOut
            | RefusalCode::ApprovalPending
            | RefusalCode::RateLimited
            | RefusalCode::Busy
            | RefusalCode::TooLarge
            | RefusalCode::LedgerUnavailable
            | RefusalCode::ResourceExhausted
            | RefusalCode::ShuttingDown
            | RefusalCode::Conflict => true,
            RefusalCode::NotInAllowlist
            | RefusalCode::ModeDenied
            | RefusalCode::ApprovalDenied
            | RefusalCode::PathForbidden
            | RefusalCode::PathNotAllowed
            | RefusalCode::CommandNotAllowed
            | RefusalCode::DomainNotAllowed
            | RefusalCode::HopBudgetExhausted
            | RefusalCode::CostCapExceeded
            | RefusalCode::SandboxUnavailable
            | RefusalCode::Cancelled
            | RefusalCode::ControlPlane => false,
        }
    }
}

impl std::fmt::Display for RefusalCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reference to the rule that decided, which a person can open and change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleRef {
    /// File name, as shown to the operator.
    pub file: Arc<str>,
    /// Line number from 1; 0 for a rule that is not in a file.
    pub line: u64,
    /// Identifier of the rule, such as `write_file.allowed_paths`.
    pub id: Arc<str>,
}

/// Replacement arguments that have been proven to pass where the given ones did not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Repair {
    /// Complete arguments object to send instead.
    pub arguments: Arguments,
    /// Description of the change.
    pub note: String,
}

/// Refusal of a call, with its reason and advice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// Always true, so that a client can distinguish a refusal from other objects.
    pub refused: bool,
    /// Tool name as the caller wrote it.
    pub tool: String,
    /// Stable reason code.
    pub code: RefusalCode,
    /// More specific reason word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Message.
    pub reason: String,
    /// Advice on what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Arguments that would be accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    /// All problems of the arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<ArgumentProblem>,
    /// Message of the schema validator, on schema refusals only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_error: Option<String>,
    /// Proven replacement arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// Rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleRef>,
    /// True if a retry can succeed.
    pub retryable: bool,
    /// Delay before a retry, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Id of the pending approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    /// Trace id, to find the call in logs and traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

impl Refusal {
    /// Creates a refusal with code and message; all other fields are empty.
    pub fn new(tool: &str, code: RefusalCode, reason: impl Into<String>) -> Self {
        Refusal {
            refused: true,
            tool: tool.to_owned(),
            code,
            detail: None,
            reason: reason.into(),
            hint: None,
            example: None,
            problems: Vec::new(),
            schema_error: None,
            repair: None,
            rule: None,
            retryable: code.is_retryable(),
            retry_after_ms: None,
            approval_id: None,
            trace_id: None,
        }
    }

    /// Adds a hint.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a detail word.
    pub fn with_detail(mut self, detail: &str) -> Self {
        self.detail = Some(detail.to_owned());
        self
    }

    /// Adds the rule that decided.
    pub fn with_rule(mut self, rule: RuleRef) -> Self {
        self.rule = Some(rule);
        self
    }
}

/// Value of `got` for a missing field. Part of the wire format; only `is_missing` compares it.
const GOT_NOTHING: &str = "nothing";

/// Problem with one argument of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArgumentProblem {
    /// JSON pointer to the value, or to the position where it is missing.
    pub pointer: String,
    /// Expected type or value.
    pub expected: String,
    /// Type or count that was given, never the value itself.
    pub got: String,
    /// Message that states both.
    pub message: String,
}

impl ArgumentProblem {
    /// Creates the problem of a value that does not meet the schema.
    pub fn new(
        pointer: impl Into<String>,
        expected: impl Into<String>,
        got: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        ArgumentProblem {
            pointer: pointer.into(),
            expected: expected.into(),
            got: got.into(),
            message: message.into(),
        }
    }

    /// Creates the problem of a missing required value; the pointer states where it belongs.
    pub fn missing(
        pointer: impl Into<String>,
        expected: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self::new(pointer, expected, GOT_NOTHING, message)
    }

    /// Returns true if a required value is missing.
    pub fn is_missing(&self) -> bool {
        self.got == GOT_NOTHING
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_value_round_trips_on_the_wire() {
        let absent = ArgumentProblem::missing("/path", "string", "`path` is required");
        let wire = json!({"pointer": "/path", "expected": "string", "got": "nothing",
            "message": "`path` is required"});
        assert_eq!(serde_json::to_value(&absent).unwrap(), wire);
        assert!(serde_json::from_value::<ArgumentProblem>(wire).unwrap().is_missing());
        assert!(
            !ArgumentProblem::new("/path", "string", "null", "/path must be string, not null").is_missing()
        );
    }
}
