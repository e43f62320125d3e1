//! Risk level of a tool: the harm it can do when misused.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Level of harm a tool can do. It decides how durable its ledger records are and who must approve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RiskLevel {
    /// Reads harmless data.
    Low,
    /// Reaches beyond the machine, or reads private data.
    Medium,
    /// Changes the machine.
    High,
}

impl RiskLevel {
    /// Returns the name used in configuration, messages and ledger records.
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
