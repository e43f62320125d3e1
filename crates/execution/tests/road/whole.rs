//! The whole road compiles; the other cases each change one thing about it.

use std::sync::Arc;

use governance::{Policy, Situation, Verdict};
use ledger::{Decision, Ledger};
use registry::Tool;

pub async fn walk(
    tool: &Tool,
    policy: &Policy,
    situation: &Situation<'_>,
    ledger: &Ledger,
    decision: Decision,
    arguments: serde_json::Value,
) {
    let Ok(valid) = guardrail::check(tool.definition(), tool.schema(), arguments) else { return };
    let Ok(cleared) = governance::clear(policy, situation, valid) else { return };
    let Ok(opened) = resources::open(cleared) else { return };
    let Verdict::Permit(permit) = governance::judge(policy, situation, opened) else { return };
    let Ok(order) = ledger.intend(decision, permit).await else { return };
    drop(tool.executor().run(Arc::new(order)));
}

fn main() {}
