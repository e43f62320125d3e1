//! Lease: the time for which a host works without a sign of life of its fleet.

use serde::{Deserialize, Serialize};

use super::{Beacon, FleetMode};

/// Behaviour of a host that is cut off from its fleet for longer than its lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLostFleet {
    /// Continues in its own mode and the last mode of the fleet.
    #[default]
    Keep,
    /// Continues in ALERT or a stricter mode.
    Alert,
    /// Enters LOCKDOWN.
    Lockdown,
}

/// State of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseState {
    /// A beacon arrived within the lease.
    Held,
    /// No beacon arrived for longer than the lease.
    Lost,
}

/// Lease of a host. It is counted from the time in the beacon by the clock of the host, so that a server that delays
/// beacons cannot extend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Length in milliseconds.
    length: u64,
    on_lost: OnLostFleet,
    /// Time up to which the lease is held.
    until: u64,
    /// Last known mode of the fleet.
    mode: FleetMode,
    epoch: u64,
}

impl Lease {
    /// Creates the lease of a host that has just started, which counts as a sign of life: it has one length of time
    /// to connect. `mode` is the last known mode of the fleet.
    pub fn new(seconds: u64, on_lost: OnLostFleet, (mode, epoch): (FleetMode, u64), now: u64) -> Lease {
        let length = seconds.saturating_mul(1000);
        Lease { length, on_lost, until: now.saturating_add(length), mode, epoch }
    }

    /// Renews the lease and takes the mode of a beacon.
    pub fn renew(&mut self, beacon: &Beacon) {
        self.until = self.until.max(beacon.at.saturating_add(self.length));
        self.set_mode(beacon.mode, beacon.epoch);
    }

    /// Takes a mode of the fleet, unless it is older than the known one.
    pub fn set_mode(&mut self, mode: FleetMode, epoch: u64) {
        if epoch >= self.epoch {
            (self.mode, self.epoch) = (mode, epoch);
        }
    }

    /// Returns the state of the lease.
    pub fn state(&self, now: u64) -> LeaseState {
        if now < self.until { LeaseState::Held } else { LeaseState::Lost }
    }

    /// Returns the last known mode of the fleet and its epoch.
    pub fn fleet_mode(&self) -> (FleetMode, u64) {
        (self.mode, self.epoch)
    }

    /// Returns the restriction that the fleet sets now, also by its absence.
    pub fn restriction(&self, now: u64) -> FleetMode {
        let absence = match (self.state(now), self.on_lost) {
            (LeaseState::Held, _) | (LeaseState::Lost, OnLostFleet::Keep) => FleetMode::Normal,
            (LeaseState::Lost, OnLostFleet::Alert) => FleetMode::Alert,
            (LeaseState::Lost, OnLostFleet::Lockdown) => FleetMode::Lockdown,
        };
        self.mode.max(absence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beacon(at: u64, epoch: u64, mode: FleetMode) -> Beacon {
        Beacon { fleet: "acme".parse().unwrap(), at, epoch, mode }
    }

    #[test]
    fn lost_lease_restricts_as_configured() {
        for (on_lost, expect) in [
            (OnLostFleet::Keep, FleetMode::Normal),
            (OnLostFleet::Alert, FleetMode::Alert),
            (OnLostFleet::Lockdown, FleetMode::Lockdown),
        ] {
            let mut lease = Lease::new(60, on_lost, (FleetMode::Normal, 0), 0);
            assert_eq!(lease.restriction(59_999), FleetMode::Normal);
            assert_eq!(lease.restriction(60_000), expect);
            lease.renew(&beacon(100_000, 1, FleetMode::Normal));
            assert_eq!(lease.restriction(159_999), FleetMode::Normal, "a beacon heals it");
            // A beacon that was held back does not extend the lease beyond its own time.
            lease.renew(&beacon(101_000, 1, FleetMode::Normal));
            assert_eq!(lease.state(161_000), LeaseState::Lost);
        }
    }

    #[test]
    fn lockdown_of_the_fleet_outlives_the_connection() {
        let mut lease = Lease::new(60, OnLostFleet::Keep, (FleetMode::Normal, 0), 0);
        lease.renew(&beacon(1000, 2, FleetMode::Lockdown));
        assert_eq!(lease.restriction(1_000_000), FleetMode::Lockdown);
        lease.set_mode(FleetMode::Normal, 1);
        assert_eq!(lease.fleet_mode(), (FleetMode::Lockdown, 2), "an older order changes nothing");
        lease.set_mode(FleetMode::Normal, 3);
        assert_eq!(lease.restriction(2000), FleetMode::Normal);
    }
}
