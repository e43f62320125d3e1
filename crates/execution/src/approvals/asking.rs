//! The approval stage of the pipeline: requests approval, waits for the decision, and consumes the approval
//! right before the call runs.
//!
//! A waiting call holds no resources. After an approval it runs through the pipeline again from the start, so
//! that mode, rate limits, bounds and effect are those of the moment in which it runs.

use std::sync::Arc;
use std::time::Duration;

use governance::{Permit, Question};
use ledger::entry::Approval;
use registry::Tool;
use serde_json::json;
use telemetry::{Event, Note, Stage, emit};
use tool::{Arguments, CallId, ProgressNote, Refusal, RefusalCode, RuleRef, canonical};

use super::clock::later;
use super::editing::{Editing, edited};
use super::effect::{self, Effect};
use super::hand::{Approved, Asking, Hand};
use super::queue::{Claim, Terms, Unusable};
use super::refusals::{again_without, over_budget, pending, too_many, unusable};
use super::rule::Rule;
use super::{Kept, subject};
use crate::bookkeeping::size_of;
use crate::call::Call;
use crate::calls::Standing;
use crate::layer::ToolExecutionLayer;
use crate::pipeline::Halt;
use crate::recorder;
use crate::sessions;

/// Returns the permit of a call that requires approval: by the approval that the call references, by a
/// standing rule, or after a wait for the decision and another run through the pipeline.
pub(crate) async fn approve(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    question: Question,
) -> Result<(Permit, Approved), Halt> {
    call.keep_facts(&question.facts());
    let rules = names(question.asked_by());
    if let Asking::Never = call.asking {
        // If the call could not be shown to the operator anyway, that is the reason to report.
        let (question, effect) = look_at_question(layer, call, tool, question).await?;
        prepare(layer, call, &question, &effect, rules, (&fresh_id(), Hands::Off))?;
        return Err(Box::new(question.unanswered()).into());
    }
    let Some(hand) = &call.hand else { return ask(layer, call, tool, question, rules).await };
    match layer.approvals.standing(&hand.id, &call.caller) {
        Ok(()) => {
            let hand = hand.clone();
            Ok((question.approved(), Approved::Once { hand, rules }))
        }
        Err(Unusable::Pending) => {
            let (question, effect) = look(layer, call, tool, question, Question::proposed).await?;
            let asked = layer.approvals.queue().get(&hand.id).map(|asked| asked.digest.clone());
            if asked == Some(effect.digest().to_owned()) {
                let arguments = question.call().arguments().clone();
                drop((question, effect));
                let Asking::Wait = call.asking else { return Err(pending(call, &hand.id, "asked").into()) };
                let edits = begin_waiting(layer, call, &hand.id);
                return Err(wait(layer, call, tool, hand, arguments, edits).await);
            }
            if !hand.own {
                return Err(unusable(call, &hand.id, &Unusable::Mismatch).into());
            }
            layer.approvals.void(&layer.ledger, &hand.id, CHANGED).await;
            ask(layer, call, tool, question, rules).await
        }
        // The approval was used by a run that was interrupted before it began, or the request was withdrawn
        // because the effect has changed.
        Err(Unusable::Used | Unusable::Void(_)) if hand.own => ask(layer, call, tool, question, rules).await,
        Err(why) => Err(unusable(call, &hand.id, &why).into()),
    }
}

/// Interval of progress notes while a call waits.
const HEARTBEAT: Duration = Duration::from_secs(5);
const CHANGED: &str = "the effect of the call has changed since approval was requested";

