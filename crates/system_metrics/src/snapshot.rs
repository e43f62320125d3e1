//! Snapshot of the system metrics, as the tool returns it.

use std::collections::BTreeMap;
use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;

/// System metrics at one time. A value that could not be measured is null; `unavailable` gives the reason.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SystemSnapshot {
    /// Time of the measurement (RFC 3339).
    pub taken_at: String,
    /// Interval over which rates and loads were measured, in milliseconds.
    pub interval_ms: u64,
    /// Processors.
    pub cpu: Cpu,
    /// Average number of tasks that run or are ready to run.
    pub load: Option<LoadAverage>,
    /// Physical memory.
    pub memory: Option<Memory>,
    /// Swap space.
    pub swap: Option<Swap>,
    /// Time lost by waiting for resources, as reported by the kernel.
    pub pressure: Pressures,
    /// Local file systems, read at most every 30 seconds, like temperatures and GPUs.
    pub disks: Option<Vec<DiskUsage>>,
    /// Network interfaces.
    pub network: Option<Vec<NetworkInterface>>,
    /// Temperature sensors.
    pub temperatures: Option<Vec<Temperature>>,
    /// Graphics processors.
    pub gpu: Option<Vec<Gpu>>,
    /// Reason why a value is null, by the name of the value.
    pub unavailable: BTreeMap<&'static str, String>,
    /// Time of the measurement, for computing the age of the snapshot.
    #[serde(skip)]
    #[schemars(skip)]
    pub taken: Instant,
}

/// Processors.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Cpu {
    /// Number of logical processors.
    pub cores: usize,
    /// Load of all processors, 0 to 100; null in the first sample.
    pub total_percent: Option<f64>,
    /// Load of each processor, 0 to 100.
    pub per_core_percent: Vec<f64>,
}

/// Average number of tasks that run or are ready to run.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct LoadAverage {
    /// Over one minute.
    pub one: f64,
    /// Over five minutes.
    pub five: f64,
    /// Over fifteen minutes.
    pub fifteen: f64,
}

/// Physical memory.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Memory {
    /// Total size in bytes.
    pub total_bytes: u64,
    /// Memory available to new processes without swapping, in bytes.
    pub available_bytes: u64,
    /// Memory in use, in bytes.
    pub used_bytes: u64,
    /// Share of memory in use, in percent.
    pub used_percent: f64,
}

/// Swap space.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Swap {
    /// Total size in bytes.
    pub total_bytes: u64,
    /// Space in use, in bytes.
    pub used_bytes: u64,
}

/// Time lost by waiting for resources.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Pressures {
    /// Memory pressure level: 1 normal, 2 short of memory, 4 critical.
    pub memory_level: Option<f64>,
    /// Tasks waiting for memory.
    pub memory: Option<Pressure>,
    /// Tasks waiting for a processor.
    pub cpu: Option<Pressure>,
    /// Tasks waiting for a disk.
    pub io: Option<Pressure>,
}

/// Share of time, in percent, in which tasks waited for a resource.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Pressure {
    /// At least one task waited; over ten seconds.
    pub some_10s: f64,
    /// At least one task waited; over one minute.
    pub some_60s: f64,
    /// All tasks waited; over ten seconds. Null if the kernel does not report it.
    pub full_10s: Option<f64>,
    /// All tasks waited; over one minute. Null if the kernel does not report it.
    pub full_60s: Option<f64>,
}

/// A local file system.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DiskUsage {
    /// Mount point.
    pub mount: String,
    /// Device.
    pub device: String,
    /// File system type.
    pub filesystem: String,
    /// Total size in bytes.
    pub total_bytes: u64,
    /// Space available to users, in bytes.
    pub available_bytes: u64,
    /// Share of the space usable by users that is in use, in percent, as `df` computes it.
    pub used_percent: f64,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NetworkInterface {
    /// Name.
    pub name: String,
    /// Bytes received since the interface came up.
    pub received_bytes: u64,
    /// Bytes sent since the interface came up.
    pub sent_bytes: u64,
    /// Bytes received per second since the previous sample; null in the first sample.
    pub received_per_second: Option<u64>,
    /// Bytes sent per second since the previous sample; null in the first sample.
    pub sent_per_second: Option<u64>,
}

/// Temperature sensor.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Temperature {
    /// Name of the sensor.
    pub name: String,
    /// Temperature in degrees Celsius.
    pub celsius: f64,
}

/// A graphics processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Gpu {
    /// Name of the processor.
    pub name: String,
    /// Load, 0 to 100.
    pub busy_percent: Option<f64>,
    /// Memory in use, in bytes.
    pub memory_used_bytes: Option<u64>,
    /// Size of the dedicated memory in bytes; null if the processor shares the system memory.
    pub memory_total_bytes: Option<u64>,
}
