//! Explains how a call would be decided, without running it.
//!
//! It uses the judge stages of the pipeline, so the explanation is the decision that the call would get.
//! Nothing is reserved or counted, and no tool is started. The ledger records an explanation only if it
//! reveals to an agent something about the content of files that the call would change.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use governance::{ApprovalRequired, Denial, Permit, Verdict};
use registry::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::{Mode, Refusal, RefusalCode, RuleRef};

use crate::approval_stage::{self, ApprovalForecast, EffectPolicy};
use crate::call::{CallRequest, PipelineCall};
use crate::idempotency::{self, EarlierCall};
use crate::layer::ToolExecutionLayer;
use crate::look_up::look_up;
use crate::pipeline::{self, StageContext};
use crate::policy_names;
use crate::throttle::Throttle;

/// Explanation of how a call would be decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Registered name of the tool, or the requested name if there is no such tool.
    pub tool_name: String,
    /// Mode that the call was judged in.
    pub mode: Mode,
    /// Verdict.
    #[serde(flatten)]
    pub finding: ExplainedVerdict,
    /// Rules that led to the verdict, in the order of evaluation.
    pub rules: Vec<RuleRef>,
    /// Hash of the policy that judged the call.
    pub policy_hash: String,
    /// Facts that do not change the verdict, such as services of the tool that the policy refuses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Verdict of an explained call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum ExplainedVerdict {
    /// The call would run. If it ran before with the same idempotency key, its recorded outcome would be
    /// returned.
    Permit,
    /// The operator would be asked for approval.
    Ask {
        /// Refusal that the caller gets if the operator does not answer.
        refusal: Box<Refusal>,
        /// Rules that require the approval.
        asked_by: Vec<RuleRef>,
    },
    /// The call would be refused.
    Deny {
        /// Refusal that the caller would get.
        refusal: Box<Refusal>,
    },
}

impl ExplainedVerdict {
    /// `permit`, `ask` or `deny`.
    pub fn as_str(&self) -> &'static str {
        match self {
            ExplainedVerdict::Permit => "permit",
            ExplainedVerdict::Ask { .. } => "ask",
            ExplainedVerdict::Deny { .. } => "deny",
        }
    }

    /// Refusal, unless the call would run without approval.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            ExplainedVerdict::Permit => None,
            ExplainedVerdict::Ask { refusal, .. } | ExplainedVerdict::Deny { refusal } => Some(refusal),
        }
    }
}

/// Recipient of an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplanationAudience {
    /// The caller. The explanation contains no more than the call itself would reveal, and is recorded in the
    /// same way.
    Caller,
    /// The operator, who may see the content of the files.
    Operator,
}

impl ToolExecutionLayer {
    /// Explains how this call would be decided now, in the current or another mode.
    pub async fn explain(
        &self,
        request: CallRequest,
        mode: Option<Mode>,
        audience: ExplanationAudience,
    ) -> Explanation {
        let (snapshot, mode) = (self.current.snapshot.load_full(), mode.unwrap_or_else(|| self.mode()));
        let (call, arguments) = PipelineCall::judge_only(request, &self.recorder.ledger, snapshot, mode);
        let effect_policy = match audience {
            ExplanationAudience::Operator => EffectPolicy::Unrecorded,
            // An explanation for another mode must not show an agent what the current mode hides.
            ExplanationAudience::Caller if mode == self.mode() => EffectPolicy::Recorded,
            ExplanationAudience::Caller => EffectPolicy::Skip,
        };
        let original_arguments = self.current.recording.is_active().then(|| arguments.clone());
        let (mut call, mut judged) = explain_guarded(self, call, arguments, effect_policy).await;
        let snapshot =
            judged.finding.refusal().and_then(|refusal| self.current.recording_for(&call, refusal));
        if let (Some(snapshot), Some(original)) = (snapshot, original_arguments) {
            let (recorded, mut rejudged) =
                explain_guarded(self, call.with_recording(snapshot), original, effect_policy).await;
            call = recorded;
            // A call that the recording does not permit is refused as if there were none.
            if !matches!(rejudged.finding, ExplainedVerdict::Deny { .. }) {
                rejudged.notes.push("only while calls in this workspace are recorded".to_owned());
                judged = rejudged;
            }
        }
        let ExplainedCall { tool_name, finding, rules, notes } = judged;
        let policy_hash = call.snapshot.policy.hash().to_owned();
        let mut explanation = Explanation { tool_name, mode, finding, rules, policy_hash, notes };
        if audience == ExplanationAudience::Caller {
            policy_names::shorten_in_explanation(&mut explanation);
        }
        explanation
    }
}

/// Verdict on a call, with the registered name of its tool.
struct ExplainedCall {
    tool_name: String,
    finding: ExplainedVerdict,
    rules: Vec<RuleRef>,
    notes: Vec<String>,
}

impl ExplainedCall {
    fn new(tool_name: String, (finding, rules): (ExplainedVerdict, Vec<RuleRef>)) -> Self {
        ExplainedCall { tool_name, finding, rules, notes: Vec::new() }
    }
}

/// Like `explain_call`, and survives a panic in a stage.
async fn explain_guarded(
    layer: &ToolExecutionLayer,
    call: PipelineCall,
    arguments: Value,
    effect_policy: EffectPolicy,
) -> (PipelineCall, ExplainedCall) {
    let judged = AssertUnwindSafe(explain_call(layer, &call, arguments, effect_policy)).catch_unwind().await;
    let fault =
        || ExplainedCall::new(call.tool_name.to_string(), explain_verdict(Err(internal_fault(&call))));
    let judged = judged.unwrap_or_else(|_| fault());
    (call, judged)
}

