//! `system_metrics_snapshot`: system metrics from the background sampler.

use std::time::Duration;

use governance::Permit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use system_metrics::{Sampler, Snapshot};
use tool::{Annotations, Category, Failure, FailureKind, Output, RiskLevel, ToolSpec};

use crate::tool_entry::{Answer, ToolEntry};

/// Longest wait for a snapshot. The first one takes two samples; later ones are available at once.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

#[derive(Serialize, JsonSchema)]
struct Metrics {
    /// Age of the measurement, in milliseconds.
    age_ms: u64,
    /// Measured values.
    #[serde(flatten)]
    snapshot: Snapshot,
}

pub(super) fn tool() -> ToolEntry {
    let about = "Show system metrics: CPU, memory, swap, pressure, disks, network, load, \
                 temperatures, GPUs. A value that cannot be read is null, with the reason.";
    let mut spec = ToolSpec::new("system_metrics_snapshot", about, Category::READ_ONLY, RiskLevel::Low);
    spec.annotations = Annotations { read_only_hint: true, ..Annotations::default() };
    spec.example = Some(json!({}));
    ToolEntry::new(spec, measure)
}

fn measure(_permit: &Permit, _arguments: &Arguments) -> Result<Answer<Metrics>, Failure> {
    let Some(snapshot) = Sampler::of_this_process().snapshot(PATIENCE) else {
        let message = "the system metrics were not measured in time";
        return Err(
            Failure::new(FailureKind::Transient, message).hint("a disk may not be responding; try again")
        );
    };
    let age_ms = u64::try_from(snapshot.taken.elapsed().as_millis()).unwrap_or(u64::MAX);
    let value = Metrics { age_ms, snapshot: Snapshot::clone(&snapshot) };
    Ok(Answer { value, facts: Output::default() })
}
