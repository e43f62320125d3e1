//! Predicts the result of an approval request without submitting it, for `explain`. Follows the same steps as
//! the approval stage up to the point where something would be stored; the request is built and discarded.

use approvals::refusals::{
    EarlierRequest, capacity_refusal, denied_before_refusal, pending_refusal, unusable_refusal,
};
use approvals::{
    ApprovalClaim, ApprovalMode, ApprovalRef, CallEffect, RequestedCall, UnusableApproval, rule_names,
};
use governance::ApprovalRequired;
use ledger::LedgerEntry;
use ledger::entry::NoteEntry;
use registry::Tool;
use serde_json::{Value, json};
use tool::{Refusal, RuleRef};

use super::{charge_records, compute_effect, compute_effect_for_request, find_earlier, request_timeout};
use crate::bookkeeping::size_of;
use crate::call::PipelineCall;
use crate::pipeline::StageContext;
use crate::recorder;
use crate::throttle::Throttle;

/// Predicted result of the approval stage.
pub(crate) enum ApprovalForecast {
    /// The operator would be asked; holds the refusal that the caller gets until then.
    ApprovalRequired(Box<Refusal>),
    /// The call is already approved; names the approval or the standing rule.
    AlreadyApproved(RuleRef),
}

/// Policy for computing the effect of a call. The effect reveals the content of the files that the call would
/// change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EffectPolicy {
    /// Computed and not recorded, for the operator, who may read these files.
    Unrecorded,
    /// Computed and recorded in the ledger, for an agent: the refusal or the request of a real call would be
    /// recorded too.
    Recorded,
    /// Not computed.
    Skip,
}

/// Predicts the result of the approval stage, or returns the refusal that the call would get without a
/// request.
pub(crate) async fn forecast(
    cx: &StageContext<'_>,
    throttle: &Throttle,
    question: ApprovalRequired,
    effect_policy: EffectPolicy,
) -> Result<ApprovalForecast, Box<Refusal>> {
    let call = cx.call;
    // A call that must not request approval does not use an approval either.
    let supplied_ref = call.approval_ref.as_ref().filter(|_| call.approval_mode != ApprovalMode::Never);
    if let Some(approval_ref) = supplied_ref {
        match cx.approvals.check_usable(&approval_ref.id, &call.header.caller) {
            Ok(()) | Err(UnusableApproval::Pending) => {}
            Err(reason) => return Err(unusable_refusal(&call.tool_name, &approval_ref.id, &reason)),
        }
    }
    match effect_policy {
        EffectPolicy::Unrecorded => forecast_with_effect(cx, question, supplied_ref).await,
        EffectPolicy::Recorded => {
            call.keep_denial_facts(&question.facts());
            let preview = forecast_with_effect(cx, question, supplied_ref).await;
            record_explanation(cx, throttle, &preview).await?;
            preview
        }
        EffectPolicy::Skip => forecast_without_effect(cx, &question, supplied_ref),
    }
}

async fn forecast_with_effect(
    cx: &StageContext<'_>,
    question: ApprovalRequired,
    supplied_ref: Option<&ApprovalRef>,
) -> Result<ApprovalForecast, Box<Refusal>> {
    let call = cx.call;
    let rules = rule_names(question.approval_rules());
    if let Some(approval_ref) = supplied_ref {
        let (_question, effect) = compute_effect(cx, question, ApprovalRequired::permit).await?;
        return forecast_with_approval(cx, approval_ref, &effect, &rules);
    }
    let (question, effect) = compute_effect_for_request(cx, question).await?;
    let header = call.ledger_call_for(question.call().definition());
    let (timeout, edited) = (request_timeout(call), false);
    let requested = RequestedCall { call: &header, question: &question, effect: &effect, timeout, edited };
    let submittable = if call.approval_mode == ApprovalMode::Never {
        cx.approvals.check_showable(requested)
    } else {
        if let Some(id) = cx.approvals.covering_rule(&effect, &header, question.permit(), &rules) {
            return Ok(ApprovalForecast::AlreadyApproved(approval_rule_ref(&id)));
        }
        match find_earlier(cx, &effect) {
            Some(EarlierRequest::Denied { id, message }) => {
                return Err(denied_before_refusal(&call.tool_name, &id, message));
            }
            Some(EarlierRequest::Open { id, .. }) => {
                let approval_ref = ApprovalRef { id, is_own: true };
                return forecast_with_approval(cx, &approval_ref, &effect, &rules);
            }
            None => {}
        }
        cx.approvals.check_submittable(requested)
    };
    submittable.map_err(|refusal| call.as_typed(refusal))?;
    Ok(ApprovalForecast::ApprovalRequired(Box::new(question.no_approver_refusal())))
}

