//! What this machine says of itself, measured by one sampler for everybody who asks: the rules about the mode, and the
//! tool that shows it.
//!
//! What cannot be known without being root is absent, with the reason; nothing is ever guessed. Nothing is decided here.

mod disks;
mod gpu;
mod instruments;
mod network;
mod platform;
mod pressure;
mod sampler;
mod snapshot;

pub use disks::used_percent;
pub use sampler::Sampler;
pub use snapshot::{
    Cpu, Disk, Gpu, Interface, Load, Memory, Pressure, Pressures, Snapshot, Swap, Temperature,
};
