//! How much harm a tool can do when it is used wrongly.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The harm a tool can do. It decides how durable its record must be and who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RiskLevel {
    /// Reads something harmless.
    Low,
    /// Leaves the machine, or reads something private.
    Medium,
    /// Changes the machine.
    High,
}

impl RiskLevel {
    /// The name used in configuration, messages and records.
    pub fn as_str(self) -> &'static str {
        match self {
            RiskLevel::Low => "low",
            RiskLevel::Medium => "medium",
            RiskLevel::High => "high",
        }
    }
}

impl std::fmt::Display for RiskLevel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
