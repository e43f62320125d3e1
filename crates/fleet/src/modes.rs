//! Modes of a fleet: orders, beacons, and the lease of a host. The stricter of the local mode and that of the fleet
//! is in effect.

mod beacon;
mod lease;
mod order;

pub(crate) use beacon::MAX_SKEW_MS;
pub use beacon::{Beacon, BeaconFilter};
pub use lease::{Lease, LeaseState, OnLostFleet};
pub use order::{FleetMode, FleetModeOrder};
