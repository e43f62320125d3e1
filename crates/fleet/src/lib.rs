//! Rules of a fleet: many hosts under one policy, with a second copy of every ledger on NATS JetStream.
//!
//! Everything outside of `link` is pure: time and random bytes are arguments. `link`, behind the feature `nats`, is the
//! connection to the servers, and the only module with I/O. A host keeps its own policy, its own ledger and its own
//! refusals; the fleet adds distribution, placement and the copy. Nothing is trusted because of the connection it came
//! from: bundles, modes, beacons, heads and calls are signed.

pub mod calls;
mod error;
#[cfg(feature = "nats")]
pub mod link;
pub mod mirroring;
pub mod modes;
pub mod policy;
pub mod servers;
mod signature;
#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
mod subject_token;
mod subjects;

pub use error::FleetError;
pub use signature::{Purpose, Signed, SigningKey, TrustedKeys, VerifyingKey};
pub use subject_token::{PARTITIONS, SubjectToken};
pub use subjects::Subjects;
