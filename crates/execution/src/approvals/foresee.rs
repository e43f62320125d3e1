//! What would come of a question, without asking it: the card is made and thrown away. What is foreseen is what `asking`
//! does, up to the point where something would be kept.

use std::sync::Arc;

use governance::Question;
use registry::Tool;
use tool::{Refusal, RuleRef};

use super::asking::{self, Hands, fresh_id, look_at_question, names, prepare};
use super::effect::Effect;
use super::hand::{Asking, Hand};
use super::queue::{Claim, Unusable};
use super::refusals::{pending, too_many, unusable};
use super::told;
use crate::call::Call;
use crate::layer::ToolExecutionLayer;

/// What would come of a question.
pub(crate) enum Foreseen {
    /// A human is asked. Until one answers, the caller is told this.
    Asks(Box<Refusal>),
    /// Nobody is asked: a human has said yes already.
    Answered(RuleRef),
}

/// Whether what a call would do is looked at. What it would do says what is in the files it would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It is, for the operator, who may see them.
    Freely,
    /// It is, and an agent is told what came of it. That is on record, as the call's own refusal or question would be.
    OnRecord,
    /// It is not.
    Not,
}

/// What would come of this question now, or why it would be refused without anybody being asked.
pub(crate) async fn foresee(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    question: Question,
    look: Look,
) -> Result<Foreseen, Box<Refusal>> {
    // Where nobody is asked, an answer is not looked for either.
    let brought = call.hand.as_ref().filter(|_| call.asking != Asking::Never);
    if let Some(hand) = brought {
        match layer.approvals.standing(&hand.id, &call.caller) {
            Ok(()) | Err(Unusable::Pending) => {}
            Err(why) => return Err(unusable(call, &hand.id, &why)),
        }
    }
    match look {
        Look::Freely => looked(layer, call, tool, question, brought).await,
        Look::OnRecord => {
            call.keep_facts(&question.facts());
            let foreseen = looked(layer, call, tool, question, brought).await;
            told::record(layer, call, tool, &foreseen).await?;
            foreseen
        }
        Look::Not => unlooked(layer, call, &question, brought),
    }
}

async fn looked(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    question: Question,
    brought: Option<&Hand>,
) -> Result<Foreseen, Box<Refusal>> {
    let rules = names(question.asked_by());
    if let Some(hand) = brought {
        let (_question, effect) = asking::look(layer, call, tool, question, Question::proposed).await?;
        return with_answer(layer, call, hand, &effect, &rules);
    }
    let (question, effect) = look_at_question(layer, call, tool, question).await?;
    let id = fresh_id();
    if call.asking != Asking::Never {
        let wanted = effect.wanted(call, question.proposed(), &layer.approvals.life, &rules);
        let covering = layer.approvals.queue().covering(&wanted, layer.approvals.now()).cloned();
        if let Some(id) = covering {
            return Ok(Foreseen::Answered(by(&id)));
        }
    }
    let prepared = prepare(layer, call, &question, &effect, rules, (&id, Hands::Off))?;
    if call.asking != Asking::Never {
        prepared.request(layer, call, &effect, &id)?;
    }
    Ok(Foreseen::Asks(Box::new(question.unanswered())))
}

/// The same whatever the files hold.
fn unlooked(
    layer: &ToolExecutionLayer,
    call: &Call,
    question: &Question,
    brought: Option<&Hand>,
) -> Result<Foreseen, Box<Refusal>> {
    let approvals = &layer.approvals;
    let Some(hand) = brought else {
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
