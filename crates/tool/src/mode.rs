//! The five operational modes. The transitions between them are defined in `governance`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Operational mode, which states how much the machine trusts its agent at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Mode {
    /// Everyday work.
    Normal,
    /// Something looks wrong; changes to the machine need operator approval.
    Alert,
    /// The machine is short of a resource; only light work.
    Degraded,
    /// Nothing may change the machine or reach beyond it.
    Lockdown,
    /// The operator is repairing the machine.
    Recovery,
}

impl Mode {
    /// All modes, in the order of the specification.
    pub const ALL: [Mode; 5] = [Mode::Normal, Mode::Alert, Mode::Degraded, Mode::Lockdown, Mode::Recovery];

    /// Returns the name used in configuration, messages and ledger records.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Normal => "NORMAL",
            Mode::Alert => "ALERT",
            Mode::Degraded => "DEGRADED",
            Mode::Lockdown => "LOCKDOWN",
            Mode::Recovery => "RECOVERY",
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Mode {
    type Err = UnknownMode;

    /// Accepts the exact spelling only: a near miss is reported, not guessed at.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Mode::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

/// Error for a name that is none of the five modes.
#[derive(Debug, thiserror::Error)]
#[error("unknown mode `{0}`: expected NORMAL, ALERT, DEGRADED, LOCKDOWN or RECOVERY")]
pub struct UnknownMode(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_near_misses_are_refused() {
        for mode in Mode::ALL {
            assert_eq!(mode.as_str().parse::<Mode>().unwrap(), mode);
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
        }
        for wrong in ["normal", "NORMAL ", "", "SAFE", "ＮORMAL"] {
            assert!(wrong.parse::<Mode>().is_err(), "{wrong:?} must not be a mode");
        }
    }
}
