//! What the suite drives the product with: the real binary, real homes, real sockets.
//!
//! People run Sinew as themselves, and root hides failures, so a process that starts as root first becomes an
//! unprivileged user, for good.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)] // a harness that cannot go on fails its test

mod binary;
mod bridge;
mod client;
mod daemon;
mod home;
#[cfg(target_os = "linux")]
pub mod hostile;
mod patience;
mod programs;
mod terminal;

pub use binary::{give_up_root_for_good, sinew, sinew_as_we_are};
pub use bridge::Bridge;
pub use client::Client;
pub use daemon::Daemon;
pub use home::{Home, Run};
pub use patience::{found, until};
pub use programs::programs;
pub use terminal::Terminal;
