//! State kept between two samples: previous counters, since loads and rates are differences, and slow
//! metrics.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sysinfo::System;

use crate::network::{self, InterfaceCounters};
use crate::snapshot::{Cpu, DiskUsage, Gpu, LoadAverage, Memory, Swap, SystemSnapshot, Temperature};
use crate::{disks, platform, pressure};

/// Minimum time between two readings of metrics that change slowly or need another program.
const SLOW_INTERVAL: Duration = Duration::from_secs(30);

pub(crate) struct MetricsProbe {
    system: Option<System>,
    previous: Option<(Instant, InterfaceCounters)>,
    slow: Option<(Instant, SlowMetrics)>,
}

#[derive(Clone)]
struct SlowMetrics {
    disks: platform::MetricResult<Vec<DiskUsage>>,
    temperatures: platform::MetricResult<Vec<Temperature>>,
    gpu: platform::MetricResult<Vec<Gpu>>,
}

impl MetricsProbe {
    pub(crate) fn new() -> Self {
        MetricsProbe { system: System::new().ok(), previous: None, slow: None }
    }

    /// Takes one sample. CPU loads are known from the second sample on.
    pub(crate) fn sample(&mut self) -> SystemSnapshot {
        let now = Instant::now();
        let apart = self.previous.as_ref().map(|(then, _)| now.duration_since(*then));
        let mut unavailable = BTreeMap::new();
        let cpu = self.cpu(apart.is_some(), &mut unavailable);
        let (memory, swap) = self.memory(&mut unavailable);
        let load = System::load_average().ok();
        if load.is_none() {
            unavailable.insert("load", "this system does not report it".to_owned());
        }
        let counters = or_unavailable(platform::counters(), "network", &mut unavailable);
        let before = self.previous.as_ref().zip(apart).map(|((_, counters), apart)| (counters, apart));
        let network = counters.clone().map(|counters| network::with_rates(counters, before));
        let slow = self.slow_metrics(now);
        let pressure = pressure::read_pressures(memory.map(|memory| 100.0 - memory.used_percent));
        if pressure.cpu.is_none() {
            unavailable.insert("pressure", "this kernel reports no pressure stall information".to_owned());
        }
        self.previous = Some((now, counters.unwrap_or_default()));
        SystemSnapshot {
            taken_at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            interval_ms: apart.and_then(|apart| u64::try_from(apart.as_millis()).ok()).unwrap_or(0),
            cpu,
            load: load.map(|load| LoadAverage { one: load.one, five: load.five, fifteen: load.fifteen }),
            memory,
            swap,
            pressure,
            disks: or_unavailable(slow.disks, "disks", &mut unavailable),
            network,
            temperatures: or_unavailable(slow.temperatures, "temperatures", &mut unavailable),
            gpu: or_unavailable(slow.gpu, "gpu", &mut unavailable),
            unavailable,
            taken: now,
        }
    }

    fn cpu(&mut self, is_known: bool, unavailable: &mut BTreeMap<&'static str, String>) -> Cpu {
        if let Some(system) = self.system.as_mut() {
            system.refresh_cpu_usage();
        }
        // Without `/proc` there is no processor in the list, and every load would be 0.
        let readable = self.system.as_ref().filter(|system| !system.cpus().is_empty());
        let Some(system) = readable else {
            unavailable.insert("cpu", "this system does not report it".to_owned());
            return Cpu::default();
        };
        let percent = |usage: f32| f64::from(usage).clamp(0.0, 100.0);
        let each = system.cpus().iter().map(|core| percent(core.usage()));
        if !is_known {
            unavailable
                .insert("cpu.total_percent", "a load needs two samples, and this is the first".to_owned());
        }
        Cpu {
            cores: system.cpus().len(),
            total_percent: is_known.then(|| percent(system.global_cpu_usage())),
            per_core_percent: if is_known { each.collect() } else { Vec::new() },
        }
    }

    fn memory(&mut self, unavailable: &mut BTreeMap<&'static str, String>) -> (Option<Memory>, Option<Swap>) {
        let mut read = || {
            let system = self.system.as_mut()?;
            system.refresh_memory();
            let (total_bytes, available_bytes) = (system.total_memory(), system.available_memory());
            let used_bytes = total_bytes.saturating_sub(available_bytes);
            let used_percent = disks::percent(used_bytes, total_bytes)?;
            let swap = Swap { total_bytes: system.total_swap(), used_bytes: system.used_swap() };
            Some((Memory { total_bytes, available_bytes, used_bytes, used_percent }, swap))
        };
        match read() {
            Some((memory, swap)) => (Some(memory), Some(swap)),
            None => {
                unavailable.insert("memory", "this system does not report it".to_owned());
                (None, None)
            }
        }
    }

    fn slow_metrics(&mut self, now: Instant) -> SlowMetrics {
        let recent = self.slow.as_ref().filter(|(then, _)| now.duration_since(*then) < SLOW_INTERVAL);
        if let Some((_, slow)) = recent {
            return slow.clone();
        }
        let slow = SlowMetrics {
            disks: platform::mounts().map(disks::local_disks),
            temperatures: platform::temperatures(),
            gpu: platform::gpus(),
        };
        self.slow = Some((now, slow.clone()));
        slow
    }
}

/// Returns the reading, or records the reason why it is not available.
fn or_unavailable<T>(
    reading: platform::MetricResult<T>,
    name: &'static str,
    unavailable: &mut BTreeMap<&'static str, String>,
) -> Option<T> {
    reading.map_err(|reason| unavailable.insert(name, reason)).ok()
}
