//! `system_metrics_snapshot`: system metrics from the background sampler.

use std::time::Duration;

use governance::Permit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use system_metrics::{SystemSampler, SystemSnapshot};
use tool::definition::Annotations;
use tool::{Category, Failure, FailureKind, RiskLevel, ToolOutput, ToolSpec};

use crate::tool_registration::{ToolRegistration, TypedOutput};

/// Longest wait for a snapshot. The first one takes two samples; later ones are available at once.
const SAMPLE_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {}

#[derive(Serialize, JsonSchema)]
struct SystemMetricsOutput {
    /// Age of the measurement, in milliseconds.
    age_ms: u64,
    /// Measured values.
    #[serde(flatten)]
    snapshot: SystemSnapshot,
}

pub(super) fn tool() -> ToolRegistration {
    let about = "Show system metrics: CPU, memory, swap, pressure, disks, network, load, \
                 temperatures, GPUs. A value that cannot be read is null, with the reason.";
    let mut spec = ToolSpec::new("system_metrics_snapshot", about, Category::READ_ONLY, RiskLevel::Low);
    spec.annotations = Annotations { read_only_hint: true, ..Annotations::default() };
    spec.example = Some(json!({}));
    ToolRegistration::new(spec, measure)
}

fn measure(_permit: &Permit, _arguments: &Arguments) -> Result<TypedOutput<SystemMetricsOutput>, Failure> {
    let Some(snapshot) = SystemSampler::global().snapshot(SAMPLE_TIMEOUT) else {
        let message = "the system metrics were not measured in time";
        return Err(Failure::new(FailureKind::Transient, message)
            .with_hint("a disk may not be responding; try again"));
    };
    let age_ms = u64::try_from(snapshot.taken.elapsed().as_millis()).unwrap_or(u64::MAX);
    let value = SystemMetricsOutput { age_ms, snapshot: SystemSnapshot::clone(&snapshot) };
    Ok(TypedOutput { value, metadata: ToolOutput::default() })
}
