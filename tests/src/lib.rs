//! Test harness of the suite: runs the real binary with real homes and real sockets.
//!
//! Root hides permission failures, so a process that starts as root first becomes an unprivileged user,
//! permanently.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)] // a harness failure fails the test

mod binary;
mod bridge;
#[cfg(target_os = "linux")]
mod browser;
mod campaign;
mod client;
mod daemon;
mod home;
#[cfg(target_os = "linux")]
pub mod hostile;
mod left_out;
#[cfg(target_os = "linux")]
mod openat2;
mod polling;
mod programs;
#[cfg(target_os = "linux")]
mod strace;
mod terminal;

pub use binary::{drop_root_permanently, sinew, sinew_as_current_user};
pub use bridge::Bridge;
#[cfg(target_os = "linux")]
pub use browser::Browser;
pub use campaign::{Campaign, Random};
pub use client::Client;
pub use daemon::{Daemon, FailedStart};
pub use home::{Home, SinewRun, holds};
pub use left_out::left_out;
#[cfg(target_os = "linux")]
pub use openat2::take_openat2_away;
pub use polling::{wait_for, wait_until};
pub use programs::program_folder;
#[cfg(target_os = "linux")]
pub use strace::Strace;
pub use terminal::{Terminal, TerminalForm};
