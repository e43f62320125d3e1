//! Client of a daemon, for Rust programs and for the command line: one connection to a socket, with requests,
//! progress and errors that explain themselves. It starts no daemon and knows no configuration.

mod connection;

pub use connection::{Client, ClientError};
