//! What can be measured, and what a measurement is asked for.

use std::time::Duration;

use serde::Serialize;

use crate::files::Metric;

/// How many events of a kind are kept to be counted; of more, the oldest are forgotten.
pub const MOST_COUNTED: u16 = 4096;

/// One measurement that a rule asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// What is measured.
    pub metric: Metric,
    /// For what is counted: how far back.
    pub window: Option<Duration>,
}

/// One measurement and what it was held against, for the record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reading {
    /// What was measured.
    pub metric: &'static str,
    /// The measurement; absent where there was none.
    pub value: Option<f64>,
    /// How it was compared.
    pub operator: &'static str,
    /// With what.
    pub limit: f64,
    /// How far back was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_seconds: Option<u64>,
    /// How long it had held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_seconds: Option<u64>,
}

impl std::fmt::Display for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ", self.metric)?;
        match self.value {
            Some(value) => write!(f, "{} {} {}", short(value), self.operator, short(self.limit))?,
            None => write!(f, "is not known")?,
        }
        match (self.window_seconds, self.held_seconds) {
            (Some(window), _) => write!(f, " in {window} s"),
            (None, Some(held)) if held > 0 => write!(f, " for {held} s"),
            (None, _) => Ok(()),
        }
    }
}

/// A number as a person writes it.
fn short(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

impl Metric {
    /// The word in the file.
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
        }
    }

    /// No measurement is above this.
    pub(crate) fn most(self) -> f64 {
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
            | Metric::ResourceExhaustion => f64::from(MOST_COUNTED),
        }
    }

    /// Whether it is counted over a window, and not read off the machine.
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
            | Metric::ResourceExhaustion => true,
        }
    }
}
