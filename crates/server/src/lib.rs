//! Endpoints of the daemon: two Unix sockets with one JSON-RPC message per line, for MCP and Sinew's own
//! methods.
//!
//! This crate is the only one that knows the wire format. `frame.rs` splits lines, `rpc/` parses messages,
//! `service.rs` finds the method, `connection.rs` handles a connection, `listener.rs` accepts connections,
//! and `serve.rs` starts and stops the daemon. The execution layer decides what a call means and whether it
//! may run: a method here converts a message to a request and a result to a message.

mod activation;
mod agent;
mod budget;
mod config_watch;
mod connected_clients;
mod connection;
mod connection_state;
mod connection_table;
mod control;
mod descriptor_limit;
mod desktop_notifications;
mod error;
mod frame;
#[cfg(any(test, fuzzing))]
mod fuzz_frames;
mod hand_over;
mod heap;
mod home;
mod in_flight_requests;
mod listener;
mod lock;
mod mcp;
mod methods;
mod notify;
mod outbox;
mod peer_process;
mod platform;
mod private_folder;
mod protocol_schema;
mod reload;
mod request_id_scan;
mod rpc;
mod serve;
mod service;
pub mod settings;
mod settings_file;
mod socket;
mod state_version;
#[cfg(test)]
mod tests;
mod worker_sockets;

pub use config_watch::ConfigWatch;
pub use control::{preview_undo, undo};
pub use error::ServeError;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub use fuzz_frames::fuzz_frames;
pub use hand_over::{ListeningSockets, RestartCheck, StopHandle};
pub use heap::limit_malloc_arenas;
pub use home::{ProcessEnvironment, SinewHome, check_private};
pub use lock::{LockHolder, SharedStateLock, StateLock};
pub use protocol_schema::protocol_schema;
pub use reload::{ConfigLoader, InitialConfigState, LoadedConfig, ReloadInputs};
pub use rpc::is_request_id;
pub use serve::{ServeExit, Served, serve};
pub use state_version::check_state;
