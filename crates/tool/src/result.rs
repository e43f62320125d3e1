//! Result of a call, as the caller receives it.

mod model_content;
mod session_report;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use model_content::{ModelContent, ModelText, text_block};
pub use session_report::{CostCapReport, SessionReport, UntrustedMarkers, fresh_session_id};

use crate::text::SharedText;
use crate::{Arguments, CallId, Failure, FailureKind, FaultParty, Mode, Refusal, TraceContext};

/// Output of a tool that completed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// Structured result, which matches the output schema of the tool.
    pub value: Value,
    /// MCP content blocks of the server behind the tool, which MCP clients receive instead of text made from
    /// the value.
    pub content: Vec<Value>,
    /// Canonical names of the files the tool changed.
    pub files_touched: Vec<String>,
    /// Truncation of the result, and how to get the rest.
    pub truncated: Option<Truncation>,
    /// Resources the tool used.
    pub usage: Usage,
    /// Sandbox tier the tool ran in.
    pub sandbox: SandboxTier,
    /// True if the changes can be undone.
    pub undoable: bool,
}

/// Description of a truncated result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Truncation {
    /// Unit of the counts.
    #[serde(default)]
    pub unit: TruncationUnit,
    /// Total amount.
    pub total: u64,
    /// Amount returned.
    pub returned: u64,
    /// Instructions for getting the rest.
    pub how_to_continue: String,
}

/// Unit in which a result is counted and truncated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TruncationUnit {
    /// Bytes.
    Bytes,
    /// Characters.
    Characters,
    /// Items that the tool lists, such as lines, files or matches.
    #[default]
    Entries,
}

impl TruncationUnit {
    /// Returns the word used in results and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            TruncationUnit::Bytes => "bytes",
            TruncationUnit::Characters => "characters",
            TruncationUnit::Entries => "entries",
        }
    }
}

/// Resources used by a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// CPU time in milliseconds.
    #[serde(default)]
    pub cpu_ms: f64,
    /// Peak memory of the tool's own process; 0 for a tool that runs inside the daemon.
    #[serde(default)]
    pub max_rss_bytes: u64,
    /// Time until the sandboxed processes were set up, in milliseconds; 0 for a tool that runs inside the
    /// daemon.
    #[serde(default, skip_serializing_if = "is_none")]
    pub confine_ms: f64,
    /// Bytes read from files.
    pub read_bytes: u64,
    /// Bytes written to files.
    pub written_bytes: u64,
}

fn is_none(milliseconds: &f64) -> bool {
    *milliseconds <= 0.0
}

/// Sandbox that the tool ran in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxReport {
    /// Degree of confinement that was in force.
    pub tier: SandboxTier,
}

/// Degree of confinement of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxTier {
    /// The tool ran in Sinew's own process.
    #[default]
    None,
    /// A separate process, with less confinement than this platform supports.
    Reduced,
    /// All confinement that this platform supports.
    Full,
}

impl SandboxTier {
    /// Returns the word used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            SandboxTier::None => "none",
            SandboxTier::Reduced => "reduced",
            SandboxTier::Full => "full",
        }
    }
}

/// Metadata of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResultMetadata {
    /// Id of this call in the ledger and the logs.
    pub call_id: CallId,
    /// Trace the call belongs to.
    pub trace_id: SharedText,
    /// Span of this call.
    pub span_id: SharedText,
    /// Mode in which the call was judged.
    pub mode: Mode,
    /// Digest of the definition that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition_hash: Option<SharedText>,
    /// Digest of the policy that judged the call.
    pub policy_hash: SharedText,
    /// Files the call changed.
    #[serde(default)]
    pub files_touched: Vec<String>,
    /// True if `sinew undo` with the id of this call reverts its changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undoable: bool,
    /// Sandbox of the call.
    pub sandbox: SandboxReport,
    /// Resources the call used.
    pub usage: Usage,
    /// Truncation of the output.
    pub truncated: Option<Truncation>,
    /// True if an earlier result was returned.
    pub cached: bool,
    /// Earlier call that this one repeats and that was not run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<RepeatedCall>,
    /// True if the outcome of this call is in the ledger. If false, either only a read ran, or the failure
    /// states what ran; the ledger entry is written once the ledger is available again.
    #[serde(default)]
    pub recorded: bool,
    /// Remaining amount of each limit, by its name.
    pub remaining: Map<String, Value>,
    /// Worker session of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionReport>,
    /// Arguments that the operator substituted for the caller's before approving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_arguments: Option<Arguments>,
    /// Reason for a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// Reason for a failure: kind, responsible party, and if a retry can help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureReport>,
}

/// Earlier call with the same idempotency key. The output of its tool is not stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RepeatedCall {
    /// Id of the call that ran.
    pub of: CallId,
    /// Outcome: `done`, `failed` or `unknown`.
    pub outcome: String,
    /// Time of the decision, in RFC 3339.
    pub at: String,
    /// Digest of the output of its tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_digest: Option<String>,
    /// True if the operator had changed its arguments before it ran.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
}

