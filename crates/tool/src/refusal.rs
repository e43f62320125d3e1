//! A refusal: the caller's side of a call that did not run. One shape for every reason.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Arguments, Problem};

/// Why a call was refused, in one stable word.
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
    /// The word on the wire.
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

    /// Whether the same caller can succeed later, or at once with other arguments.
    pub fn retryable(self) -> bool {
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

/// The rule that decided: a line a person can open and change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleRef {
    /// The file, as the person knows it.
    pub file: Arc<str>,
    /// 1-based; 0 for a rule that stands in no file.
    pub line: u64,
    /// What the rule is called, such as `write_file.allowed_paths`.
    pub id: Arc<str>,
}

/// Arguments that have been proven to pass where the given ones did not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Repair {
    /// The whole arguments object to send instead.
    pub arguments: Arguments,
    /// What was changed.
    pub note: String,
}

/// A call that was not run, and the way out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// Always true: lets a client tell a refusal from any other object.
    pub refused: bool,
    /// The tool as the caller named it.
    pub tool: String,
    /// The stable word.
    pub code: RefusalCode,
    /// A finer word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The sentence.
    pub reason: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Arguments that would be accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    /// Everything that is wrong with the arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<Problem>,
    /// The validator's own words, on schema refusals only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_error: Option<String>,
    /// Proven replacement arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleRef>,
    /// Whether trying again can help.
    pub retryable: bool,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The approval that is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<String>,
    /// For finding the same call in logs and traces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

impl Refusal {
    /// A refusal with its code and sentence; the rest is added by those who know it.
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
            retryable: code.retryable(),
            retry_after_ms: None,
            approval_id: None,
            trace_id: None,
        }
    }

    /// The same refusal with a way out.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same refusal with a finer word.
    pub fn detail(mut self, detail: &str) -> Self {
        self.detail = Some(detail.to_owned());
        self
    }

    /// The same refusal with the rule that decided.
    pub fn rule(mut self, rule: RuleRef) -> Self {
        self.rule = Some(rule);
        self
    }
}
