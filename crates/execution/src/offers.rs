//! Availability of each tool under the current policy, judged by the tool's example.

use std::sync::Arc;

use governance::files::Expectation;
use guardrail::Known;
use registry::Tool;
use tool::{Category, RiskLevel};

use crate::layer::ToolExecutionLayer;

/// Availability of a tool in the current mode.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Name of the tool.
    pub name: String,
    /// Category of the tool.
    pub category: Category,
    /// Risk level of the tool.
    pub risk_level: RiskLevel,
    /// Verdict for the example of the tool, judged by names alone; no file is opened.
    pub verdict: Expectation,
    /// Reason, unless the verdict is allow.
    pub reason: Option<String>,
}

impl ToolExecutionLayer {
    /// Returns all tools, by name.
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
                // Without a valid example, only the mode decides.
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
