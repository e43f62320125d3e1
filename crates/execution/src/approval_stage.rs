//! The approval stage of the pipeline: requests approval, waits for the decision, and consumes the approval
//! right before the call runs.
//!
//! A waiting call holds no resources. After an approval it runs through the pipeline again from the start, so
//! that mode, rate limits, bounds and effect are those of the moment in which it runs.

mod argument_edit;
mod forecast;

use std::sync::Arc;
use std::time::{Duration, Instant};

use approvals::edits::EditReceiver;
use approvals::refusals::{
    EarlierRequest, denied_before_refusal, pending_refusal, rule_expired_refusal, unusable_refusal,
};
use approvals::{
    ApprovalBasis, ApprovalClaim, ApprovalMode, ApprovalRef, Approvals, CallEffect, RequestedCall,
    SubmitError, UnusableApproval, new_approval_id, rule_names,
};
use governance::{ApprovalRequired, Permit};
use serde_json::json;
use telemetry::{SpanNote, Stage};
use tool::{Arguments, Failure, ProgressNote, Refusal, RefusalCode};

pub(crate) use forecast::{ApprovalForecast, EffectPolicy, forecast};

use crate::call::PipelineCall;
use crate::calls::{CallState, StoppedBy};
use crate::pipeline::{PipelineHalt, StageContext};
use crate::recorder;
use crate::secret_screening;
use crate::sessions;
use crate::slots::CallLength;
use argument_edit::apply_edit;

/// Returns the permit of a call that requires approval: by the approval that the call references, by a
/// standing rule, or after a wait for the decision and another run through the pipeline.
pub(crate) async fn approve(
    cx: &StageContext<'_>,
    question: ApprovalRequired,
) -> Result<(Permit, ApprovalBasis), PipelineHalt> {
    let call = cx.call;
    call.keep_denial_facts(&question.facts());
    let rules = rule_names(question.approval_rules());
    if let ApprovalMode::Never = call.approval_mode {
        // If the call could not be shown to the operator anyway, that is the reason to report.
        let (question, effect) = compute_effect_for_request(cx, question).await?;
        check_showable(cx, &question, &effect)?;
        return Err(Box::new(question.no_approver_refusal()).into());
    }
    let Some(approval_ref) = &call.approval_ref else {
        return request_approval(cx, question, rules).await;
    };
    match cx.approvals.check_usable(&approval_ref.id, &call.header.caller) {
        Ok(()) => {
            let approval_ref = approval_ref.clone();
            Ok((question.into_permit(), ApprovalBasis::Once { approval_ref, rules }))
        }
        Err(UnusableApproval::Pending) => {
            let (question, effect) = compute_effect(cx, question, ApprovalRequired::permit).await?;
            if cx.approvals.is_for_effect(&approval_ref.id, &effect) {
                let arguments = question.call().arguments().clone();
                drop((question, effect));
                if !call.approval_mode.waits() {
                    return Err(pending_refusal(&call.tool_name, &approval_ref.id, "asked").into());
                }
                let edits = begin_waiting(cx, &approval_ref.id);
                return Err(wait_for_decision(cx, approval_ref, arguments, edits).await);
            }
            if !approval_ref.is_own {
                return Err(
                    unusable_refusal(&call.tool_name, &approval_ref.id, &UnusableApproval::Mismatch).into()
                );
            }
            cx.approvals.void(&approval_ref.id, EFFECT_CHANGED).await;
            request_approval(cx, question, rules).await
        }
        // The approval was used by a run that was interrupted before it began, or the request was withdrawn
        // because the effect has changed.
        Err(UnusableApproval::Used | UnusableApproval::Void(_)) if approval_ref.is_own => {
            request_approval(cx, question, rules).await
        }
        Err(why) => Err(unusable_refusal(&call.tool_name, &approval_ref.id, &why).into()),
    }
}

/// Interval of progress notes while a call waits.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
const EFFECT_CHANGED: &str = "the effect of the call has changed since approval was requested";

