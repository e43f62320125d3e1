//! The approval stage of the pipeline: requests approval, waits for the decision, and consumes the approval
//! right before the call runs.
//!
//! A waiting call holds no resources. After an approval it runs through the pipeline again from the start, so
//! that mode, rate limits, bounds and effect are those of the moment in which it runs.

use std::sync::Arc;
use std::time::Duration;

use governance::{ApprovalRequired, Permit};
use ledger::entry::ApprovalEventEntry;
use registry::Tool;
use serde_json::json;
use telemetry::{SpanNote, Stage, TelemetryEvent, emit};
use tool::{Arguments, CallId, ProgressNote, Refusal, RefusalCode, RuleRef, canonical};

use super::approval_ref::{ApprovalBasis, ApprovalMode, ApprovalRef};
use super::argument_edit::{EditReceiver, apply_edit};
use super::clock::saturating_add;
use super::effect::{self, CallEffect};
use super::queue::{ApprovalClaim, RequestTerms, UnusableApproval};
use super::refusals::{
    capacity_refusal, over_budget, pending_refusal, rule_expired_refusal, unusable_refusal,
};
use super::rule::RuleScope;
use super::{StoredRequest, event_subject};
use crate::bookkeeping::size_of;
use crate::call::PipelineCall;
use crate::calls::CallState;
use crate::layer::ToolExecutionLayer;
use crate::pipeline::PipelineHalt;
use crate::recorder;
use crate::sessions;

/// Returns the permit of a call that requires approval: by the approval that the call references, by a
/// standing rule, or after a wait for the decision and another run through the pipeline.
pub(crate) async fn approve(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    tool: &Arc<Tool>,
    question: ApprovalRequired,
) -> Result<(Permit, ApprovalBasis), PipelineHalt> {
    call.keep_denial_facts(&question.facts());
    let rules = rule_names(question.approval_rules());
    if let ApprovalMode::Never = call.approval_mode {
        // If the call could not be shown to the operator anyway, that is the reason to report.
        let (question, effect) = compute_effect_for_request(layer, call, tool, question).await?;
        prepare_request(
            layer,
            call,
            &question,
            &effect,
            rules,
            (&new_approval_id(), ArgumentOrigin::Caller),
        )?;
        return Err(Box::new(question.no_approver_refusal()).into());
    }
    let Some(approval_ref) = &call.approval_ref else {
        return request_approval(layer, call, tool, question, rules).await;
    };
    match layer.approvals.check_usable(&approval_ref.id, &call.caller) {
        Ok(()) => {
            let approval_ref = approval_ref.clone();
            Ok((question.into_permit(), ApprovalBasis::Once { approval_ref, rules }))
        }
        Err(UnusableApproval::Pending) => {
            let (question, effect) =
                compute_effect(layer, call, tool, question, ApprovalRequired::permit).await?;
            let asked = layer.approvals.queue().get(&approval_ref.id).map(|asked| asked.digest.clone());
            if asked == Some(effect.digest().to_owned()) {
                let arguments = question.call().arguments().clone();
                drop((question, effect));
                let ApprovalMode::Wait = call.approval_mode else {
                    return Err(pending_refusal(call, &approval_ref.id, "asked").into());
                };
                let edits = begin_waiting(layer, call, &approval_ref.id);
                return Err(wait_for_decision(layer, call, tool, approval_ref, arguments, edits).await);
            }
            if !approval_ref.is_own {
                return Err(unusable_refusal(call, &approval_ref.id, &UnusableApproval::Mismatch).into());
            }
            layer.approvals.void(&layer.ledger, &approval_ref.id, EFFECT_CHANGED).await;
            request_approval(layer, call, tool, question, rules).await
        }
        // The approval was used by a run that was interrupted before it began, or the request was withdrawn
        // because the effect has changed.
        Err(UnusableApproval::Used | UnusableApproval::Void(_)) if approval_ref.is_own => {
            request_approval(layer, call, tool, question, rules).await
        }
        Err(why) => Err(unusable_refusal(call, &approval_ref.id, &why).into()),
    }
}

/// Interval of progress notes while a call waits.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
const EFFECT_CHANGED: &str = "the effect of the call has changed since approval was requested";