/// Consumes the approval if it still matches the effect of the call. This is the last step before the
/// decision is recorded and the call runs. Returns the id of the approval or of the standing rule.
pub(crate) async fn confirm(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    permit: Permit,
    approved: &Approved,
) -> Result<(Permit, String), Halt> {
    let (permit, effect) = look(layer, call, tool, permit, |permit| permit).await?;
    let again = |permit: &Permit| Halt::Again(permit.call().arguments().clone(), None);
    match approved {
        Approved::ByRule { rules } => {
            let wanted = effect.wanted(call, &permit, &layer.approvals.life, rules);
            let covering = layer.approvals.queue().covering(&wanted, layer.approvals.now()).cloned();
            // Revoked or expired in the meantime: the call is refused, and requests approval when it is
            // repeated.
            let id = covering.ok_or_else(|| again_without(call))?;
            Ok((permit.foretelling(effect.into_rewritten()), id))
        }
        Approved::Once { hand, rules } => {
            let digest = effect.digest().to_owned();
            let claim = Claim { caller: &call.caller, digest: &digest, rules };
            match layer.approvals.take(&layer.ledger, &hand.id, claim).await {
                Ok(Ok(())) => Ok((permit.foretelling(effect.into_rewritten()), hand.id.clone())),
                Ok(Err(Unusable::Mismatch)) if hand.own => {
                    layer.approvals.void(&layer.ledger, &hand.id, CHANGED).await;
                    Err(again(&permit))
                }
                Ok(Err(why)) => Err(unusable(call, &hand.id, &why).into()),
                Err(error) => Err(recorder::unavailable(&call.tool_name, &error).into()),
            }
        }
    }
}

/// Requests approval, unless a standing rule covers the call.
async fn ask(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    question: Question,
    rules: Vec<String>,
) -> Result<(Permit, Approved), Halt> {
    let (question, effect) = look_at_question(layer, call, tool, question).await?;
    let wanted = effect.wanted(call, question.proposed(), &layer.approvals.life, &rules);
    let covering = layer.approvals.queue().covering(&wanted, layer.approvals.now()).cloned();
    if covering.is_some() {
        return Ok((question.approved(), Approved::ByRule { rules }));
    }
    let (id, arguments) = (fresh_id(), question.call().arguments().clone());
    // Opened before the request is visible, so that the operator never finds a request whose call does not
    // wait yet.
    let edits = matches!(call.asking, Asking::Wait).then(|| begin_waiting(layer, call, &id));
    let hand = put(layer, call, &question, &effect, rules, (&id, Hands::Off)).await?;
    drop((question, effect));
    match edits {
        Some(edits) => Err(wait(layer, call, tool, &hand, arguments, edits).await),
        // A caller that does not wait gets the approval id to repeat the call with.
        None => Err(pending(call, &id, "asked").into()),
    }
}

/// Marks the call as waiting for this decision and opens its edit channel.
fn begin_waiting<'a>(layer: &'a ToolExecutionLayer, call: &Call, id: &'a str) -> Editing<'a> {
    let edits = Editing::open(layer, id);
    layer.calls.enter(&call.track, Standing::Suspended { approval_id: id.to_owned() });
    sessions::end_if_closed(call);
    edits
}

/// Origin of the arguments of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hands {
    Off,
    On,
}

/// Approval request that is ready to be stored: the part on disk and the terms for the ledger.
pub(super) struct Prepared {
    kept: Kept,
    bytes: Vec<u8>,
    terms: Terms,
    limit: Duration,
}

/// Builds an approval request, or returns the refusal if the call cannot be shown to the operator. Stores
/// nothing.
pub(super) fn prepare(
    layer: &ToolExecutionLayer,
    call: &Call,
    question: &Question,
    effect: &Effect,
    rules: Vec<String>,
    (id, hands): (&str, Hands),
) -> Result<Prepared, Box<Refusal>> {
    let approvals = &layer.approvals;
    let limit = call.world.policy.approval_timeout();
    let limit = if let Asking::Async = call.asking { limit } else { call.time_left(limit) };
    let asked_at = approvals.now();
    let expires_at = later(asked_at, limit);
    let frame = effect::Asking { id, asked_at, expires_at, edited: hands == Hands::On };
    let card = effect.card(call, question.proposed(), question.asked_by(), frame)?;
    let wanted = effect.wanted(call, question.proposed(), &approvals.life, &rules);
    let arguments = (card.masked == 0).then(|| question.call().arguments().clone());
    let kept = Kept { card, rule: Rule::like(&wanted).ok(), arguments };
    let bytes = canonical::bytes(&json!(kept));
    let record = call.on_record(question.call().definition().name().as_str());
    let terms = Terms { call: record, rules, card: layer.ledger.keyed_digest(&bytes), asked_at, expires_at };
    Ok(Prepared { kept, bytes, terms, limit })
}

