//! macOS backend: the launcher starts the program through the system's `sandbox-exec`, under a profile
//! generated for the run.
//!
//! There are no namespaces. Descendants that left the session are searched for and killed with the rest, but
//! may escape. Memory and processes are sampled periodically. The loopback interface is the machine's.

mod processes;
pub(crate) mod profile;
#[cfg(test)]
pub(crate) mod profile_evaluator;

#[cfg(target_os = "macos")]
mod program_start;
#[cfg(target_os = "macos")]
pub(crate) use program_start::{
    LauncherChildren, cgroup_argument, cgroup_controllers, close_inherited_descriptors, has_cgroups,
    request_trace, run_launcher, wait_for_launcher,
};