/// Consumes the approval if it still matches the effect of the call. This is the last step before the
/// decision is recorded and the call runs. Returns the id of the approval or of the standing rule.
pub(crate) async fn consume_approval(
    cx: &StageContext<'_>,
    permit: Permit,
    approved: &ApprovalBasis,
) -> Result<(Permit, String), PipelineHalt> {
    let call = cx.call;
    let (permit, effect) = compute_effect(cx, permit, |permit| permit).await?;
    let again = |permit: &Permit| PipelineHalt::Rejudge(permit.call().arguments().clone(), None);
    match approved {
        ApprovalBasis::ByRule { rules } => {
            let header = call.ledger_call_for(permit.call().definition());
            let covering = cx.approvals.covering_rule(&effect, &header, &permit, rules);
            // Revoked or expired in the meantime: the call is refused, and requests approval when it is
            // repeated.
            let id = covering.ok_or_else(|| rule_expired_refusal(&call.tool_name))?;
            Ok((permit.with_previewed_arguments(effect.into_rewritten()), id))
        }
        ApprovalBasis::Once { approval_ref, rules } => {
            let digest = effect.digest().to_owned();
            let claim = ApprovalClaim { caller: &call.header.caller, digest: &digest, rules };
            match cx.approvals.consume(&approval_ref.id, claim).await {
                Ok(Ok(())) => {
                    Ok((permit.with_previewed_arguments(effect.into_rewritten()), approval_ref.id.clone()))
                }
                Ok(Err(UnusableApproval::Mismatch)) if approval_ref.is_own => {
                    cx.approvals.void(&approval_ref.id, EFFECT_CHANGED).await;
                    Err(again(&permit))
                }
                Ok(Err(why)) => Err(unusable_refusal(&call.tool_name, &approval_ref.id, &why).into()),
                Err(error) => Err(recorder::ledger_unavailable(&call.tool_name, &error).into()),
            }
        }
    }
}

/// Requests approval, unless a standing rule covers the call.
async fn request_approval(
    cx: &StageContext<'_>,
    question: ApprovalRequired,
    rules: Vec<String>,
) -> Result<(Permit, ApprovalBasis), PipelineHalt> {
    let call = cx.call;
    let (question, effect) = compute_effect_for_request(cx, question).await?;
    let header = call.ledger_call_for(question.call().definition());
    if cx.approvals.covering_rule(&effect, &header, question.permit(), &rules).is_some() {
        return Ok((question.into_permit(), ApprovalBasis::ByRule { rules }));
    }
    let (id, arguments) = (new_approval_id(), question.call().arguments().clone());
    match find_earlier(cx, &effect) {
        Some(EarlierRequest::Denied { id, message }) => {
            return Err(denied_before_refusal(&call.tool_name, &id, message).into());
        }
        // The call continues where an identical one left off, and takes over its request.
        Some(EarlierRequest::Open { id, .. }) => {
            return Err(PipelineHalt::Rejudge(arguments, Some(ApprovalRef { id, is_own: true })));
        }
        None => {}
    }
    // Opened before the request is visible, so that the operator never finds a request whose call does not
    // wait yet.
    let edits = call.approval_mode.waits().then(|| begin_waiting(cx, &id));
    let approval_ref = submit_request(cx, &question, &effect, (&id, ArgumentOrigin::Caller)).await?;
    drop((question, effect));
    match edits {
        Some(edits) => Err(wait_for_decision(cx, &approval_ref, arguments, edits).await),
        // A caller that does not wait gets the approval id to repeat the call with.
        None => Err(pending_refusal(&call.tool_name, &id, "asked").into()),
    }
}

/// Finds an earlier request of the same caller for the same effect, which answers this call. A request of a call that is
/// still active belongs to that call alone.
fn find_earlier(cx: &StageContext<'_>, effect: &CallEffect) -> Option<EarlierRequest> {
    let earlier = cx.approvals.find_earlier(effect, &cx.call.header.caller)?;
    match &earlier {
        EarlierRequest::Open { id, by } if cx.approvals.is_awaited(id) || cx.active_calls.has(*by) => None,
        EarlierRequest::Open { .. } | EarlierRequest::Denied { .. } => Some(earlier),
    }
}

/// Marks the call as waiting for this decision and opens its edit channel.
fn begin_waiting<'a>(cx: &StageContext<'a>, id: &'a str) -> EditReceiver<'a> {
    let edits = cx.approvals.open_edits(id);
    cx.active_calls.set_state(&cx.call.tracker, CallState::Suspended { approval_id: id.to_owned() });
    sessions::cancel_if_closed(cx.call);
    edits
}

/// Origin of the arguments of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ArgumentOrigin {
    Caller,
    Operator,
}

/// Checks that a call can be shown to the operator.
fn check_showable(
    cx: &StageContext<'_>,
    question: &ApprovalRequired,
    effect: &CallEffect,
) -> Result<(), Box<Refusal>> {
    let call = cx.call;
    let header = call.ledger_call_for(question.call().definition());
    let requested =
        RequestedCall { call: &header, question, effect, timeout: request_timeout(call), edited: false };
    cx.approvals.check_showable(requested).map_err(|refusal| call.as_typed(refusal))
}

