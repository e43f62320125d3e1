//! Test harness of the suite: runs the real binary with real homes and real sockets.
//!
//! Root hides permission failures, so a process that starts as root first becomes an unprivileged user,
//! permanently.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)] // a harness failure fails the test

mod binary;
mod bridge;
mod client;
mod daemon;
mod home;
#[cfg(target_os = "linux")]
pub mod hostile;
mod left_out;
mod polling;
mod programs;
mod terminal;

pub use binary::{give_up_root_for_good, sinew, sinew_as_we_are};
pub use bridge::Bridge;
pub use client::Client;
pub use daemon::Daemon;
pub use home::{Home, Run};
pub use left_out::left_out;
pub use polling::{found, until};
pub use programs::programs;
pub use terminal::Terminal;