/// Consumes the approval if it still matches the effect of the call. This is the last step before the
/// decision is recorded and the call runs. Returns the id of the approval or of the standing rule.
pub(crate) async fn consume_approval(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    tool: &Arc<Tool>,
    permit: Permit,
    approved: &ApprovalBasis,
) -> Result<(Permit, String), PipelineHalt> {
    let (permit, effect) = compute_effect(layer, call, tool, permit, |permit| permit).await?;
    let again = |permit: &Permit| PipelineHalt::Rejudge(permit.call().arguments().clone(), None);
    match approved {
        ApprovalBasis::ByRule { rules } => {
            let wanted = effect.call_profile(call, &permit, &layer.approvals.instance_id, rules);
            let covering = layer.approvals.queue().covering_rule(&wanted, layer.approvals.now()).cloned();
            // Revoked or expired in the meantime: the call is refused, and requests approval when it is
            // repeated.
            let id = covering.ok_or_else(|| rule_expired_refusal(call))?;
            Ok((permit.with_previewed_arguments(effect.into_rewritten()), id))
        }
        ApprovalBasis::Once { approval_ref, rules } => {
            let digest = effect.digest().to_owned();
            let claim = ApprovalClaim { caller: &call.caller, digest: &digest, rules };
            match layer.approvals.consume(&layer.ledger, &approval_ref.id, claim).await {
                Ok(Ok(())) => {
                    Ok((permit.with_previewed_arguments(effect.into_rewritten()), approval_ref.id.clone()))
                }
                Ok(Err(UnusableApproval::Mismatch)) if approval_ref.is_own => {
                    layer.approvals.void(&layer.ledger, &approval_ref.id, EFFECT_CHANGED).await;
                    Err(again(&permit))
                }
                Ok(Err(why)) => Err(unusable_refusal(call, &approval_ref.id, &why).into()),
                Err(error) => Err(recorder::ledger_unavailable(&call.tool_name, &error).into()),
            }
        }
    }
}

/// Requests approval, unless a standing rule covers the call.
async fn request_approval(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    tool: &Arc<Tool>,
    question: ApprovalRequired,
    rules: Vec<String>,
) -> Result<(Permit, ApprovalBasis), PipelineHalt> {
    let (question, effect) = compute_effect_for_request(layer, call, tool, question).await?;
    let wanted = effect.call_profile(call, question.permit(), &layer.approvals.instance_id, &rules);
    let covering = layer.approvals.queue().covering_rule(&wanted, layer.approvals.now()).cloned();
    if covering.is_some() {
        return Ok((question.into_permit(), ApprovalBasis::ByRule { rules }));
    }
    let (id, arguments) = (new_approval_id(), question.call().arguments().clone());
    // Opened before the request is visible, so that the operator never finds a request whose call does not
    // wait yet.
    let edits = matches!(call.approval_mode, ApprovalMode::Wait).then(|| begin_waiting(layer, call, &id));
    let approval_ref =
        submit_request(layer, call, &question, &effect, rules, (&id, ArgumentOrigin::Caller)).await?;
    drop((question, effect));
    match edits {
        Some(edits) => Err(wait_for_decision(layer, call, tool, &approval_ref, arguments, edits).await),
        // A caller that does not wait gets the approval id to repeat the call with.
        None => Err(pending_refusal(call, &id, "asked").into()),
    }
}

/// Marks the call as waiting for this decision and opens its edit channel.
fn begin_waiting<'a>(layer: &'a ToolExecutionLayer, call: &PipelineCall, id: &'a str) -> EditReceiver<'a> {
    let edits = EditReceiver::open(layer, id);
    layer.active_calls.set_state(&call.tracker, CallState::Suspended { approval_id: id.to_owned() });
    sessions::cancel_if_closed(call);
    edits
}

/// Origin of the arguments of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentOrigin {
    Caller,
    Operator,
}

/// Approval request that is ready to be stored: the part on disk and the terms for the ledger.
pub(super) struct PreparedRequest {
    stored: StoredRequest,
    bytes: Vec<u8>,
    terms: RequestTerms,
    limit: Duration,
}

/// Builds an approval request, or returns the refusal if the call cannot be shown to the operator. Stores
/// nothing.
pub(super) fn prepare_request(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    question: &ApprovalRequired,
    effect: &CallEffect,
    rules: Vec<String>,
    (id, origin): (&str, ArgumentOrigin),
) -> Result<PreparedRequest, Box<Refusal>> {
    let approvals = &layer.approvals;
    let limit = call.snapshot.policy.approval_timeout();
    let limit = if let ApprovalMode::Async = call.approval_mode { limit } else { call.time_left(limit) };
    let requested_at = approvals.now();
    let expires_at = saturating_add(requested_at, limit);
    let frame =
        effect::RequestHeader { id, requested_at, expires_at, edited: origin == ArgumentOrigin::Operator };
    let approval_request = effect.to_request(call, question.permit(), question.approval_rules(), frame)?;
    let wanted = effect.call_profile(call, question.permit(), &approvals.instance_id, &rules);
    let arguments = (approval_request.masked == 0).then(|| question.call().arguments().clone());
    let kept =
        StoredRequest { request: approval_request, rule: RuleScope::from_call(&wanted).ok(), arguments };
    let bytes = canonical::bytes(&json!(kept));
    let record = call.ledger_call(question.call().definition().name().as_str());
    let terms = RequestTerms {
        call: record,
        rules,
        request_digest: layer.ledger.keyed_digest(&bytes),
        requested_at,
        expires_at,
    };
    Ok(PreparedRequest { stored: kept, bytes, terms, limit })
}

