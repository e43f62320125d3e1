//! The part of the road where a human decides: asking, waiting, and using the answer up right before the call runs.
//!
//! Nothing is held while a call waits. After a yes it walks the road again from the start, so that mode, rates, bounds
//! and what it would do are those of the moment it runs in.

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
use super::refusals::{again_without, pending, too_many, unusable};
use super::rule::Rule;
use super::{Kept, subject};
use crate::call::Call;
use crate::calls::Standing;
use crate::layer::ToolExecutionLayer;
use crate::pipeline::Halt;
use crate::recorder;
use crate::sessions;

/// The permit of a call that a human must be asked about: by the answer in hand, by a rule that stands, or after waiting
/// for an answer and walking again.
pub(crate) async fn approve(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    question: Question,
) -> Result<(Permit, Approved), Halt> {
    call.keep_facts(&question.facts());
    let rules = names(question.asked_by());
    if let Asking::Never = call.asking {
        // Where nobody could be asked about it anyway, that is the reason.
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
        // It had its answer and was overtaken before it began, or the question was about what is no longer so.
        Err(Unusable::Used | Unusable::Void(_)) if hand.own => ask(layer, call, tool, question, rules).await,
        Err(why) => Err(unusable(call, &hand.id, &why).into()),
    }
}

/// How often a call that waits says so.
const HEARTBEAT: Duration = Duration::from_secs(5);
const CHANGED: &str = "what the call would do has changed since it was asked about";

/// Uses the answer up, if it still is one to this: the last thing before the decision is recorded and the call runs. Returns
/// what the answer is known by.
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
            // Revoked or run out since: it is told so, and asked about when it comes again.
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

/// Asks, unless a rule stands that covers the call.
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
    // Before it can be seen: whoever finds the question finds its call waiting.
    let edits = matches!(call.asking, Asking::Wait).then(|| begin_waiting(layer, call, &id));
    let hand = put(layer, call, &question, &effect, rules, (&id, Hands::Off)).await?;
    drop((question, effect));
    match edits {
        Some(edits) => Err(wait(layer, call, tool, &hand, arguments, edits).await),
        // A caller that cannot wait is told what to come back with.
        None => Err(pending(call, &id, "asked").into()),
    }
}

/// From here on the call counts as one that waits for this answer, and its arguments can be changed.
fn begin_waiting<'a>(layer: &'a ToolExecutionLayer, call: &Call, id: &'a str) -> Editing<'a> {
    let edits = Editing::open(layer, id);
    layer.calls.enter(&call.track, Standing::Suspended { approval_id: id.to_owned() });
    sessions::end_if_closed(call);
    edits
}

/// Whether a human has changed the arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hands {
    Off,
    On,
}

/// A question that could be asked: what would be shown and kept of it, and what would be on record.
pub(super) struct Prepared {
    kept: Kept,
    bytes: Vec<u8>,
    terms: Terms,
    limit: Duration,
}

/// Makes a question of a call, or says why nobody can be asked about it. Nothing is kept yet.
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
    /// The record that would say that it was asked, unless too many wait already.
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

/// Puts a question into the queue: its card on disk, then its record, then it can be seen and answered.
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
    let Prepared { kept, bytes, terms, limit } = prepared;
    let cards = Arc::clone(&approvals.cards);
    let written = tokio::task::spawn_blocking(move || cards.keep(kept, &bytes)).await;
    if let Err(error) = written.unwrap_or_else(|fault| Err(std::io::Error::other(fault))) {
        let reason =
            format!("Permission denied: Approval is required, and the question cannot be kept: {error}");
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

/// Waits for an answer. Whoever is judged by a mode or rules that hold no more is judged again at once.
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
    // Before the first look, so that no answer falls in between.
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
        // The caller's own patience, too: the question may be an older one.
        let left = call.time_left(left);
        if left.is_zero() && call.time_left(Duration::MAX).is_zero() {
            return out_of_time(layer, call, hand).await;
        }
        tokio::select! {
            biased;
            by = call.track.stop().given() => {
                if hand.own {
                    approvals.void(&layer.ledger, &hand.id, "the call that asked was cancelled").await;
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

/// The caller waits no longer. A question of its own ends with it.
async fn out_of_time(layer: &ToolExecutionLayer, call: &Call, hand: &Hand) -> Halt {
    layer.approvals.sweep(&layer.ledger).await;
    if hand.own {
        return unusable(call, &hand.id, &Unusable::Expired).into();
    }
    pending(call, &hand.id, "deadline_passed").into()
}

/// Takes back the question of a call that ended without an answer to it: nobody is asked about what is over.
pub(crate) async fn leave(layer: &ToolExecutionLayer, call: &Call, ended: Option<RefusalCode>) {
    let Some(hand) = call.hand.as_ref().filter(|hand| hand.own) else { return };
    if ended != Some(RefusalCode::ApprovalPending) {
        layer.approvals.void(&layer.ledger, &hand.id, "the call that asked has ended without it").await;
    }
}

/// Looks at what a call would do that a human must be asked about. Where nobody can be, the rule that asks is to blame.
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

/// Looks at what a call would do, on a thread that may block.
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
        let reason = "Sinew failed while looking at what the call would do";
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

/// What keeps a client from taking a call that waits for one that hangs.
fn waiting_for(id: &str, left: Duration) -> ProgressNote {
    let message = format!("waiting for a human to decide approval {id}, for at most {} s", left.as_secs());
    ProgressNote { data: Some(json!({"approval_id": id})), ..ProgressNote::saying(message) }
}

/// The rules that ask, as a yes is bound to them.
pub(super) fn names(rules: &[RuleRef]) -> Vec<String> {
    rules.iter().map(|rule| format!("{} {}", rule.file, rule.id)).collect()
}

/// Ten digits of chance: short enough to be typed, and never taken for another by accident.
pub(super) fn fresh_id() -> String {
    let id = CallId::fresh().to_string();
    id.get(id.len().saturating_sub(10)..).unwrap_or(&id).to_owned()
}
