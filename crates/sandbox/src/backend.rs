//! Platform backends: each one runs a launcher and builds the sandbox with the means of its operating system.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(all(target_os = "linux", test))]
#[allow(unused_imports, reason = "the unit tests do not use it; the `sandbox` test program does")]
pub(crate) use linux::landlock_version;
#[cfg(target_os = "linux")]
pub(crate) use linux::{
    Below, ask_to_be_traced, await_launcher, close_strays, group_for_launcher, groups, has_groups, serve,
};

#[cfg(any(target_os = "macos", test))]
mod macos;
#[cfg(target_os = "macos")]
pub(crate) use macos::{
    Below, ask_to_be_traced, await_launcher, close_strays, group_for_launcher, groups, has_groups, serve,
};
