//! What would become of a call, and why, without running it.
//!
//! The judgement is the road's own, so what is explained is what would happen. Nothing is reserved, counted or put
//! on record, and no tool is started.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use governance::{Question, Verdict};
use registry::Tool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::{Mode, Refusal, RefusalCode, RuleRef};

use crate::approvals::{self, Foreseen};
use crate::call::{Call, Request};
use crate::layer::ToolExecutionLayer;
use crate::look_up::look_up;
use crate::pipeline;

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
    /// It would run.
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

impl ToolExecutionLayer {
    /// What would become of this call now, or in another mode.
    pub async fn explain(&self, request: Request, mode: Option<Mode>) -> Explanation {
        let (world, mode) = (self.world.load_full(), mode.unwrap_or_else(|| self.mode()));
        let (call, arguments) = Call::suppose(request, &self.ledger, world, mode);
        let judged = AssertUnwindSafe(suppose(self, &call, arguments)).catch_unwind().await;
        let (tool_name, (finding, rules)) =
            judged.unwrap_or_else(|_| (call.tool_name.clone(), found(Err(fault(&call)))));
        let policy_hash = call.world.policy.hash().to_owned();
        Explanation { tool_name, mode, finding, rules, policy_hash }
    }
}

/// Walks as far as nothing changes. The tool's own name comes with what was found.
async fn suppose(
    layer: &ToolExecutionLayer,
    call: &Call,
    arguments: Value,
) -> (String, (Finding, Vec<RuleRef>)) {
    let tool = match layer.admits(call).and_then(|()| look_up(call, &arguments)) {
        Ok(tool) => tool,
        Err(refusal) => return (refusal.tool.clone(), found(Err(refusal))),
    };
    let name = tool.definition().name().to_string();
    let verdict = pipeline::judge(layer, call, tool.definition(), tool.schema(), arguments).await;
    match verdict {
        Ok(Verdict::Question(question)) => (name, asked(layer, call, tool, question).await),
        verdict => (name, found(verdict)),
    }
}

/// What would come of a question: not every call that needs a human can be shown to one, and some have their answer.
async fn asked(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    question: Question,
) -> (Finding, Vec<RuleRef>) {
    let (asked_by, mut rules) = (question.asked_by().to_vec(), question.rules());
    match approvals::foresee(layer, call, tool, question).await {
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
