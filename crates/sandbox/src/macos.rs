//! macOS backend: the launcher starts the program through the system's `sandbox-exec`, under a profile
//! generated for the run.
//!
//! There are no namespaces. Descendants that left the session are searched for and killed with the rest, but
//! may escape. Memory and processes are sampled periodically. The loopback interface is the machine's.

mod processes;
mod profile;

#[cfg(target_os = "macos")]
mod start;
#[cfg(target_os = "macos")]
pub(crate) use start::{
    Below, ask_to_be_traced, await_launcher, close_strays, group_for_launcher, groups, has_groups, serve,
};
