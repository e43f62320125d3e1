//! Connection to the NATS servers of a fleet: TLS with a pinned authority, a key per user, the version floor, and
//! JetStream by its plain requests.
//!
//! Each user may use only a few subjects of the JetStream API, so this module sends exactly those requests and uses no
//! layer that sends others. Nothing that arrives is trusted because it arrived here.

mod connection;
mod enrolment;
mod keys;
mod membership;

pub use connection::{ConnectionSettings, FleetConnection, FleetSubscription, Received, StoredMessage};
pub use enrolment::{EnrolmentRequest, JoinToken};
pub use keys::{ConnectionKey, random_bytes, random_id};
pub use membership::FleetMembership;
