//! What every call ends in, as the caller sees it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    Arguments, CallId, Failure, FailureKind, Fault, Mode, Refusal, SessionReport, SharedText, TraceContext,
};

/// What a tool hands back when it reached its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// The structured result; matches the tool's output schema.
    pub value: Value,
    /// Canonical names of the files it changed.
    pub files_touched: Vec<String>,
    /// What was cut, and how to get the rest.
    pub truncated: Option<Truncation>,
    /// What it used.
    pub usage: Usage,
    /// The walls it ran in.
    pub sandbox: SandboxTier,
    /// Whether what it changed can be taken back.
    pub undoable: bool,
}

/// A result that was cut says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Truncation {
    /// What is counted.
    #[serde(default)]
    pub unit: CutUnit,
    /// What there was in all.
    pub total: u64,
    /// What was returned.
    pub returned: u64,
    /// How to get the rest.
    pub how_to_continue: String,
}

/// What a tool counts its answer in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CutUnit {
    /// Bytes.
    Bytes,
    /// Characters of a text.
    Characters,
    /// Lines, files, matches: whatever the tool lists.
    #[default]
    Entries,
}

impl CutUnit {
    /// The word in results and measurements.
    pub fn as_str(self) -> &'static str {
        match self {
            CutUnit::Bytes => "bytes",
            CutUnit::Characters => "characters",
            CutUnit::Entries => "entries",
        }
    }
}

/// What a call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Time on a processor, in milliseconds.
    #[serde(default)]
    pub cpu_ms: f64,
    /// The most memory a process of its own had; 0 for a tool that runs inside the daemon.
    #[serde(default)]
    pub max_rss_bytes: u64,
    /// Until the processes of its walls had their orders, in milliseconds; 0 for a tool that runs inside the daemon.
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

/// How confined the tool was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxReport {
    /// How much of it held.
    pub tier: SandboxTier,
}

/// How much confinement a call had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxTier {
    /// It ran in Sinew's own process.
    #[default]
    None,
    /// A process of its own, with less than this platform can give.
    Reduced,
    /// All that this platform can give.
    Full,
}

impl SandboxTier {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            SandboxTier::None => "none",
            SandboxTier::Reduced => "reduced",
            SandboxTier::Full => "full",
        }
    }
}

/// The facts around a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metadata {
    /// Names this call in the ledger and the logs.
    pub call_id: CallId,
    /// The trace it belongs to.
    pub trace_id: SharedText,
    /// The span that is this call.
    pub span_id: SharedText,
    /// The mode it was judged in.
    pub mode: Mode,
    /// Pins the definition that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition_hash: Option<SharedText>,
    /// Pins the policy that judged.
    pub policy_hash: SharedText,
    /// What it changed.
    #[serde(default)]
    pub files_touched: Vec<String>,
    /// Whether `sinew undo` with the id of this call takes back what it changed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undoable: bool,
    /// How confined it was.
    pub sandbox: SandboxReport,
    /// What it used.
    pub usage: Usage,
    /// What was cut.
    pub truncated: Option<Truncation>,
    /// Whether an earlier result was returned.
    pub cached: bool,
    /// The call that this one repeats, and which was not run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Repeat>,
    /// Whether the end of this call is in the ledger. `false` where it could not be written: then nothing but a read
    /// can have run, or the failure says what did; what is owed to the ledger is written when it is back.
    #[serde(default)]
    pub recorded: bool,
    /// What is left of each limit, by its name.
    pub remaining: Map<String, Value>,
    /// The worker session it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionReport>,
    /// The arguments that the user put in the place of the caller's before agreeing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_arguments: Option<Arguments>,
    /// Why it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// Why it failed: kind, whose fault, whether a retry can help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureReport>,
}

/// What is known of an earlier call with the same idempotency key. What its tool answered is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repeat {
    /// The call that was run.
    pub of: CallId,
    /// How it ended: `done`, `failed` or `unknown`.
    pub outcome: String,
    /// When it was decided, in RFC 3339.
    pub at: String,
    /// Stands for what its tool answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_digest: Option<String>,
    /// Whether a human had changed its arguments before it ran.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
}

/// Why a call failed, for a program that must decide what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailureReport {
    /// What went wrong.
    pub kind: FailureKind,
    /// Whose fault it is.
    pub fault: Fault,
    /// Whether the same call may succeed later.
    pub retryable: bool,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Metadata {
    /// The facts known before a call was looked up.
    pub fn new(
        call_id: CallId,
        trace: &TraceContext,
        mode: Mode,
        policy_hash: impl Into<SharedText>,
    ) -> Self {
        Metadata {
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

/// The result of one call, whichever way it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// The tool, as found, or as named where none was found.
    pub tool_name: String,
    /// Whether the tool ran to its end.
    pub success: bool,
    /// What it answered; an empty object unless it succeeded or left something behind.
    pub output: Value,
    /// The sentence, where it did not succeed.
    pub error: Option<String>,
    /// From the first byte of the request to this result.
    pub latency_ms: f64,
    /// The facts around it.
    pub metadata: Metadata,
}

impl ToolResult {
    /// The tool ran to its end.
    pub fn done(tool_name: &str, output: Output, mut metadata: Metadata, latency_ms: f64) -> Self {
        metadata.files_touched = output.files_touched;
        metadata.undoable = output.undoable;
        metadata.truncated = output.truncated;
        metadata.usage = output.usage;
        metadata.sandbox = SandboxReport { tier: output.sandbox };
        let tool_name = tool_name.to_owned();
        ToolResult { tool_name, success: true, output: output.value, error: None, latency_ms, metadata }
    }

    /// The call was not run.
    pub fn refused(refusal: Refusal, mut metadata: Metadata, latency_ms: f64) -> Self {
        let (tool_name, error) = (refusal.tool.clone(), Some(refusal.reason.clone()));
        metadata.refusal = Some(refusal);
        ToolResult { tool_name, success: false, output: json!({}), error, latency_ms, metadata }
    }

    /// The call was started and did not reach its end.
    pub fn failed(tool_name: &str, failure: Failure, mut metadata: Metadata, latency_ms: f64) -> Self {
        let kind = failure.kind;
        let (fault, retryable) = (kind.fault(), kind.retryable());
        metadata.sandbox = SandboxReport { tier: failure.sandbox };
        metadata.failure = Some(FailureReport { kind, fault, retryable, hint: failure.hint });
        metadata.refusal = failure.refusal.map(|refusal| *refusal);
        ToolResult {
            tool_name: tool_name.to_owned(),
            success: false,
            output: failure.output.unwrap_or_else(|| json!({})),
            error: Some(failure.message),
            latency_ms,
            metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_its_word_on_the_wire() {
        for tier in [SandboxTier::None, SandboxTier::Reduced, SandboxTier::Full] {
            let wire = json!({"tier": tier.as_str()});
            assert_eq!(serde_json::to_value(SandboxReport { tier }).unwrap(), wire);
            assert_eq!(serde_json::from_value::<SandboxReport>(wire).unwrap().tier, tier);
        }
        assert_eq!(json!(SandboxReport::default()), json!({"tier": "none"}));
        assert!(serde_json::from_value::<SandboxReport>(json!({"tier": "Full"})).is_err());
    }
}
