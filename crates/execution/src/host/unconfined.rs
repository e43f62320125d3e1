//! What a host runs it runs without our walls, whatever this machine could build: a rule that asks for them is not met.

use governance::Verdict;
use tool::{Refusal, RefusalCode, RuleRef, ToolDefinition};

use crate::call::Call;

/// Refuses what the rules let run in walls alone. The answer is the same on a machine that has walls and on one that
/// has none.
pub(super) fn refuse(
    call: &Call,
    definition: &ToolDefinition,
    verdict: Verdict,
) -> Result<Verdict, Box<Refusal>> {
    let needs_walls = match &verdict {
        Verdict::Permit(_) | Verdict::Question(_) => true,
        Verdict::Denial(denial) => denial.refusal().code == RefusalCode::SandboxUnavailable,
    };
    match call.world.policy.asks_for_walls(definition).filter(|_| needs_walls) {
        Some(rule) => Err(refusal(call, definition, rule)),
        None => Ok(verdict),
    }
}

fn refusal(call: &Call, definition: &ToolDefinition, rule: RuleRef) -> Box<Refusal> {
    let reason = "Tool must run confined, and a host runs its own tools without confinement";
    let name = definition.name().as_str();
    let refusal = Refusal::new(name, RefusalCode::SandboxUnavailable, reason).detail("runs_unconfined");
    Box::new(refusal.hint(hint(call, definition)).rule(rule))
}

/// Our own tool of that name runs where the rule says; else those of ours that do the like.
fn hint(call: &Call, definition: &ToolDefinition) -> String {
    let registry = &call.world.registry;
    let same = registry.get(definition.name().as_str()).map(|tool| tool.definition().name().to_string());
    let alike = || {
        let names = registry.filter(definition.category()).map(|tool| format!("`{}`", tool.name()));
        names.collect::<Vec<_>>().join(" or ")
    };
    match same.map_or_else(alike, |name| format!("`{name}`")) {
        names if names.is_empty() => {
            "no tool of Sinew's own does this; a person can change the rule".to_owned()
        }
        names => {
            format!("use Sinew's own {names} instead: Sinew runs it in the walls that the rule asks for")
        }
    }
}
