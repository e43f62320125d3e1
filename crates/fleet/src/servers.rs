//! The NATS servers of a fleet: the file that describes them, their configuration, streams and permissions.

mod config;
mod fleet_file;
mod roles;
mod streams;
mod version;

pub use config::server_config;
#[cfg(feature = "nats")]
pub(crate) use fleet_file::is_loopback;
pub use fleet_file::{FleetFile, FleetRoster, HostEntry, Invitation, ServerStore, TlsFiles};
pub use roles::{Permissions, Role};
pub use streams::{StreamDefinition, streams};
pub use version::check_server_version;
