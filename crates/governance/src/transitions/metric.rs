//! Metrics, queries for them, and readings.

use std::time::Duration;

use serde::Serialize;

use crate::files::Metric;

/// Maximum number of events of a kind that are kept for counting. The oldest are dropped first.
pub const MAX_COUNTED_EVENTS: u16 = 4096;

/// Measurement that a rule needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricQuery {
    /// Metric to measure.
    pub metric: Metric,
    /// Window of a counted metric.
    pub window: Option<Duration>,
}

/// Measurement and the threshold it was compared with, for the ledger.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricReading {
    /// Metric name.
    pub metric: &'static str,
    /// Measured value; `None` if there was none.
    pub value: Option<f64>,
    /// Comparison operator.
    pub operator: &'static str,
    /// Threshold.
    pub limit: f64,
    /// Window of a counted metric, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<u64>,
    /// Time in seconds for which the condition had held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_seconds: Option<u64>,
}

impl std::fmt::Display for MetricReading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.metric)?;
        match self.value {
            Some(value) => {
                write!(f, "{} {} {}", format_number(value), self.operator, format_number(self.limit))?
            }
            None => write!(f, "is not known")?,
        }
        match (self.window_seconds, self.held_seconds) {
            (Some(window), _) => write!(f, " in {window} s"),
            (None, Some(held)) if held > 0 => write!(f, " for {held} s"),
            (None, _) => Ok(()),
        }
    }
}

/// Formats a number with at most one decimal.
fn format_number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

impl Metric {
    /// Returns the name used in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Metric::CpuLoadPercent => "cpu_load_percent",
            Metric::MemoryUsedPercent => "memory_used_percent",
            Metric::MemoryPressure => "memory_pressure",
            Metric::DiskUsedPercent => "disk_used_percent",
            Metric::ToolErrorRate => "tool_error_rate",
            Metric::PolicyViolations => "policy_violations",
            Metric::HighRiskCalls => "high_risk_calls",
            Metric::RefusedHighRiskCalls => "refused_high_risk_calls",
            Metric::RepeatedValidationFailures => "repeated_validation_failures",
            Metric::ResourceExhaustion => "resource_exhaustion",
            Metric::LedgerPressure => "ledger_pressure",
        }
    }

    /// Returns the highest value that a measurement can have.
    pub(crate) fn max_value(self) -> f64 {
        match self {
            Metric::CpuLoadPercent
            | Metric::MemoryUsedPercent
            | Metric::DiskUsedPercent
            | Metric::ToolErrorRate => 100.0,
            Metric::MemoryPressure => 4.0,
            Metric::PolicyViolations
            | Metric::HighRiskCalls
            | Metric::RefusedHighRiskCalls
            | Metric::RepeatedValidationFailures
            | Metric::ResourceExhaustion
            | Metric::LedgerPressure => f64::from(MAX_COUNTED_EVENTS),
        }
    }

    /// Returns true if the metric is counted over a window instead of being measured directly.
    pub fn is_counted(self) -> bool {
        match self {
            Metric::CpuLoadPercent
            | Metric::MemoryUsedPercent
            | Metric::MemoryPressure
            | Metric::DiskUsedPercent => false,
            Metric::ToolErrorRate
            | Metric::PolicyViolations
            | Metric::HighRiskCalls
            | Metric::RefusedHighRiskCalls
            | Metric::RepeatedValidationFailures
            | Metric::ResourceExhaustion
            | Metric::LedgerPressure => true,
        }
    }
}
