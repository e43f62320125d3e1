//! Where the systems differ: what each is asked, and how. What they answer is parsed by functions that run, and are
//! tested, everywhere.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

#[cfg(target_os = "linux")]
pub(crate) use linux::{counters, gpus, memory_level, mounts, stalls, temperatures};
#[cfg(target_os = "macos")]
pub(crate) use macos::{counters, gpus, memory_level, mounts, stalls, temperatures};

/// A reading, or why there is none.
pub(crate) type Reading<T> = Result<T, String>;
