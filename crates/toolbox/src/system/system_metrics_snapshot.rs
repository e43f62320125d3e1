//! `system_metrics_snapshot`: how the machine is doing, from a sampler that has looked already.

use std::time::Duration;

use governance::Permit;
use machine::{Sampler, Snapshot};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{Annotations, Category, Failure, FailureKind, Output, RiskLevel, ToolSpec};

use crate::tool_entry::{Answer, ToolEntry};

/// The first answer takes two looks; all others are there.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

#[derive(Serialize, JsonSchema)]
struct Metrics {
    /// How long ago it was measured, in milliseconds.
    age_ms: u64,
    /// What was measured.
    #[serde(flatten)]
    snapshot: Snapshot,
}

pub(super) fn tool() -> ToolEntry {
    let about = "Show how busy this machine is: processors, memory, swap, pressure, disks, network, load, \
                 temperatures, graphics processors. What cannot be read is null, with the reason.";
    let mut spec = ToolSpec::new("system_metrics_snapshot", about, Category::READ_ONLY, RiskLevel::Low);
    spec.annotations = Annotations { read_only_hint: true, ..Annotations::default() };
    spec.example = Some(json!({}));
    ToolEntry::new(spec, measure)
}

fn measure(_permit: &Permit, _arguments: &Arguments) -> Result<Answer<Metrics>, Failure> {
    let Some(snapshot) = Sampler::of_this_process().snapshot(PATIENCE) else {
        let message = "this machine did not answer in time";
        return Err(Failure::new(FailureKind::Transient, message).hint("a disk may hang; try again"));
    };
    let age_ms = u64::try_from(snapshot.taken.elapsed().as_millis()).unwrap_or(u64::MAX);
    let value = Metrics { age_ms, snapshot: Snapshot::clone(&snapshot) };
    Ok(Answer { value, facts: Output::default() })
}
