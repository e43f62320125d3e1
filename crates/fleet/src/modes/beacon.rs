//! Signed sign of life of the fleet with the epoch of its mode, so that a lost or withheld mode order is noticed at
//! the next beacon.

use serde::{Deserialize, Serialize};

use super::FleetMode;
use super::order::check_fleet;
use crate::policy::check_number;
use crate::signature::{Purpose, Signed, TrustedKeys};
use crate::{FleetError, SubjectToken};

/// Difference of clocks that is tolerated in messages from the future.
pub(crate) const MAX_SKEW_MS: u64 = 30_000;

/// Content of a beacon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beacon {
    /// Name of the fleet.
    pub fleet: SubjectToken,
    /// Time of the signature in milliseconds, which only rises.
    pub at: u64,
    /// Epoch of the mode order in effect.
    pub epoch: u64,
    /// Mode of the fleet.
    pub mode: FleetMode,
}

/// Check of beacons against those before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeaconFilter {
    last_at: u64,
    epoch: u64,
}

impl BeaconFilter {
    /// Accepts a beacon that is newer than every one before, so that a server cannot replay one to hide a lockdown
    /// or to prolong a lease.
    pub fn accept(
        &mut self,
        signed: &Signed,
        (fleet, trusted): (&SubjectToken, &TrustedKeys),
        now: u64,
    ) -> Result<Beacon, FleetError> {
        let kind = Purpose::Beacon.name();
        let beacon: Beacon = signed.verify(Purpose::Beacon, trusted)?;
        check_fleet(kind, &beacon.fleet, fleet)?;
        check_number(kind, beacon.at, self.last_at)?;
        if beacon.at > now + MAX_SKEW_MS {
            return Err(FleetError::Future { kind, seconds: (beacon.at - now) / 1000 });
        }
        if beacon.epoch < self.epoch {
            return Err(FleetError::Rollback { kind, found: beacon.epoch, current: self.epoch });
        }
        *self = BeaconFilter { last_at: beacon.at, epoch: beacon.epoch };
        Ok(beacon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SigningKey;

    #[test]
    fn replayed_and_future_beacons_are_refused() {
        let (key, acme) = (SigningKey::from_seed(&[1; 32]).unwrap(), "acme".parse::<SubjectToken>().unwrap());
        let trusted = TrustedKeys::one(key.public());
        let mut filter = BeaconFilter::default();
        let mut check = |at: u64, epoch: u64, now: u64, expect: Result<(), &str>| {
            let beacon = Beacon { fleet: acme.clone(), at, epoch, mode: FleetMode::Lockdown };
            let signed = key.sign(Purpose::Beacon, &beacon).unwrap();
            match (filter.accept(&signed, (&acme, &trusted), now), expect) {
                (Ok(found), Ok(())) => assert_eq!(found, beacon),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, expect) => panic!("{found:?} is not {expect:?}"),
            }
        };
        check(1000, 1, 1000, Ok(()));
        check(1000, 1, 1001, Err("two different versions"));
        check(999, 1, 1001, Err("has number 999"));
        check(1001 + MAX_SKEW_MS, 1, 1000, Err("in the future"));
        check(2000, 2, 2000, Ok(()));
        check(2001, 1, 2001, Err("has number 1"));
        check(2000 + MAX_SKEW_MS, 2, 2000, Ok(()));
    }
}
