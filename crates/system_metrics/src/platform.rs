//! Platform-specific sources of the metrics. The parsers of their output are platform-independent, and are
//! tested on every platform.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg_attr(not(target_os = "macos"), allow(dead_code))]
mod macos_queries;

#[cfg(target_os = "linux")]
pub(crate) use linux::{counters, gpus, memory_level, mounts, pressure_stalls, temperatures};
#[cfg(target_os = "macos")]
pub(crate) use macos::{counters, gpus, memory_level, mounts, pressure_stalls, temperatures};

/// A metric, or the reason why it is not available.
pub(crate) type MetricResult<T> = Result<T, String>;
