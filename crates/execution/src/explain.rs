//! What would become of a call, and why, without running it.
//!
//! The judgement is the road's own, so what is explained is what would happen. Nothing is reserved or counted, and no tool
//! is started. On record is only what an agent was told of what is in files that a call would change.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use governance::{Question, Verdict};
use registry::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::{Mode, Refusal, RefusalCode, RuleRef};

use crate::approvals::{self, Foreseen, Look};
use crate::call::{Call, Request};
use crate::layer::ToolExecutionLayer;
use crate::look_up::look_up;
use crate::pipeline;
use crate::repeats::{self, Earlier};

/// What would become of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The tool by its own name, or as it was asked for where there is none.
    pub tool_name: String,
    /// The mode it was judged in.
    pub mode: Mode,
    /// What would become of it.
    #[serde(flatten)]
    pub finding: Finding,
    /// The rules that led to it, in the order they were looked at.
    pub rules: Vec<RuleRef>,
    /// Pins the policy that judged.
    pub policy_hash: String,
}

/// The three ends a judgement can have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Finding {
    /// It would run; or has run before under its key, and its end would be told again.
    Permit,
    /// A human would be asked.
    Ask {
        /// What the caller is told where nobody is there to answer.
        refusal: Box<Refusal>,
        /// The rules that ask.
        asked_by: Vec<RuleRef>,
    },
    /// It would be refused.
    Deny {
        /// What the caller is told.
        refusal: Box<Refusal>,
    },
}

impl Finding {
    /// `permit`, `ask` or `deny`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Finding::Permit => "permit",
            Finding::Ask { .. } => "ask",
            Finding::Deny { .. } => "deny",
        }
    }

    /// Why it would not simply run.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Finding::Permit => None,
            Finding::Ask { refusal, .. } | Finding::Deny { refusal } => Some(refusal),
        }
    }
}

/// Who hears an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hearer {
    /// Who would make the call: what a call would tell is told, and leaves a trace as it would.
    Caller,
    /// The human, who may see what is in the files.
    Operator,
}

impl ToolExecutionLayer {
    /// What would become of this call now, or in another mode.
    pub async fn explain(&self, request: Request, mode: Option<Mode>, hearer: Hearer) -> Explanation {
        let (world, mode) = (self.world.load_full(), mode.unwrap_or_else(|| self.mode()));
        let (call, arguments) = Call::suppose(request, &self.ledger, world, mode);
        let look = match hearer {
            Hearer::Operator => Look::Freely,
            // A mode that does not hold must not open to an agent what the one that does keeps shut.
            Hearer::Caller if mode == self.mode() => Look::OnRecord,
            Hearer::Caller => Look::Not,
        };
        let judged = AssertUnwindSafe(suppose(self, &call, arguments, look)).catch_unwind().await;
        let (tool_name, (finding, rules)) =
            judged.unwrap_or_else(|_| (call.tool_name.to_string(), found(Err(fault(&call)))));
        let policy_hash = call.world.policy.hash().to_owned();
        Explanation { tool_name, mode, finding, rules, policy_hash }
    }
}

/// Walks as far as nothing changes. The tool's own name comes with what was found.
async fn suppose(
    layer: &ToolExecutionLayer,
    call: &Call,
    arguments: Value,
    look: Look,
) -> (String, (Finding, Vec<RuleRef>)) {
    let (earlier, tool) = match known(layer, call, &arguments).await {
        Ok(known) => known,
        Err(refusal) => return (refusal.tool.clone(), found(Err(refusal))),
    };
    let name = tool.definition().name().to_string();
    if let Some(earlier) = earlier {
        let id = earlier.decision.call.call_id.to_string();
        return (name, (Finding::Permit, vec![RuleRef { file: "ledger".into(), line: 0, id: id.into() }]));
    }
    let verdict = pipeline::judge(layer, call, tool.definition(), tool.schema(), arguments).await;
    match verdict {
        Ok(Verdict::Question(question)) => (name, asked(layer, call, tool, question, look).await),
        verdict => (name, found(verdict)),
    }
}

/// The tool of a call that is let in, and the call that was run under its key, if it has one.
async fn known<'a>(
    layer: &ToolExecutionLayer,
    call: &'a Call,
    arguments: &Value,
) -> Result<(Option<Earlier>, &'a Arc<Tool>), Box<Refusal>> {
    layer.admits(call)?;
    let earlier = repeats::ran_before(layer, call).await?;
    Ok((earlier, look_up(call, arguments)?))
}

/// What would come of a question: not every call that needs a human can be shown to one, and some have their answer.
async fn asked(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    question: Question,
    look: Look,
) -> (Finding, Vec<RuleRef>) {
    let (asked_by, mut rules) = (question.asked_by().to_vec(), question.rules());
    match approvals::foresee(layer, call, tool, question, look).await {
        Ok(Foreseen::Asks(refusal)) => (Finding::Ask { refusal, asked_by }, rules),
        Ok(Foreseen::Answered(answer)) => {
            rules.push(answer);
            (Finding::Permit, rules)
        }
        Err(refusal) => (Finding::Deny { refusal }, rules),
    }
}

/// A verdict as data, with the rules that led to it. Whatever was opened to reach it is closed here.
pub(crate) fn found(verdict: Result<Verdict, Box<Refusal>>) -> (Finding, Vec<RuleRef>) {
    match verdict {
        Ok(Verdict::Permit(permit)) => (Finding::Permit, permit.rules().to_vec()),
        Ok(Verdict::Question(question)) => {
            let (refusal, asked_by) = (Box::new(question.unanswered()), question.asked_by().to_vec());
            (Finding::Ask { refusal, asked_by }, question.rules())
        }
        Ok(Verdict::Denial(denial)) => {
            let rules = denial.rules().to_vec();
            (Finding::Deny { refusal: denial.into() }, rules)
        }
        Err(refusal) => {
            let rules = refusal.rule.iter().cloned().collect();
            (Finding::Deny { refusal }, rules)
        }
    }
}

/// A stage of ours panicked: the call could not have run either.
pub(crate) fn fault(call: &Call) -> Box<Refusal> {
    let reason = "a fault inside Sinew ended this judgement";
    let refusal = Refusal::new(&call.tool_name, RefusalCode::ResourceExhausted, reason);
    Box::new(refusal.detail("internal_fault").hint("the log has the place"))
}