/// Reason for a failure, for programs that decide what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureReport {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Party responsible for the failure.
    pub fault: FaultParty,
    /// True if the same call may succeed later.
    pub retryable: bool,
    /// Advice on what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Effect of the call, where the kind does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<FailedOutcome>,
}

/// Effect of a call that failed, as the ledger records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailedOutcome {
    /// The tool was not started, so nothing happened.
    NotStarted,
    /// The call was cut short; all, part or none of its effect happened.
    Unknown,
}

impl ResultMetadata {
    /// Creates the metadata known before the tool is looked up.
    pub fn new(
        call_id: CallId,
        trace: &TraceContext,
        mode: Mode,
        policy_hash: impl Into<SharedText>,
    ) -> Self {
        ResultMetadata {
            call_id,
            trace_id: trace.trace_id.clone(),
            span_id: trace.span_id.clone(),
            mode,
            definition_hash: None,
            policy_hash: policy_hash.into(),
            files_touched: Vec::new(),
            undoable: false,
            sandbox: SandboxReport::default(),
            usage: Usage::default(),
            truncated: None,
            cached: false,
            repeat: None,
            recorded: false,
            remaining: Map::new(),
            session: None,
            edited_arguments: None,
            refusal: None,
            failure: None,
        }
    }
}

/// Result of one call, for every outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// Canonical name of the tool, or the name in the call if no tool was found.
    pub tool_name: String,
    /// True if the tool completed.
    pub success: bool,
    /// Output of the tool; an empty object for a failure without partial output.
    pub output: Value,
    /// Form of the output for a language model.
    #[serde(skip)]
    pub model_content: ModelContent,
    /// Error message if the call did not succeed.
    pub error: Option<String>,
    /// Time from the first byte of the request to this result, in milliseconds.
    pub latency_ms: f64,
    /// Metadata of the result.
    pub metadata: ResultMetadata,
}

impl ToolResult {
    /// Creates the result of a tool that completed.
    pub fn done(tool_name: &str, output: ToolOutput, mut metadata: ResultMetadata, latency_ms: f64) -> Self {
        metadata.files_touched = output.files_touched;
        metadata.undoable = output.undoable;
        metadata.truncated = output.truncated;
        metadata.usage = output.usage;
        metadata.sandbox = SandboxReport { tier: output.sandbox };
        ToolResult {
            tool_name: tool_name.to_owned(),
            success: true,
            output: output.value,
            model_content: ModelContent::from_blocks(output.content),
            error: None,
            latency_ms,
            metadata,
        }
    }

    /// Creates the result of a call that was not run.
    pub fn refused(refusal: Refusal, mut metadata: ResultMetadata, latency_ms: f64) -> Self {
        let (tool_name, error) = (refusal.tool.clone(), Some(refusal.reason.clone()));
        metadata.refusal = Some(refusal);
        let model_content = ModelContent::Json;
        ToolResult {
            tool_name,
            success: false,
            output: json!({}),
            model_content,
            error,
            latency_ms,
            metadata,
        }
    }

    /// Creates the result of a call that started and did not complete.
    pub fn failed(tool_name: &str, failure: Failure, mut metadata: ResultMetadata, latency_ms: f64) -> Self {
        let (kind, fault) = (failure.kind, failure.fault());
        let retryable = kind.is_retryable();
        metadata.sandbox = SandboxReport { tier: failure.sandbox };
        metadata.failure = Some(FailureReport { kind, fault, retryable, hint: failure.hint, outcome: None });
        metadata.refusal = failure.refusal.map(|refusal| *refusal);
        ToolResult {
            tool_name: tool_name.to_owned(),
            success: false,
            output: failure.output.unwrap_or_else(|| json!({})),
            model_content: ModelContent::from_blocks(failure.content),
            error: Some(failure.message),
            latency_ms,
            metadata,
        }
    }

    /// Sets the function that renders the output as text, unless the result has content blocks.
    #[must_use]
    pub fn with_model_text(mut self, render: Option<ModelText>) -> Self {
        if let (ModelContent::Json, Some(render)) = (&self.model_content, render) {
            self.model_content = ModelContent::Text(render);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sandbox_tier_matches_its_wire_word() {
        for tier in [SandboxTier::None, SandboxTier::Reduced, SandboxTier::Full] {
            let wire = json!({"tier": tier.as_str()});
            assert_eq!(serde_json::to_value(SandboxReport { tier }).unwrap(), wire);
            assert_eq!(serde_json::from_value::<SandboxReport>(wire).unwrap().tier, tier);
        }
        assert_eq!(json!(SandboxReport::default()), json!({"tier": "none"}));
        assert!(serde_json::from_value::<SandboxReport>(json!({"tier": "Full"})).is_err());
    }
}
