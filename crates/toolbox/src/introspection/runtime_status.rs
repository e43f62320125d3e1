//! `runtime_status`: the mode, the remaining limits, and the tools that the policy allows now.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tool::definition::Annotations;
use tool::{Category, Failure, FailureKind, RiskLevel, ToolSpec};

use super::internals::{Internals, InternalsSource, IntrospectionTool, RuntimeStatus};
use crate::tool_registration::ToolRegistration;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

pub(super) fn tool(internals: &Internals) -> ToolRegistration {
    let about =
        "Show the state of Sinew: its mode, its remaining limits, and which tools the policy allows now.";
    let mut spec = ToolSpec::new("runtime_status", about, Category::SELF_CHECK, RiskLevel::Low);
    spec.annotations = Annotations { read_only_hint: true, ..Annotations::default() };
    spec.example = Some(json!({}));
    let executor = Arc::new(IntrospectionTool::new(internals, status));
    ToolRegistration::with_executor(spec.with_input::<Arguments>().with_output::<RuntimeStatus>(), executor)
}

fn status(source: &InternalsSource) -> Result<RuntimeStatus, Failure> {
    (source.status)().ok_or_else(|| Failure::new(FailureKind::Cancelled, "Sinew is shutting down"))
}
