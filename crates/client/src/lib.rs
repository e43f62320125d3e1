//! Client of a daemon, for Rust programs and for the command line: one connection to a socket, with requests,
//! tool calls, progress and errors with hints. It starts no daemon and knows no configuration.

mod connection;
mod tool_call;

pub use connection::{Client, ClientError};
pub use tool_call::ToolCall;
