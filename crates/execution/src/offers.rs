//! What the policy of now says to each tool's own example, for whoever asks what it may do.

use std::sync::Arc;

use governance::files::Expectation;
use guardrail::Known;
use registry::Tool;
use tool::{Category, RiskLevel};

use crate::layer::ToolExecutionLayer;

/// How a tool stands in the current mode.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The tool.
    pub name: String,
    /// Its category.
    pub category: Category,
    /// The harm it can do.
    pub risk_level: RiskLevel,
    /// What would become of its example, judged by its names alone.
    pub verdict: Expectation,
    /// Why it is not simply allowed.
    pub reason: Option<String>,
}

impl ToolExecutionLayer {
    /// All tools, by name.
    pub fn offers(&self) -> Vec<Offer> {
        let (world, mode) = (self.world.load(), self.mode());
        let one = |tool: &Arc<Tool>| {
            let (definition, schema) = (tool.definition(), tool.schema());
            let example = definition.example().and_then(|example| example.as_object().cloned());
            let known = Known { definition, schema };
            let tried = world.policy.try_known(known, &example.unwrap_or_default(), mode, &world.workspaces);
            let (verdict, reason) = match tried {
                Ok(found) => {
                    let summary = found.summary();
                    (found.verdict, (found.verdict != Expectation::Allow).then_some(summary))
                }
                // It has no example that is a call; then its mode is all that can be said.
                Err(_) if world.policy.offers(definition, mode) => (Expectation::Allow, None),
                Err(_) => (Expectation::Deny, Some(format!("deny: not in {mode}"))),
            };
            Offer {
                name: definition.name().to_string(),
                category: definition.category().clone(),
                risk_level: definition.risk_level(),
                verdict,
                reason,
            }
        };
        let tools = world.registry.definitions();
        tools.filter_map(|definition| world.registry.get(definition.name().as_str())).map(one).collect()
    }
}