/// Submits a request for approval.
async fn submit_request(
    cx: &StageContext<'_>,
    question: &ApprovalRequired,
    effect: &CallEffect,
    (id, origin): (&str, ArgumentOrigin),
) -> Result<ApprovalRef, Box<Refusal>> {
    let call = cx.call;
    let header = call.ledger_call_for(question.call().definition());
    let (timeout, edited) = (request_timeout(call), origin == ArgumentOrigin::Operator);
    let requested = RequestedCall { call: &header, question, effect, timeout, edited };
    let charge = |bytes| charge_records(cx, bytes);
    match cx.approvals.submit(id, requested, charge).await {
        Ok(()) => Ok(ApprovalRef { id: id.to_owned(), is_own: true }),
        Err(SubmitError::Refused(refusal)) => Err(call.as_typed(refusal)),
        Err(SubmitError::NotRecorded(error)) => Err(recorder::ledger_unavailable(&call.tool_name, &error)),
    }
}

/// Time until a request of this call expires. The deadline of a caller that waits counts too.
fn request_timeout(call: &PipelineCall) -> Duration {
    let limit = call.snapshot.policy.approval_timeout();
    if call.approval_mode == ApprovalMode::Async { limit } else { call.time_left(limit) }
}

/// Charges a record to the budget of its caller, or refuses the call.
fn charge_records(cx: &StageContext<'_>, bytes: usize) -> Result<(), Box<Refusal>> {
    cx.recorder.bookkeeping.charge(&cx.call.header.caller, bytes).map_err(|throttled| {
        let reason =
            "Permission denied: The records of this caller's approval requests exceed their budget in the ledger";
        let refusal =
            Refusal::new(&cx.call.tool_name, RefusalCode::RateLimited, reason).with_detail("record_budget");
        let refusal = refusal.with_hint("nothing was run; try again later");
        Box::new(Refusal { retry_after_ms: Some(throttled.retry_after_ms), ..refusal })
    })
}

