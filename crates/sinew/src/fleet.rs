//! The daemon as a host of a fleet: it keeps a connection, follows the mode and the policy of the fleet, and mirrors
//! its ledger. The daemon serves its sockets whether or not a server answers.

mod host_state;
mod ledger_mirror;
mod mode_watch;
mod policy_pull;
mod presence;
mod service;
mod status;

pub(crate) use host_state::fleet_dir;
pub(crate) use service::start;
pub(crate) use status::FleetStatus;

/// Returns the files with the state of a membership, for removal.
pub(crate) fn state_files(folder: &std::path::Path) -> [std::path::PathBuf; 2] {
    [host_state::HostState::file(folder), status::StatusBoard::file(folder)]
}

/// Returns the time in milliseconds since 1970, by the clock of this machine.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default()
}
