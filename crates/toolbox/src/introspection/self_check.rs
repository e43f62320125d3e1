//! `self_check`: the checks of `sinew doctor` as a tool. The sandbox is tested by running a program in it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::{Category, Failure, RiskLevel, ToolSpec};

use super::internals::{Internals, InternalsSource, IntrospectionTool, SelfCheckResult};
use crate::tool_registration::ToolRegistration;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

#[derive(Serialize, JsonSchema)]
struct SelfCheckOutput {
    /// True if every check passed.
    ok: bool,
    /// Results of the checks.
    checks: Vec<SelfCheckResult>,
}

pub(super) fn tool(internals: &Internals) -> ToolRegistration {
    let about = "Run Sinew's self-checks: the sandbox (tested from inside), the ledger and the disk.";
    let mut spec = ToolSpec::new("self_check", about, Category::SELF_CHECK, RiskLevel::Low);
    spec.annotations = Annotations::READ_ONLY;
    spec.timeout_seconds = 60;
    spec.example = Some(json!({}));
    let executor = Arc::new(IntrospectionTool::new(internals, check));
    ToolRegistration::with_executor(spec.with_input::<Arguments>().with_output::<SelfCheckOutput>(), executor)
}

fn check(source: &InternalsSource) -> Result<SelfCheckOutput, Failure> {
    let checks = (source.checks)();
    Ok(SelfCheckOutput { ok: checks.iter().all(|check| check.ok), checks })
}
