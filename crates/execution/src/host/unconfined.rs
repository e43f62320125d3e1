//! Refuses host calls that the policy requires to be sandboxed: a host runs its own tools without Sinew's
//! sandbox.

use governance::Verdict;
use tool::{Refusal, RefusalCode, RuleRef, ToolDefinition};

use crate::call::PipelineCall;

/// Refuses a call if a rule requires a sandbox for its tool. The result does not depend on the sandbox
/// support of this machine.
pub(super) fn refuse_if_sandbox_required(
    call: &PipelineCall,
    definition: &ToolDefinition,
    verdict: Verdict,
) -> Result<Verdict, Box<Refusal>> {
    let needs_sandbox = match &verdict {
        Verdict::Permit(_) | Verdict::ApprovalRequired(_) => true,
        Verdict::Denial(denial) => denial.refusal().code == RefusalCode::SandboxUnavailable,
    };
    match call.snapshot.policy.sandbox_rule(definition).filter(|_| needs_sandbox) {
        Some(rule) => Err(refusal(call, definition, rule)),
        None => Ok(verdict),
    }
}

fn refusal(call: &PipelineCall, definition: &ToolDefinition, rule: RuleRef) -> Box<Refusal> {
    let reason = "Tool must run in the sandbox, and a host runs its own tools without one";
    let name = definition.name().as_str();
    let refusal = Refusal::new(name, RefusalCode::SandboxUnavailable, reason).with_detail("runs_unconfined");
    Box::new(refusal.with_hint(hint(call, definition)).with_rule(rule))
}

/// Suggests Sinew's tool of the same name, else Sinew's tools of the same category.
fn hint(call: &PipelineCall, definition: &ToolDefinition) -> String {
    let registry = &call.snapshot.registry;
    let same = registry.get(definition.name().as_str()).map(|tool| tool.definition().name().to_string());
    let alike = || {
        let names = registry.filter(definition.category()).map(|tool| format!("`{}`", tool.name()));
        names.collect::<Vec<_>>().join(" or ")
    };
    match same.map_or_else(alike, |name| format!("`{name}`")) {
        names if names.is_empty() => {
            "Sinew has no tool for this; the operator can change the rule".to_owned()
        }
        names => {
            format!("use Sinew's own {names} instead: Sinew runs it in the sandbox that the rule requires")
        }
    }
}
