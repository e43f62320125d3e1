//! The seam between systems: how a launcher becomes one, and how it builds its walls.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::{ask_to_be_traced, close_strays, prepare, run};

#[cfg(any(target_os = "macos", test))]
mod macos;
#[cfg(target_os = "macos")]
pub(crate) use macos::{ask_to_be_traced, close_strays, prepare, run};