impl PreparedRequest {
    /// Returns the ledger entry of the request, or a refusal if too many requests are pending.
    pub(super) fn ledger_entry(
        &self,
        layer: &ToolExecutionLayer,
        call: &PipelineCall,
        effect: &CallEffect,
        id: &str,
    ) -> Result<ApprovalEventEntry, Box<Refusal>> {
        let request = layer.approvals.queue().propose_request(id, effect.digest(), &self.terms);
        request.map_err(|full| capacity_refusal(call, full))
    }
}

/// Submits a request: writes its file, then its ledger entry, and only then makes it visible for decisions.
pub(super) async fn submit_request(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    question: &ApprovalRequired,
    effect: &CallEffect,
    rules: Vec<String>,
    (id, origin): (&str, ArgumentOrigin),
) -> Result<ApprovalRef, Box<Refusal>> {
    let approvals = &layer.approvals;
    approvals.record_expired(&layer.ledger).await;
    let prepared = prepare_request(layer, call, question, effect, rules, (id, origin))?;
    let _turn = approvals.change_lock.lock().await;
    let proposed = prepared.ledger_entry(layer, call, effect, id)?;
    // A question has two records at least: that it was asked, and how it ended.
    over_budget(layer, call, 2 * size_of(&proposed))?;
    let PreparedRequest { stored: kept, bytes, terms, limit } = prepared;
    let stored_requests = Arc::clone(&approvals.requests);
    let written = tokio::task::spawn_blocking(move || stored_requests.store(kept, &bytes)).await;
    if let Err(error) = written.unwrap_or_else(|fault| Err(std::io::Error::other(fault))) {
        let reason =
            format!("Permission denied: Approval is required, but the request could not be stored: {error}");
        let refusal = Refusal::new(&call.tool_name, RefusalCode::ResourceExhausted, reason);
        return Err(Box::new(refusal.with_detail("question_not_kept")));
    }
    if let Err(error) = approvals.record(&layer.ledger, proposed).await {
        approvals.requests.remove(id);
        return Err(recorder::ledger_unavailable(&call.tool_name, &error));
    }
    emit(TelemetryEvent::ApprovalRequested {
        call: event_subject(&terms.call),
        approval_id: id,
        risk: question.call().definition().risk_level(),
        timeout_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
    });
    Ok(ApprovalRef { id: id.to_owned(), is_own: true })
}

/// Waits for a decision. If the mode or the policy changes, the call is judged again at once.
async fn wait_for_decision(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    tool: &Arc<Tool>,
    approval_ref: &ApprovalRef,
    arguments: Arguments,
    mut edits: EditReceiver<'_>,
) -> PipelineHalt {
    let _timing = call.span.stage(Stage::ApprovalWait);
    call.span.add_note(SpanNote::Approval(&approval_ref.id));
    let mut heartbeat = tokio::time::interval(HEARTBEAT_INTERVAL);
    let approvals = &layer.approvals;
    // Subscribed before the first check, so that no decision is missed in between.
    let (mut answers, mut changes) = (approvals.subscribe(), layer.policy_changes.subscribe());
    loop {
        match approvals.check_usable(&approval_ref.id, &call.caller) {
            Ok(()) => return PipelineHalt::Rejudge(arguments, Some(approval_ref.clone())),
            Err(UnusableApproval::Pending) => {}
            Err(why) => {
                approvals.record_expired(&layer.ledger).await;
                return unusable_refusal(call, &approval_ref.id, &why).into();
            }
        }
        if layer.has_changed_since(call) {
            return PipelineHalt::Rejudge(arguments, Some(approval_ref.clone()));
        }
        let expires = approvals.queue().get(&approval_ref.id).map(|asked| asked.terms.expires_at);
        let left = expires.map_or(Duration::ZERO, |expires| approvals.clock.duration_until(expires));
        // The deadline of the caller counts too: the request may be older than this call.
        let left = call.time_left(left);
        if left.is_zero() && call.time_left(Duration::MAX).is_zero() {
            return handle_deadline(layer, call, approval_ref).await;
        }
        tokio::select! {
            biased;
            by = call.tracker.stop().wait() => {
                if approval_ref.is_own {
                    approvals.void(&layer.ledger, &approval_ref.id, "the requesting call was cancelled").await;
                }
                return by.refusal(&call.tool_name, call.mode).into();
            }
            () = call.tracker.caller_left() => return pending_refusal(call, &approval_ref.id, "caller_gone").into(),
            () = approvals.closing.cancelled() => return pending_refusal(call, &approval_ref.id, "shutting_down").into(),
            _ = answers.changed() => {}
            _ = changes.changed() => {}
            Some(edit) = edits.next() => {
                if let Some(halt) = apply_edit(layer, call, tool, approval_ref, edit).await {
                    return halt;
                }
            }
            _ = heartbeat.tick() => call.progress.report(waiting_note(&approval_ref.id, left)),
            () = tokio::time::sleep(left) => {}
        }
    }
}

