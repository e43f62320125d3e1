//! Mode of the fleet, and the order that sets it.

use serde::{Deserialize, Serialize};
use tool::Mode;

use crate::policy::check_number;
use crate::signature::{Purpose, Signed, TrustedKeys};
use crate::{FleetError, SubjectToken};

/// Mode that the fleet sets. The fleet can restrict hosts and never loosens one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum FleetMode {
    /// The fleet sets no restriction.
    #[default]
    Normal,
    /// Changes need approval on every host.
    Alert,
    /// No host changes anything.
    Lockdown,
}

impl FleetMode {
    /// Returns the mode that hosts must not loosen; `None` without a restriction.
    pub fn restriction(self) -> Option<Mode> {
        match self {
            FleetMode::Normal => None,
            FleetMode::Alert => Some(Mode::Alert),
            FleetMode::Lockdown => Some(Mode::Lockdown),
        }
    }

    /// Returns the name in messages.
    pub fn as_str(self) -> &'static str {
        self.restriction().unwrap_or(Mode::Normal).as_str()
    }
}

/// Stored mode of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetModeOrder {
    /// Name of the fleet.
    pub fleet: SubjectToken,
    /// Number of the order, which only rises.
    pub epoch: u64,
    /// Mode.
    pub mode: FleetMode,
    /// Reason, which hosts record.
    pub reason: String,
}

impl FleetModeOrder {
    /// Verifies an order against the last one. `Ok(None)` means that it is the last one.
    pub fn verify(
        signed: &Signed,
        fleet: &SubjectToken,
        trusted: &TrustedKeys,
        last: Option<&FleetModeOrder>,
    ) -> Result<Option<FleetModeOrder>, FleetError> {
        let kind = Purpose::Mode.name();
        let order: FleetModeOrder = signed.verify(Purpose::Mode, trusted)?;
        check_fleet(kind, &order.fleet, fleet)?;
        match last {
            Some(last) if *last == order => Ok(None),
            Some(last) => check_number(kind, order.epoch, last.epoch).map(|()| Some(order)),
            None => Ok(Some(order)),
        }
    }
}

/// Refuses messages of another fleet.
pub(super) fn check_fleet(
    kind: &'static str,
    found: &SubjectToken,
    expected: &SubjectToken,
) -> Result<(), FleetError> {
    match found == expected {
        true => Ok(()),
        false => Err(FleetError::Foreign { kind, found: found.to_string(), expected: expected.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SigningKey;

    #[test]
    fn order_needs_a_higher_epoch() {
        let (key, acme) = (SigningKey::from_seed(&[1; 32]).unwrap(), "acme".parse::<SubjectToken>().unwrap());
        let order = |fleet: &SubjectToken, epoch, mode| FleetModeOrder {
            fleet: fleet.clone(),
            epoch,
            mode,
            reason: "drill".to_owned(),
        };
        let last = order(&acme, 5, FleetMode::Lockdown);
        let check = |candidate: &FleetModeOrder, expect: Result<bool, &str>| {
            let signed = key.sign(Purpose::Mode, candidate).unwrap();
            let found = FleetModeOrder::verify(&signed, &acme, &TrustedKeys::one(key.public()), Some(&last));
            match (found, expect) {
                (Ok(found), Ok(is_new)) => assert_eq!(found.is_some(), is_new),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, expect) => panic!("{found:?} is not {expect:?}"),
            }
        };
        check(&last, Ok(false));
        check(&order(&acme, 6, FleetMode::Normal), Ok(true));
        check(&order(&acme, 5, FleetMode::Normal), Err("two different versions"));
        check(&order(&acme, 4, FleetMode::Normal), Err("a rollback"));
        check(&order(&"b".parse().unwrap(), 6, FleetMode::Normal), Err("is for `b`"));
    }
}
