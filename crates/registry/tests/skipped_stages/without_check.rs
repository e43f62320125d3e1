//! Without the check stage: a definition and arguments are not a checked call.

use governance::{Policy, Situation};
use registry::Tool;

fn execute(tool: &Tool, policy: &Policy, situation: &Situation<'_>, arguments: serde_json::Value) {
    let _ = governance::precheck(policy, situation, (tool.definition().clone(), arguments));
}

fn main() {}
