//! macOS: the launcher starts the program through the system's own `sandbox-exec`, under a profile made for the run.
//!
//! There are no namespaces here. A descendant that left its session is searched for and ended with the rest, and may
//! slip through; the loopback is the machine's.

mod profile;

#[cfg(target_os = "macos")]
mod start;
#[cfg(target_os = "macos")]
pub(crate) use start::{close_strays, prepare, run};
