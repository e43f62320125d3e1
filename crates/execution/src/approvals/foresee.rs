//! What would come of a question, without asking it: the card is made and thrown away. What is foreseen is what `asking`
//! does, up to the point where something would be kept. For an agent it ends earlier: what a call would do says what is in
//! the files it would change, and a look that nobody records must not tell that to who may not read them.

use std::sync::Arc;

use governance::Question;
use registry::Tool;
use tool::{Refusal, RuleRef, Side};

use super::asking::{Hands, fresh_id, look_at_question, names, prepare};
use super::effect::Effect;
use super::hand::{Asking, Hand};
use super::queue::{Claim, Unusable};
use super::refusals::{pending, too_many, unusable};
use crate::call::Call;
use crate::layer::ToolExecutionLayer;

/// What would come of a question.
pub(crate) enum Foreseen {
    /// A human is asked. Until one answers, the caller is told this.
    Asks(Box<Refusal>),
    /// Nobody is asked: a human has said yes already.
    Answered(RuleRef),
}

/// What would come of this question now, or why it would be refused without anybody being asked.
pub(crate) async fn foresee(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    question: Question,
) -> Result<Foreseen, Box<Refusal>> {
    if let Some(hand) = &call.hand {
        match layer.approvals.standing(&hand.id, &call.caller) {
            Ok(()) | Err(Unusable::Pending) => {}
            Err(why) => return Err(unusable(call, &hand.id, &why)),
        }
    }
    if call.caller.door.side() == Side::Agents {
        return unlooked(layer, call, &question);
    }
    let rules = names(question.asked_by());
    let (question, effect) = look_at_question(layer, call, tool, question).await?;
    if let Some(hand) = &call.hand {
        return with_answer(layer, call, hand, &effect, &rules);
    }
    let wanted = effect.wanted(call, question.proposed(), &layer.approvals.life, &rules);
    let covering = layer.approvals.queue().covering(&wanted, layer.approvals.now()).cloned();
    if let (Some(id), Asking::Wait | Asking::Async) = (covering, call.asking) {
        return Ok(Foreseen::Answered(by(&id)));
    }
    let id = fresh_id();
    prepare(layer, call, &question, &effect, rules, (&id, Hands::Off))?.request(layer, call, &effect, &id)?;
    Ok(Foreseen::Asks(Box::new(question.unanswered())))
}

/// What an agent is told: the same whatever the files hold.
fn unlooked(layer: &ToolExecutionLayer, call: &Call, question: &Question) -> Result<Foreseen, Box<Refusal>> {
    let approvals = &layer.approvals;
    let Some(hand) = &call.hand else {
        let room = approvals.queue().has_room_for(&call.caller, approvals.now());
        room.map_err(|full| too_many(call, full))?;
        return Ok(Foreseen::Asks(Box::new(question.unanswered())));
    };
    Ok(Foreseen::Asks(match approvals.standing(&hand.id, &call.caller) {
        Err(Unusable::Pending) => pending(call, &hand.id, "asked"),
        _ => Box::new(question.unanswered()),
    }))
}

/// The same for a call that brings an answer along.
fn with_answer(
    layer: &ToolExecutionLayer,
    call: &Call,
    hand: &Hand,
    effect: &Effect,
    rules: &[String],
) -> Result<Foreseen, Box<Refusal>> {
    let (queue, now) = (layer.approvals.queue(), layer.approvals.now());
    let claim = Claim { caller: &call.caller, digest: effect.digest(), rules };
    match queue.take(&hand.id, claim, now) {
        Ok(_) => Ok(Foreseen::Answered(by(&hand.id))),
        Err(Unusable::Pending)
            if queue.get(&hand.id).is_some_and(|asked| asked.digest == effect.digest()) =>
        {
            Ok(Foreseen::Asks(pending(call, &hand.id, "asked")))
        }
        Err(Unusable::Pending) => Err(unusable(call, &hand.id, &Unusable::Mismatch)),
        Err(why) => Err(unusable(call, &hand.id, &why)),
    }
}

/// The answer, in the place of a rule.
fn by(id: &str) -> RuleRef {
    RuleRef { file: "approvals".into(), line: 0, id: id.into() }
}