impl Prepared {
    /// Returns the ledger entry of the request, or a refusal if too many requests are pending.
    pub(super) fn request(
        &self,
        layer: &ToolExecutionLayer,
        call: &Call,
        effect: &Effect,
        id: &str,
    ) -> Result<Approval, Box<Refusal>> {
        let request = layer.approvals.queue().request(id, effect.digest(), &self.terms);
        request.map_err(|full| too_many(call, full))
    }
}

/// Submits a request: writes its file, then its ledger entry, and only then makes it visible for decisions.
pub(super) async fn put(
    layer: &ToolExecutionLayer,
    call: &Call,
    question: &Question,
    effect: &Effect,
    rules: Vec<String>,
    (id, hands): (&str, Hands),
) -> Result<Hand, Box<Refusal>> {
    let approvals = &layer.approvals;
    approvals.sweep(&layer.ledger).await;
    let prepared = prepare(layer, call, question, effect, rules, (id, hands))?;
    let _turn = approvals.turn.lock().await;
    let proposed = prepared.request(layer, call, effect, id)?;
    // A question has two records at least: that it was asked, and how it ended.
    over_budget(layer, call, 2 * size_of(&proposed))?;
    let Prepared { kept, bytes, terms, limit } = prepared;
    let cards = Arc::clone(&approvals.cards);
    let written = tokio::task::spawn_blocking(move || cards.keep(kept, &bytes)).await;
    if let Err(error) = written.unwrap_or_else(|fault| Err(std::io::Error::other(fault))) {
        let reason =
            format!("Permission denied: Approval is required, but the request could not be stored: {error}");
        let refusal = Refusal::new(&call.tool_name, RefusalCode::ResourceExhausted, reason);
        return Err(Box::new(refusal.detail("question_not_kept")));
    }
    if let Err(error) = approvals.record(&layer.ledger, proposed).await {
        approvals.cards.forget(id);
        return Err(recorder::unavailable(&call.tool_name, &error));
    }
    emit(Event::ApprovalRequested {
        call: subject(&terms.call),
        approval_id: id,
        risk: question.call().definition().risk_level(),
        timeout_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
    });
    Ok(Hand { id: id.to_owned(), own: true })
}

/// Waits for a decision. If the mode or the policy changes, the call is judged again at once.
async fn wait(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    hand: &Hand,
    arguments: Arguments,
    mut edits: Editing<'_>,
) -> Halt {
    let _timing = call.span.stage(Stage::ApprovalWait);
    call.span.note(Note::Approval(&hand.id));
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    let approvals = &layer.approvals;
    // Subscribed before the first check, so that no decision is missed in between.
    let (mut answers, mut changes) = (approvals.subscribe(), layer.changes.subscribe());
    loop {
        match approvals.standing(&hand.id, &call.caller) {
            Ok(()) => return Halt::Again(arguments, Some(hand.clone())),
            Err(Unusable::Pending) => {}
            Err(why) => {
                approvals.sweep(&layer.ledger).await;
                return unusable(call, &hand.id, &why).into();
            }
        }
        if layer.has_changed_since(call) {
            return Halt::Again(arguments, Some(hand.clone()));
        }
        let expires = approvals.queue().get(&hand.id).map(|asked| asked.terms.expires_at);
        let left = expires.map_or(Duration::ZERO, |expires| approvals.clock.until(expires));
        // The deadline of the caller counts too: the request may be older than this call.
        let left = call.time_left(left);
        if left.is_zero() && call.time_left(Duration::MAX).is_zero() {
            return out_of_time(layer, call, hand).await;
        }
        tokio::select! {
            biased;
            by = call.track.stop().given() => {
                if hand.own {
                    approvals.void(&layer.ledger, &hand.id, "the requesting call was cancelled").await;
                }
                return by.refusal(&call.tool_name, call.mode).into();
            }
            () = call.track.deserted() => return pending(call, &hand.id, "caller_gone").into(),
            () = approvals.closing.cancelled() => return pending(call, &hand.id, "shutting_down").into(),
            _ = answers.changed() => {}
            _ = changes.changed() => {}
            Some(edit) = edits.next() => {
                if let Some(halt) = edited(layer, call, tool, hand, edit).await {
                    return halt;
                }
            }
            _ = heartbeat.tick() => call.progress.tell(waiting_for(&hand.id, left)),
            () = tokio::time::sleep(left) => {}
        }
    }
}

