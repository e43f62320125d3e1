//! `self_check`: what `sinew doctor` checks, as a tool. The walls are leant against, not believed in.

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
    /// Whether everything holds.
    sound: bool,
    /// What was looked at.
    checks: Vec<Check>,
}

pub(super) fn tool(internals: &Internals) -> ToolEntry {
    let about = "Have Sinew look itself over: its sandbox, tried from inside, its record, its disk.";
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
