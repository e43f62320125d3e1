//! What would come of a question, without asking it: the card is made and thrown away. What is foreseen is what `asking`
//! does, up to the point where something would be kept.

use std::sync::Arc;

use governance::Question;
use registry::Tool;
use tool::{Refusal, RuleRef};

use super::asking::{Hands, fresh_id, look_at_question, names, prepare};
use super::effect::Effect;
use super::hand::{Asking, Hand};
use super::queue::{Claim, Unusable};
use super::refusals::{pending, unusable};
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
    // What has run out takes nobody's place, here as when it is asked.
    layer.approvals.sweep(&layer.ledger).await;
    if let Some(hand) = &call.hand {
        match layer.approvals.standing(&hand.id, &call.caller) {
            Ok(()) | Err(Unusable::Pending) => {}
            Err(why) => return Err(unusable(call, &hand.id, &why)),
        }
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
