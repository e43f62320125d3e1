//! macOS: the launcher starts the program through the system's own `sandbox-exec`, under a profile made for the run.
//!
//! There are no namespaces here. A descendant that left its session is searched for and ended with the rest, and may
//! slip through; memory and processes are counted now and then; the loopback is the machine's.

mod processes;
mod profile;

#[cfg(target_os = "macos")]
mod start;
#[cfg(target_os = "macos")]
pub(crate) use start::{
    Below, ask_to_be_traced, await_launcher, close_strays, group_for_launcher, groups, has_groups, serve,
};
