//! Predicts the result of an approval request without submitting it, for `explain`. Follows the same steps as
//! the approval stage up to the point where something would be stored; the request is built and discarded.

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

/// Predicted result of the approval stage.
pub(crate) enum Foreseen {
    /// The operator would be asked; holds the refusal that the caller gets until then.
    Asks(Box<Refusal>),
    /// The call is already approved; names the approval or the standing rule.
    Answered(RuleRef),
}

/// Policy for computing the effect of a call. The effect reveals the content of the files that the call would
/// change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Computed and not recorded, for the operator, who may read these files.
    Freely,
    /// Computed and recorded in the ledger, for an agent: the refusal or the request of a real call would be
    /// recorded too.
    OnRecord,
    /// Not computed.
    Not,
}

/// Predicts the result of the approval stage, or returns the refusal that the call would get without a
/// request.
pub(crate) async fn foresee(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    question: Question,
    look: Look,
) -> Result<Foreseen, Box<Refusal>> {
    // A call that must not request approval does not use an approval either.
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

/// Predicts the result without the effect, so that it does not depend on the content of files.
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

/// Predicts the result for a call that presents an approval.
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

/// Reference to an approval or a standing rule in the form of a `RuleRef`.
fn by(id: &str) -> RuleRef {
    RuleRef { file: "approvals".into(), line: 0, id: id.into() }
}