/// Predicts the result without the effect, so that it does not depend on the content of files.
fn forecast_without_effect(
    cx: &StageContext<'_>,
    question: &ApprovalRequired,
    supplied_ref: Option<&ApprovalRef>,
) -> Result<ApprovalForecast, Box<Refusal>> {
    let call = cx.call;
    let approvals = cx.approvals;
    let Some(approval_ref) = supplied_ref else {
        let space = approvals.check_capacity(&call.header.caller);
        space.map_err(|full| capacity_refusal(&call.tool_name, full))?;
        return Ok(ApprovalForecast::ApprovalRequired(Box::new(question.no_approver_refusal())));
    };
    Ok(ApprovalForecast::ApprovalRequired(
        match approvals.check_usable(&approval_ref.id, &call.header.caller) {
            Err(UnusableApproval::Pending) => pending_refusal(&call.tool_name, &approval_ref.id, "asked"),
            _ => Box::new(question.no_approver_refusal()),
        },
    ))
}

/// Predicts the result for a call that presents an approval.
fn forecast_with_approval(
    cx: &StageContext<'_>,
    approval_ref: &ApprovalRef,
    effect: &CallEffect,
    rules: &[String],
) -> Result<ApprovalForecast, Box<Refusal>> {
    let call = cx.call;
    let claim = ApprovalClaim { caller: &call.header.caller, digest: effect.digest(), rules };
    match cx.approvals.check_claim(&approval_ref.id, claim) {
        Ok(()) => Ok(ApprovalForecast::AlreadyApproved(approval_rule_ref(&approval_ref.id))),
        Err(UnusableApproval::Pending) if cx.approvals.is_for_effect(&approval_ref.id, effect) => Ok(
            ApprovalForecast::ApprovalRequired(pending_refusal(&call.tool_name, &approval_ref.id, "asked")),
        ),
        Err(UnusableApproval::Pending) => {
            Err(unusable_refusal(&call.tool_name, &approval_ref.id, &UnusableApproval::Mismatch))
        }
        Err(reason) => Err(unusable_refusal(&call.tool_name, &approval_ref.id, &reason)),
    }
}

/// Reference to an approval or a standing rule in the form of a `RuleRef`.
fn approval_rule_ref(id: &str) -> RuleRef {
    RuleRef { file: "approvals".into(), line: 0, id: id.into() }
}

/// Records an explanation for an agent before it is returned. If it cannot be recorded, the caller gets a refusal
/// instead.
///
/// The content of the files that the call would change decides if approval can be requested, so an explanation can
/// confirm a guess at that content. A real call leaves a refusal or a request in the ledger. Explanations are recorded
/// and rate limited too, so that `explain` is not a way to guess without a trace.
pub(super) async fn record_explanation(
    cx: &StageContext<'_>,
    throttle: &Throttle,
    preview: &Result<ApprovalForecast, Box<Refusal>>,
) -> Result<(), Box<Refusal>> {
    let call = cx.call;
    throttle.check_refusal_pace(call)?;
    let entry = LedgerEntry::Note(note(call, cx.tool, preview));
    charge_records(cx, size_of(&entry))?;
    let recorded = cx.recorder.ledger.append(&entry);
    recorded.map(drop).map_err(|error| recorder::ledger_unavailable(&call.tool_name, &error))
}

fn note(call: &PipelineCall, tool: &Tool, preview: &Result<ApprovalForecast, Box<Refusal>>) -> NoteEntry {
    let (verdict, refusal) = match preview {
        Ok(ApprovalForecast::AlreadyApproved(_)) => ("permit", None),
        Ok(ApprovalForecast::ApprovalRequired(_)) => ("ask", None),
        Err(refusal) => ("deny", Some(refusal)),
    };
    let name = tool.definition().name().as_str();
    let on_record = call.ledger_call(name);
    NoteEntry {
        about: "explained".to_owned(),
        text: format!("an agent received an explanation of a call to {name}: {verdict}"),
        data: json!({
            "call_id": on_record.call_id,
            "tool": on_record.tool,
            "mode": on_record.mode,
            "caller": on_record.caller,
            "trace": on_record.trace,
            "arguments_digest": call.arguments_digest,
            "verdict": verdict,
            "code": refusal.map(|refusal| refusal.code),
            "detail": refusal.and_then(|refusal| refusal.detail.clone()),
            "facts": call.denial_facts().unwrap_or(&Value::Null),
        }),
    }
}
