//! System metrics of this machine, measured by one shared sampler for the mode rules and the metrics tool.
//!
//! A value that cannot be read without root is absent, with the reason; no value is estimated. This crate
//! makes no decisions.

mod disks;
mod gpu;
mod network;
mod platform;
mod pressure;
mod probe;
mod sampler;
mod snapshot;

pub use disks::used_percent;
pub use sampler::SystemSampler;
pub use snapshot::{
    Cpu, DiskUsage, Gpu, LoadAverage, Memory, NetworkInterface, Pressure, Pressures, Swap, SystemSnapshot,
    Temperature,
};
