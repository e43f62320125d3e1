//! Availability of each tool under the current policy, judged by the tool's example.

use std::sync::Arc;

use governance::files::VerdictKind;
use guardrail::KnownTool;
use registry::Tool;
use tool::{Category, RiskLevel};

use crate::layer::ToolExecutionLayer;

/// Availability of a tool in the current mode.
#[derive(Clone, Debug)]
pub struct ToolAvailability {
    /// Name of the tool.
    pub name: String,
    /// Category of the tool.
    pub category: Category,
    /// Risk level of the tool.
    pub risk_level: RiskLevel,
    /// Verdict for the example of the tool, judged by names alone; no file is opened.
    pub verdict: VerdictKind,
    /// Reason, unless the verdict is allow.
    pub reason: Option<String>,
}

impl ToolExecutionLayer {
    /// Returns all tools, by name.
    pub fn tool_availability(&self) -> Vec<ToolAvailability> {
        let (snapshot, mode) = (self.current.snapshot.load(), self.mode());
        let one = |tool: &Arc<Tool>| {
            let (definition, schema) = (tool.definition(), tool.schema());
            let example = definition.example().and_then(|example| example.as_object().cloned());
            let known = KnownTool { definition, schema };
            let tried = snapshot.policy.dry_run_with_schema(
                known,
                &example.unwrap_or_default(),
                mode,
                &snapshot.workspaces,
            );
            let (verdict, reason) = match tried {
                Ok(found) => {
                    let summary = found.summary();
                    (found.verdict, (found.verdict != VerdictKind::Allow).then_some(summary))
                }
                // Without a valid example, only the mode decides.
                Err(_) if snapshot.policy.may_run(definition, mode) => (VerdictKind::Allow, None),
                Err(_) => (VerdictKind::Deny, Some(format!("deny: not in {mode}"))),
            };
            ToolAvailability {
                name: definition.name().to_string(),
                category: definition.category().clone(),
                risk_level: definition.risk_level(),
                verdict,
                reason,
            }
        };
        let tools = snapshot.registry.definitions();
        tools.filter_map(|definition| snapshot.registry.get(definition.name().as_str())).map(one).collect()
    }
}