/// Runs the stages without side effects.
async fn explain_call(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    arguments: Value,
    effect_policy: EffectPolicy,
) -> ExplainedCall {
    let (earlier, tool) = match look_up_admitted(layer, call, &arguments).await {
        Ok(known) => known,
        Err(refusal) => return ExplainedCall::new(refusal.tool.clone(), explain_verdict(Err(refusal))),
    };
    let tool_name = tool.definition().name().to_string();
    if let Some(earlier) = earlier {
        let id = earlier.decision.call.call_id.to_string();
        let rule = RuleRef { file: "ledger".into(), line: 0, id: id.into() };
        return ExplainedCall::new(tool_name, (ExplainedVerdict::Permit, vec![rule]));
    }
    let cx = &layer.stage_context(call, tool);
    let (explained, notes) = match pipeline::check_and_judge(cx, arguments).await {
        Ok(Verdict::ApprovalRequired(question)) => {
            let notes = refused_services(tool, question.permit()).unwrap_or_else(|(_, notes)| notes);
            (explain_approval(cx, &layer.throttle, question, effect_policy).await, notes)
        }
        Ok(Verdict::Permit(permit)) => match refused_services(tool, &permit) {
            Ok(notes) => (explain_verdict(Ok(Verdict::Permit(permit))), notes),
            Err((denial, notes)) => (explain_verdict(Ok(Verdict::Denial(denial))), notes),
        },
        verdict => (explain_verdict(verdict), Vec::new()),
    };
    ExplainedCall { notes, ..ExplainedCall::new(tool_name, explained) }
}

/// Returns a note for each service of the tool that the policy refuses. Fails with the denial of the last one if it
/// refuses all of them: no call can run then.
fn refused_services(tool: &Tool, permit: &Permit) -> Result<Vec<String>, (Denial, Vec<String>)> {
    let (services, mut notes, mut last) = (tool.executor().services(), Vec::new(), None);
    for service in &services {
        if let Err(denial) = permit.may_reach_service(&service.url) {
            let reason = &denial.refusal().reason;
            notes.push(format!("{} ({}) is refused: {reason}", service.name, service.url));
            last = Some(denial);
        }
    }
    match last.filter(|_| notes.len() == services.len()) {
        Some(denial) => Err((denial, notes)),
        None => Ok(notes),
    }
}

/// Admits the call and returns its tool, and the earlier call with the same idempotency key, if any.
async fn look_up_admitted<'a>(
    layer: &ToolExecutionLayer,
    call: &'a PipelineCall,
    arguments: &Value,
) -> Result<(Option<EarlierCall>, &'a Arc<Tool>), Box<Refusal>> {
    layer.check_admission(call)?;
    let earlier =
        idempotency::find_earlier_call(&layer.idempotency_keys, &layer.recorder.ledger, call).await?;
    Ok((earlier, look_up(call, arguments)?))
}

/// Explains a call that requires approval. Some of these calls cannot be shown to the operator and are
/// refused, and some are already approved.
async fn explain_approval(
    cx: &StageContext<'_>,
    throttle: &Throttle,
    question: ApprovalRequired,
    effect_policy: EffectPolicy,
) -> (ExplainedVerdict, Vec<RuleRef>) {
    let (asked_by, mut rules) = (question.approval_rules().to_vec(), question.rules());
    match approval_stage::forecast(cx, throttle, question, effect_policy).await {
        Ok(ApprovalForecast::ApprovalRequired(refusal)) => {
            (ExplainedVerdict::Ask { refusal, asked_by }, rules)
        }
        Ok(ApprovalForecast::AlreadyApproved(answer)) => {
            rules.push(answer);
            (ExplainedVerdict::Permit, rules)
        }
        Err(refusal) => (ExplainedVerdict::Deny { refusal }, rules),
    }
}

/// Converts a verdict to its serialisable form, with the rules that led to it. This closes the paths that
/// were opened for it.
pub(crate) fn explain_verdict(verdict: Result<Verdict, Box<Refusal>>) -> (ExplainedVerdict, Vec<RuleRef>) {
    match verdict {
        Ok(Verdict::Permit(permit)) => (ExplainedVerdict::Permit, permit.rules().to_vec()),
        Ok(Verdict::ApprovalRequired(question)) => {
            let (refusal, asked_by) =
                (Box::new(question.no_approver_refusal()), question.approval_rules().to_vec());
            (ExplainedVerdict::Ask { refusal, asked_by }, question.rules())
        }
        Ok(Verdict::Denial(denial)) => {
            let rules = denial.rules().to_vec();
            (ExplainedVerdict::Deny { refusal: denial.into() }, rules)
        }
        Err(refusal) => {
            let rules = refusal.rule.iter().cloned().collect();
            (ExplainedVerdict::Deny { refusal }, rules)
        }
    }
}

/// Refusal for a panic in a stage: the call itself would have failed in the same way.
pub(crate) fn internal_fault(call: &PipelineCall) -> Box<Refusal> {
    let reason = "an internal fault in Sinew ended this decision";
    let refusal = Refusal::new(&call.tool_name, RefusalCode::ResourceExhausted, reason);
    Box::new(refusal.with_detail("internal_fault").with_hint("see the daemon log for details"))
}
