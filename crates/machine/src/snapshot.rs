//! One look at the machine, as it is shown.

use std::collections::BTreeMap;
use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;

/// What was measured at one moment. What could not be is null, and `unavailable` says why.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Snapshot {
    /// When it was measured (RFC 3339).
    pub taken_at: String,
    /// Over how long rates and loads were taken, in milliseconds.
    pub interval_ms: u64,
    /// The processors.
    pub cpu: Cpu,
    /// How many tasks want to run, on average.
    pub load: Option<Load>,
    /// The memory.
    pub memory: Option<Memory>,
    /// Memory on disk.
    pub swap: Option<Swap>,
    /// How much time is lost by waiting, as the kernel counts it.
    pub pressure: Pressures,
    /// Local file systems. At most half a minute old, like temperatures and GPUs.
    pub disks: Option<Vec<Disk>>,
    /// Network interfaces.
    pub network: Option<Vec<Interface>>,
    /// Sensors.
    pub temperatures: Option<Vec<Temperature>>,
    /// Graphics processors.
    pub gpu: Option<Vec<Gpu>>,
    /// Why a value is null, by its name.
    pub unavailable: BTreeMap<&'static str, String>,
    /// For whoever must know how old it is.
    #[serde(skip)]
    #[schemars(skip)]
    pub taken: Instant,
}

/// The processors.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Cpu {
    /// How many there are.
    pub cores: usize,
    /// How busy all of them were, 0 to 100; null until there were two looks.
    pub total_percent: Option<f64>,
    /// How busy each of them was.
    pub per_core_percent: Vec<f64>,
}

/// How many tasks want to run.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Load {
    /// Over a minute.
    pub one: f64,
    /// Over five.
    pub five: f64,
    /// Over fifteen.
    pub fifteen: f64,
}

/// The memory.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Memory {
    /// All of it.
    pub total_bytes: u64,
    /// What could be had without anybody being short of it.
    pub available_bytes: u64,
    /// The rest.
    pub used_bytes: u64,
    /// The rest, of all.
    pub used_percent: f64,
}

/// Memory on disk.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Swap {
    /// All of it.
    pub total_bytes: u64,
    /// What is used.
    pub used_bytes: u64,
}

/// How much time is lost by waiting.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Pressures {
    /// Memory on one scale: 1 normal, 2 short of memory, 4 critical.
    pub memory_level: Option<f64>,
    /// Waiting for memory.
    pub memory: Option<Pressure>,
    /// Waiting for a processor.
    pub cpu: Option<Pressure>,
    /// Waiting for a disk.
    pub io: Option<Pressure>,
}

/// The share of time, in percent, in which tasks waited.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Pressure {
    /// Some of them, over ten seconds.
    pub some_10s: f64,
    /// Some of them, over a minute.
    pub some_60s: f64,
    /// All of them, over ten seconds; null where the kernel does not count it.
    pub full_10s: Option<f64>,
    /// All of them, over a minute.
    pub full_60s: Option<f64>,
}

/// A local file system.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Disk {
    /// Where it is mounted.
    pub mount: String,
    /// What is mounted.
    pub device: String,
    /// Its kind.
    pub filesystem: String,
    /// All of it.
    pub total_bytes: u64,
    /// What a user can still have.
    pub available_bytes: u64,
    /// Of what a user can have, what is taken, as `df` counts.
    pub used_percent: f64,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Since it came up.
    pub received_bytes: u64,
    /// Since it came up.
    pub sent_bytes: u64,
    /// Since the look before; null until there was one.
    pub received_per_second: Option<u64>,
    /// Since the look before; null until there was one.
    pub sent_per_second: Option<u64>,
}

/// One sensor.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Temperature {
    /// What it is called.
    pub name: String,
    /// Degrees.
    pub celsius: f64,
}

/// A graphics processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Gpu {
    /// What it is called.
    pub name: String,
    /// How busy it is, 0 to 100.
    pub busy_percent: Option<f64>,
    /// Memory it uses.
    pub memory_used_bytes: Option<u64>,
    /// Memory it has of its own; null where it shares that of the machine.
    pub memory_total_bytes: Option<u64>,
}