/// Handles the deadline of the caller. A request created by this call expires with it.
async fn out_of_time(layer: &ToolExecutionLayer, call: &Call, hand: &Hand) -> Halt {
    layer.approvals.sweep(&layer.ledger).await;
    if hand.own {
        return unusable(call, &hand.id, &Unusable::Expired).into();
    }
    pending(call, &hand.id, "deadline_passed").into()
}

/// Withdraws the request of a call that ended without a decision, so that the operator is not asked about a
/// finished call.
pub(crate) async fn leave(layer: &ToolExecutionLayer, call: &Call, ended: Option<RefusalCode>) {
    let Some(hand) = call.hand.as_ref().filter(|hand| hand.own) else { return };
    if ended != Some(RefusalCode::ApprovalPending) {
        layer.approvals.void(&layer.ledger, &hand.id, "the requesting call ended before a decision").await;
    }
}

/// Computes the effect of a call that requires approval. A refusal names the rule that requires the approval.
pub(super) async fn look_at_question(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    question: Question,
) -> Result<(Question, Effect), Box<Refusal>> {
    let asked_by = question.asked_by().first().cloned();
    let looked = look(layer, call, tool, question, Question::proposed).await;
    looked.map_err(|refusal| Box::new(Refusal { rule: asked_by, ..*refusal }))
}

/// Computes the effect of a call on the blocking pool.
pub(super) async fn look<T: Send + 'static>(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    held: T,
    permit: fn(&T) -> &Permit,
) -> Result<(T, Effect), Box<Refusal>> {
    let (tool, ledger, mode) = (Arc::clone(tool), Arc::clone(&layer.ledger), call.mode);
    let looking = async {
        let place = layer.openings.take(call.caller.connection).await;
        tokio::task::spawn_blocking(move || {
            let effect = Effect::of(&tool, permit(&held), mode, &ledger);
            drop(place);
            (held, effect)
        })
        .await
    };
    let failed = || {
        let reason = "Sinew failed to compute the effect of the call";
        Box::new(
            Refusal::new(&call.tool_name, RefusalCode::ResourceExhausted, reason).detail("internal_fault"),
        )
    };
    let (held, effect) = call.in_time(looking).await?.map_err(|_| failed())?;
    match effect {
        Ok(effect) => Ok((held, effect)),
        Err(failure) => Err(effect::unforeseen(call, failure)),
    }
}

/// Progress note that keeps a client from treating a waiting call as hung.
fn waiting_for(id: &str, left: Duration) -> ProgressNote {
    let message = format!("waiting for the operator to decide approval {id} (at most {} s)", left.as_secs());
    ProgressNote { data: Some(json!({"approval_id": id})), ..ProgressNote::saying(message) }
}

/// Names of the rules that require approval, in the form that an approval is bound to.
pub(super) fn names(rules: &[RuleRef]) -> Vec<String> {
    rules.iter().map(|rule| format!("{} {}", rule.file, rule.id)).collect()
}

/// Returns a new approval id: ten random characters, short enough to type and without accidental collisions.
pub(super) fn fresh_id() -> String {
    let id = CallId::fresh().to_string();
    id.get(id.len().saturating_sub(10)..).unwrap_or(&id).to_owned()
}
