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
mod client;
mod config_watch;
mod connection;
mod control;
mod desktop;
mod error;
mod frame;
mod heap;
mod home;
mod in_flight;
mod listener;
mod lock;
mod mcp;
mod methods;
mod notify;
mod outbox;
mod platform;
mod private_folder;
mod reload;
mod rpc;
mod serve;
mod service;
mod session;
mod settings;
mod settings_file;
mod socket;
#[cfg(test)]
mod tests;
mod worker;

pub use client::{Client, ClientError, Socket};
pub use config_watch::ConfigWatch;
pub use control::{rehearse_undo, undo};
pub use error::ServeError;
pub use heap::share_heaps;
pub use home::{Environment, Home, check_private};
pub use lock::{Holder, StateLock, StateView};
pub use reload::{Following, Fresh, Held, Source};
pub use serve::{Exit, Stop, serve};
pub use settings::{
    ApprovalSettings, KeySetting, LedgerSettings, Limits, NotifyBy, ProviderSetting, RobotsSetting,
    SETTINGS_TEMPLATE, SearchProvider, Settings, UndoSettings, WebSettings, WhenUnavailable,
    WorkspaceSetting,
};
pub use settings_file::{ReloadMode, SettingsFile, WorkspaceAccess};
