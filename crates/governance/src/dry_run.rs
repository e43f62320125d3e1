//! Dry run of a call: decides by its arguments alone, without access to the file system.
//!
//! Used by examples, policy tests and other queries about hypothetical calls.

use std::sync::Arc;

use guardrail::{InputSchema, KnownTool, ValidCall};
use serde_json::Value;
use tool::{Arguments, Refusal, RuleRef, ToolDefinition};

use crate::effective_policy::EffectivePolicy;
use crate::judge::{DecisionInput, PermitDecision, check_typed, decide};
use crate::path_rules;
use crate::policy::Policy;
use crate::reached_path::ReachedPath;
use crate::rule_trace::{RuleTrace, TraceRecorder};
use crate::situation::{RateCounts, Situation, Workspace, WorkspaceAccess, Workspaces};
use crate::tools_file::VerdictKind;

pub use crate::program_access::ProgramAccess;

/// Workspace of a dry run, where relative paths start.
pub const DRY_RUN_WORKSPACE: &str = "/workspace";

/// Result of a dry run, with its reasons.
#[derive(Clone, Debug)]
pub struct DryRunResult {
    /// Verdict.
    pub verdict: VerdictKind,
    /// Refusal that the caller would receive, if the call would be denied.
    pub refusal: Option<Box<Refusal>>,
    /// Rules that require approval, if the verdict is `ask`.
    pub approval_rules: Vec<RuleRef>,
    /// Every rule that was evaluated.
    pub trace: RuleTrace,
}

impl DryRunResult {
    /// Returns the verdict and its reason in one line.
    pub fn summary(&self) -> String {
        match (&self.refusal, self.approval_rules.first()) {
            (Some(refusal), _) => format!("deny: {}", refusal.reason),
            (None, Some(rule)) => format!("ask: {}", crate::denial_reason::rule_location(rule)),
            (None, None) => "allow".to_owned(),
        }
    }
}

/// Judges a call as if its paths contained no symbolic links and nothing existed there yet.
pub fn dry_run(policy: &Policy, situation: &Situation<'_>, call: &ValidCall) -> DryRunResult {
    let mut trace = RuleTrace::enabled();
    dry_run_traced(policy, situation, call, &mut trace).with_trace(trace)
}

/// Like `dry_run`, without the reasons. A search that judges many calls rarely needs reasons.
pub fn dry_run_verdict(policy: &Policy, situation: &Situation<'_>, call: &ValidCall) -> VerdictKind {
    dry_run_traced(policy, situation, call, &mut RuleTrace::disabled()).verdict
}

fn dry_run_traced(
    policy: &Policy,
    situation: &Situation<'_>,
    call: &ValidCall,
    trace: &mut RuleTrace,
) -> DryRunResult {
    let effective_policy = EffectivePolicy::new(policy, call.definition());
    let mut notes = TraceRecorder::new(trace);
    let judged = check_typed(&effective_policy, situation, call.arguments(), &mut notes).and_then(|named| {
        let reached: Vec<ReachedPath> = named.path_requests.iter().map(ReachedPath::from_request).collect();
        let content_bytes = path_rules::content_bytes(call.arguments());
        let (requests, targets) = (&named.path_requests, &named.external_targets);
        let facts = DecisionInput {
            path_requests: requests,
            reached_paths: &reached,
            external_targets: targets,
            content_bytes,
        };
        decide(&effective_policy, situation, &facts, &mut notes)
    });
    dry_run_result(&effective_policy, judged, notes)
}

/// Converts a decision to a dry run result.
pub(crate) fn dry_run_result(
    effective_policy: &EffectivePolicy<'_>,
    judged: Result<PermitDecision, crate::denial_reason::DenialReason>,
    mut notes: TraceRecorder<'_>,
) -> DryRunResult {
    let (verdict, refusal, approval_rules) = match judged {
        Err(denial_reason) => {
            notes.record_denied(effective_policy.definition, &denial_reason);
            let tool = effective_policy.definition.name().as_str();
            (VerdictKind::Deny, Some(denial_reason.into_refusal(tool)), Vec::new())
        }
        Ok(decision) if decision.approval_rules.is_empty() => (VerdictKind::Allow, None, Vec::new()),
        Ok(decision) => (VerdictKind::Ask, None, decision.approval_rules),
    };
    DryRunResult { verdict, refusal, approval_rules, trace: RuleTrace::disabled() }
}

impl DryRunResult {
    pub(crate) fn with_trace(self, trace: RuleTrace) -> Self {
        DryRunResult { trace, ..self }
    }
}

/// Returns the workspaces of a dry run that names none.
pub fn dry_run_workspaces() -> Workspaces {
    Workspaces::new(vec![Workspace::hypothetical(DRY_RUN_WORKSPACE, WorkspaceAccess::ReadWrite)])
}

impl Policy {
    /// Runs a dry run of a call with these arguments. Fails with the reason of the guardrail if the arguments
    /// are not a valid call.
    pub fn dry_run_arguments(
        &self,
        definition: &Arc<ToolDefinition>,
        arguments: &Arguments,
        mode: tool::Mode,
        workspaces: &Workspaces,
    ) -> Result<DryRunResult, String> {
        let schema = InputSchema::compile(definition.input_schema()).map_err(|error| error.to_string())?;
        self.dry_run_with_schema(KnownTool { definition, schema: &schema }, arguments, mode, workspaces)
    }

    /// Like `dry_run_arguments`, for a tool whose schema is already compiled.
    pub fn dry_run_with_schema(
        &self,
        known: KnownTool<'_>,
        arguments: &Arguments,
        mode: tool::Mode,
        workspaces: &Workspaces,
    ) -> Result<DryRunResult, String> {
        let arguments = Value::Object(arguments.clone());
        let checked = guardrail::check(known.definition, known.schema, arguments);
        let call = checked.map_err(|refusal| refusal.reason)?;
        let situation = Situation { mode, workspaces, counts: RateCounts::default() };
        Ok(dry_run(self, &situation, &call))
    }
}
