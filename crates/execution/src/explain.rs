//! Explains how a call would be decided, without running it.
//!
//! It uses the judge stages of the pipeline, so the explanation is the decision that the call would get.
//! Nothing is reserved or counted, and no tool is started. The ledger records only what an explanation told
//! an agent about the content of files that the call would change.

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

/// Explanation of how a call would be decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Registered name of the tool, or the requested name if there is no such tool.
    pub tool_name: String,
    /// Mode that the call was judged in.
    pub mode: Mode,
    /// Verdict.
    #[serde(flatten)]
    pub finding: Finding,
    /// Rules that led to the verdict, in the order of evaluation.
    pub rules: Vec<RuleRef>,
    /// Hash of the policy that judged the call.
    pub policy_hash: String,
}

/// Verdict of an explained call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Finding {
    /// The call would run. If it ran before with the same idempotency key, its recorded outcome would be
    /// returned.
    Permit,
    /// The operator would be asked for approval.
    Ask {
        /// Refusal that the caller gets if the operator does not answer.
        refusal: Box<Refusal>,
        /// Rules that require the approval.
        asked_by: Vec<RuleRef>,
    },
    /// The call would be refused.
    Deny {
        /// Refusal that the caller would get.
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

    /// Refusal, unless the call would run without approval.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Finding::Permit => None,
            Finding::Ask { refusal, .. } | Finding::Deny { refusal } => Some(refusal),
        }
    }
}

/// Recipient of an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hearer {
    /// The caller. The explanation contains no more than the call itself would reveal, and is recorded in the
    /// same way.
    Caller,
    /// The operator, who may see the content of the files.
    Operator,
}

impl ToolExecutionLayer {
    /// Explains how this call would be decided now, in the current or another mode.
    pub async fn explain(&self, request: Request, mode: Option<Mode>, hearer: Hearer) -> Explanation {
        let (world, mode) = (self.world.load_full(), mode.unwrap_or_else(|| self.mode()));
        let (call, arguments) = Call::suppose(request, &self.ledger, world, mode);
        let look = match hearer {
            Hearer::Operator => Look::Freely,
            // An explanation for another mode must not show an agent what the current mode hides.
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

/// Runs the stages without side effects. Returns the registered name of the tool with the verdict and its
/// rules.
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

/// Admits the call and returns its tool, and the earlier call with the same idempotency key, if any.
async fn known<'a>(
    layer: &ToolExecutionLayer,
    call: &'a Call,
    arguments: &Value,
) -> Result<(Option<Earlier>, &'a Arc<Tool>), Box<Refusal>> {
    layer.admits(call)?;
    let earlier = repeats::ran_before(layer, call).await?;
    Ok((earlier, look_up(call, arguments)?))
}

/// Explains a call that requires approval. Some of these calls cannot be shown to the operator and are
/// refused, and some are already approved.
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

/// Converts a verdict to its serialisable form, with the rules that led to it. This closes the paths that
/// were opened for it.
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

/// Refusal for a panic in a stage: the call itself would have failed in the same way.
pub(crate) fn fault(call: &Call) -> Box<Refusal> {
    let reason = "an internal fault in Sinew ended this decision";
    let refusal = Refusal::new(&call.tool_name, RefusalCode::ResourceExhausted, reason);
    Box::new(refusal.detail("internal_fault").hint("see the daemon log for details"))
}