/// Waits for a decision. If the mode or the policy changes, the call is judged again at once.
async fn wait_for_decision(
    cx: &StageContext<'_>,
    approval_ref: &ApprovalRef,
    arguments: Arguments,
    mut edits: EditReceiver<'_>,
) -> PipelineHalt {
    let call = cx.call;
    let _timing = call.span.stage(Stage::Approve);
    call.span.add_note(SpanNote::Approval(&approval_ref.id));
    let mut heartbeat = tokio::time::interval(HEARTBEAT_INTERVAL);
    let answer_at = match call.approval_mode {
        ApprovalMode::WaitAtMost(limit) => Some(call.started + limit),
        ApprovalMode::Wait | ApprovalMode::Async | ApprovalMode::Never => None,
    };
    let approvals = cx.approvals;
    // Subscribed before the first check, so that no decision is missed in between.
    let (mut answers, mut changes) = (approvals.subscribe(), cx.current.changes.subscribe());
    loop {
        match approvals.check_usable(&approval_ref.id, &call.header.caller) {
            Ok(()) => {
                call.progress.report(approved_note(&approval_ref.id));
                return PipelineHalt::Rejudge(arguments, Some(approval_ref.clone()));
            }
            Err(UnusableApproval::Pending) => {}
            Err(why) => {
                approvals.record_expired().await;
                return unusable_refusal(&call.tool_name, &approval_ref.id, &why).into();
            }
        }
        if cx.current.has_changed_since(call) {
            return PipelineHalt::Rejudge(arguments, Some(approval_ref.clone()));
        }
        // The deadline of the caller counts too: the request may be older than this call.
        let left = call.time_left(approvals.time_left(&approval_ref.id));
        if left.is_zero() && call.time_left(Duration::MAX).is_zero() {
            return handle_deadline(cx, approval_ref).await;
        }
        tokio::select! {
            biased;
            by = call.tracker.stop().wait() => {
                if by == StoppedBy::LostConnection {
                    // The request stays: the caller may use the decision on another connection.
                    return pending_refusal(&call.tool_name, &approval_ref.id, "client_gone").into();
                }
                if approval_ref.is_own {
                    approvals.void(&approval_ref.id, "the requesting call was cancelled").await;
                }
                return by.refusal(&call.tool_name, call.header.mode).into();
            }
            () = approvals.closed() => return pending_refusal(&call.tool_name, &approval_ref.id, "shutting_down").into(),
            _ = answers.changed() => {}
            _ = changes.changed() => {}
            Some(edit) = edits.next() => {
                if let Some(halt) = apply_edit(cx, approval_ref, edit).await {
                    return halt;
                }
            }
            _ = heartbeat.tick() => call.progress.report(waiting_note(&approval_ref.id, left)),
            // The client's timeout would soon end the call. The request stays open, and a repeated call
            // continues with it.
            () = sleep_until(answer_at) => {
                return pending_refusal(&call.tool_name, &approval_ref.id, "waiting").into();
            }
            () = tokio::time::sleep(left) => {}
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Handles the deadline of the caller. A request created by this call expires with it.
async fn handle_deadline(cx: &StageContext<'_>, approval_ref: &ApprovalRef) -> PipelineHalt {
    cx.approvals.record_expired().await;
    if approval_ref.is_own {
        return unusable_refusal(&cx.call.tool_name, &approval_ref.id, &UnusableApproval::Expired).into();
    }
    pending_refusal(&cx.call.tool_name, &approval_ref.id, "deadline_passed").into()
}

/// Withdraws the request of a call that ended without a decision, so that the operator is not asked about a
/// finished call.
pub(crate) async fn withdraw_undecided(
    approvals: &Approvals,
    call: &PipelineCall,
    ended: Option<RefusalCode>,
) {
    let Some(approval_ref) = call.approval_ref.as_ref().filter(|approval_ref| approval_ref.is_own) else {
        return;
    };
    if ended != Some(RefusalCode::ApprovalPending) {
        approvals.void(&approval_ref.id, "the requesting call ended before a decision").await;
    }
}

/// Computes the effect of a call that requires approval. A refusal names the rule that requires the approval.
async fn compute_effect_for_request(
    cx: &StageContext<'_>,
    question: ApprovalRequired,
) -> Result<(ApprovalRequired, CallEffect), Box<Refusal>> {
    let asked_by = question.approval_rules().first().cloned();
    let computed = compute_effect(cx, question, ApprovalRequired::permit).await;
    computed.map_err(|refusal| Box::new(Refusal { rule: asked_by, ..*refusal }))
}

/// Computes the effect of a call on the blocking pool.
async fn compute_effect<T: Send + 'static>(
    cx: &StageContext<'_>,
    judged: T,
    permit: fn(&T) -> &Permit,
) -> Result<(T, CallEffect), Box<Refusal>> {
    let call = cx.call;
    let (tool, ledger, mode) = (Arc::clone(cx.tool), Arc::clone(&cx.recorder.ledger), cx.call.header.mode);
    let computing = async {
        let slot = cx.capacity.opening_slots.acquire(&call.caller_key, CallLength::Short).await;
        tokio::task::spawn_blocking(move || {
            let effect = CallEffect::compute(&tool, permit(&judged), mode, &ledger);
            drop(slot);
            (judged, effect)
        })
        .await
    };
    let failed = || {
        let reason = "Sinew failed to compute the effect of the call";
        Box::new(
            Refusal::new(&call.tool_name, RefusalCode::ResourceExhausted, reason)
                .with_detail("internal_fault"),
        )
    };
    let (judged, effect) = call.within_deadline(computing).await?.map_err(|_| failed())?;
    match effect {
        Ok(effect) => Ok((judged, effect)),
        Err(failure) => Err(preview_failure_refusal(call, failure)),
    }
}

/// Progress note that keeps a client from treating a waiting call as hung.
fn waiting_note(id: &str, left: Duration) -> ProgressNote {
    let left = left.as_secs();
    let message = format!(
        "waiting for approval {id}: the operator approves with `sinew approve {id}` (at most {left} s)"
    );
    ProgressNote { data: Some(json!({"approval_id": id})), ..ProgressNote::with_message(message) }
}

/// Progress note that informs a client that its call no longer waits.
fn approved_note(id: &str) -> ProgressNote {
    let data = Some(json!({"approval_id": id, "approved": true}));
    ProgressNote {
        data,
        ..ProgressNote::with_message(format!("approval request {id} is approved: the call continues"))
    }
}

/// Refusal of a call whose effect cannot be computed. The failure text of the tool is limited and screened as
/// after a run.
fn preview_failure_refusal(call: &PipelineCall, failure: Failure) -> Box<Refusal> {
    let failure = secret_screening::limit_failure(failure, 0);
    let reason = format!(
        "Permission denied: Approval is required, but the effect of the call cannot be determined: {}",
        failure.message
    );
    let refusal = Refusal::new(&call.tool_name, RefusalCode::Conflict, reason).with_detail("not_foreseeable");
    Box::new(match &failure.hint {
        Some(hint) => refusal.with_hint(hint),
        None => refusal,
    })
}
