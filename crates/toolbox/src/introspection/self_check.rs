//! `self_check`: the checks of `sinew doctor` as a tool. The sandbox is tested by running a program in it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{Annotations, Category, Failure, RiskLevel, ToolSpec};

use super::internals::{Asking, Check, Internals, Source};
use crate::tool_entry::ToolEntry;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

#[derive(Serialize, JsonSchema)]
struct Checked {
    /// True if every check passed.
    sound: bool,
    /// Results of the checks.
    checks: Vec<Check>,
}

pub(super) fn tool(internals: &Internals) -> ToolEntry {
    let about = "Run Sinew's self-checks: the sandbox (tested from inside), the ledger and the disk.";
    let mut spec = ToolSpec::new("self_check", about, Category::SELF_CHECK, RiskLevel::Low);
    spec.annotations = Annotations::LOOKING;
    spec.timeout_seconds = 60;
    spec.example = Some(json!({}));
    let executor = Arc::new(Asking::new(internals, check));
    ToolEntry::with_executor(spec.input::<Arguments>().output::<Checked>(), executor)
}

fn check(source: &Source) -> Result<Checked, Failure> {
    let checks = (source.checks)();
    Ok(Checked { sound: checks.iter().all(|check| check.holds), checks })
}