/// Handles the deadline of the caller. A request created by this call expires with it.
async fn handle_deadline(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    approval_ref: &ApprovalRef,
) -> PipelineHalt {
    layer.approvals.record_expired(&layer.ledger).await;
    if approval_ref.is_own {
        return unusable_refusal(call, &approval_ref.id, &UnusableApproval::Expired).into();
    }
    pending_refusal(call, &approval_ref.id, "deadline_passed").into()
}

/// Withdraws the request of a call that ended without a decision, so that the operator is not asked about a
/// finished call.
pub(crate) async fn withdraw_undecided(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    ended: Option<RefusalCode>,
) {
    let Some(approval_ref) = call.approval_ref.as_ref().filter(|approval_ref| approval_ref.is_own) else {
        return;
    };
    if ended != Some(RefusalCode::ApprovalPending) {
        layer
            .approvals
            .void(&layer.ledger, &approval_ref.id, "the requesting call ended before a decision")
            .await;
    }
}

/// Computes the effect of a call that requires approval. A refusal names the rule that requires the approval.
pub(super) async fn compute_effect_for_request(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    tool: &Arc<Tool>,
    question: ApprovalRequired,
) -> Result<(ApprovalRequired, CallEffect), Box<Refusal>> {
    let asked_by = question.approval_rules().first().cloned();
    let looked = compute_effect(layer, call, tool, question, ApprovalRequired::permit).await;
    looked.map_err(|refusal| Box::new(Refusal { rule: asked_by, ..*refusal }))
}

/// Computes the effect of a call on the blocking pool.
pub(super) async fn compute_effect<T: Send + 'static>(
    layer: &ToolExecutionLayer,
    call: &PipelineCall,
    tool: &Arc<Tool>,
    held: T,
    permit: fn(&T) -> &Permit,
) -> Result<(T, CallEffect), Box<Refusal>> {
    let (tool, ledger, mode) = (Arc::clone(tool), Arc::clone(&layer.ledger), call.mode);
    let looking = async {
        let place = layer.opening_slots.acquire(call.caller.connection).await;
        tokio::task::spawn_blocking(move || {
            let effect = CallEffect::compute(&tool, permit(&held), mode, &ledger);
            drop(place);
            (held, effect)
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
    let (held, effect) = call.within_deadline(looking).await?.map_err(|_| failed())?;
    match effect {
        Ok(effect) => Ok((held, effect)),
        Err(failure) => Err(effect::preview_failure_refusal(call, failure)),
    }
}

/// Progress note that keeps a client from treating a waiting call as hung.
fn waiting_note(id: &str, left: Duration) -> ProgressNote {
    let message = format!("waiting for the operator to decide approval {id} (at most {} s)", left.as_secs());
    ProgressNote { data: Some(json!({"approval_id": id})), ..ProgressNote::with_message(message) }
}

/// Names of the rules that require approval, in the form that an approval is bound to.
pub(super) fn rule_names(rules: &[RuleRef]) -> Vec<String> {
    rules.iter().map(|rule| format!("{} {}", rule.file, rule.id)).collect()
}

/// Returns a new approval id: ten random characters, short enough to type and without accidental collisions.
pub(super) fn new_approval_id() -> String {
    let id = CallId::fresh().to_string();
    id.get(id.len().saturating_sub(10)..).unwrap_or(&id).to_owned()
}
