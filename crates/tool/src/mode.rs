//! The five operational modes. Which edges exist between them is the business of `governance`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much the machine trusts its agent right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Mode {
    /// Everyday work.
    Normal,
    /// Something looks wrong; changes to the machine need a human.
    Alert,
    /// The machine is short of something; only light work.
    Degraded,
    /// Nothing that changes the machine or leaves it.
    Lockdown,
    /// A human is putting things right.
    Recovery,
}

impl Mode {
    /// All modes, in the order of the documents.
    pub const ALL: [Mode; 5] = [Mode::Normal, Mode::Alert, Mode::Degraded, Mode::Lockdown, Mode::Recovery];

    /// The name used in configuration, messages and records.
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

    /// Exact spelling only: a mode that is almost right is a mistake to report, not to guess at.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Mode::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

/// A mode name that is none of the five.
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
