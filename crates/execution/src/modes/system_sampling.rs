//! Samples processor, memory and the disk of the ledger for the mode rules.
//!
//! The sampler of the `system_metrics` crate, shared by the process, measures processor and memory. The disk
//! is measured here, because only this module knows the folder. Both run on the blocking pool. If a sample is
//! stuck, no second one is started, and its values are unknown meanwhile.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use governance::files::Metric;
use system_metrics::SystemSampler;
use tokio::task::JoinHandle;

/// Age above which a sample is ignored.
const MAX_SAMPLE_AGE: Duration = Duration::from_secs(12);
/// Timeout for the first snapshot of the sampler; later ones are available at once.
const FIRST_SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(2);

/// Values measured at one time. A value that could not be measured is absent, and its condition is not met.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SystemSample {
    cpu_load: Option<f64>,
    memory_used: Option<f64>,
    memory_pressure: Option<f64>,
    disk_used: Option<f64>,
}

impl SystemSample {
    /// Returns one value.
    pub(crate) fn read(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::CpuLoadPercent => self.cpu_load,
            Metric::MemoryUsedPercent => self.memory_used,
            Metric::MemoryPressure => self.memory_pressure,
            Metric::DiskUsedPercent => self.disk_used,
            Metric::ToolErrorRate
            | Metric::PolicyViolations
            | Metric::HighRiskCalls
            | Metric::RefusedHighRiskCalls
            | Metric::RepeatedValidationFailures
            | Metric::ResourceExhaustion
            | Metric::LedgerPressure => None,
        }
    }
}

/// Samples the machine in the background.
pub(crate) struct BackgroundSampler {
    /// Present while no sample is running.
    probe: Option<SystemProbe>,
    running: Option<JoinHandle<(SystemProbe, SystemSample)>>,
    latest: Option<(Instant, SystemSample)>,
    folder: PathBuf,
}

impl BackgroundSampler {
    /// Creates a sampler for this machine and for the disk of this folder.
    pub(crate) fn new(folder: &Path) -> Self {
        let folder = folder.to_owned();
        BackgroundSampler {
            probe: Some(SystemProbe { folder: folder.clone() }),
            running: None,
            latest: None,
            folder,
        }
    }

    /// Starts a sample, unless one is still running.
    pub(crate) fn start_sample(&mut self, wanted: &[Metric]) {
        if wanted.is_empty() {
            return;
        }
        let Some(instruments) = self.probe.take() else { return };
        let wanted = wanted.to_vec();
        self.running = Some(tokio::task::spawn_blocking(move || {
            let sample = instruments.measure(&wanted);
            (instruments, sample)
        }));
    }

    /// Returns when the running sample ends; never if there is none.
    pub(crate) async fn sample_finished(&mut self) {
        let Some(looking) = &mut self.running else { return std::future::pending().await };
        let seen = looking.await;
        self.running = None;
        match seen {
            Ok((instruments, sample)) => {
                self.probe = Some(instruments);
                self.latest = Some((Instant::now(), sample));
            }
            // The task panicked and the probe was lost with it.
            Err(_) => self.probe = Some(SystemProbe { folder: self.folder.clone() }),
        }
    }

    /// Returns the latest sample if it is fresh enough.
    pub(crate) fn latest(&self) -> Option<&SystemSample> {
        self.latest.as_ref().filter(|(at, _)| at.elapsed() < MAX_SAMPLE_AGE).map(|(_, sample)| sample)
    }
}

/// Takes the measurements, with the disk of one folder.
struct SystemProbe {
    folder: PathBuf,
}

impl SystemProbe {
    fn measure(&self, wanted: &[Metric]) -> SystemSample {
        let is_disk = |metric: &Metric| *metric == Metric::DiskUsedPercent;
        let machine = match wanted.iter().all(is_disk) {
            true => None,
            false => SystemSampler::global().snapshot(FIRST_SNAPSHOT_TIMEOUT),
        };
        let machine = machine.as_deref();
        let mut sample = SystemSample::default();
        for metric in wanted {
            match metric {
                Metric::CpuLoadPercent => sample.cpu_load = machine.and_then(|seen| seen.cpu.total_percent),
                Metric::MemoryUsedPercent => {
                    sample.memory_used =
                        machine.and_then(|seen| seen.memory).map(|memory| memory.used_percent);
                }
                Metric::MemoryPressure => {
                    sample.memory_pressure = machine.and_then(|seen| seen.pressure.memory_level);
                }
                Metric::DiskUsedPercent => sample.disk_used = system_metrics::used_percent(&self.folder),
                Metric::ToolErrorRate
                | Metric::PolicyViolations
                | Metric::HighRiskCalls
                | Metric::RefusedHighRiskCalls
                | Metric::RepeatedValidationFailures
                | Metric::ResourceExhaustion
                | Metric::LedgerPressure => {}
            }
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_requested_metrics_are_measured() {
        let folder = tempfile::tempdir().unwrap();
        let mut sampler = BackgroundSampler::new(folder.path());
        assert_eq!(sampler.latest(), None);
        sampler.start_sample(&[]);
        assert!(sampler.running.is_none(), "nothing is requested, so nothing is sampled");
        sampler.start_sample(&[Metric::DiskUsedPercent]);
        sampler.sample_finished().await;
        let first = sampler.latest().unwrap().clone();
        assert!(first.disk_used.is_some_and(|used| (0.0..=100.0).contains(&used)), "{first:?}");
        assert_eq!((first.cpu_load, first.memory_used), (None, None), "they are not requested");
        sampler.start_sample(&[Metric::CpuLoadPercent, Metric::MemoryUsedPercent, Metric::MemoryPressure]);
        sampler.start_sample(&[Metric::DiskUsedPercent]);
        sampler.sample_finished().await;
        let second = sampler.latest().unwrap();
        assert!(second.cpu_load.is_some_and(|load| (0.0..=100.0).contains(&load)), "{second:?}");
        assert!(second.memory_used.is_some_and(|used| used > 0.0 && used < 100.0), "{second:?}");
        assert!(second.memory_pressure.is_some_and(|level| [1.0, 2.0, 4.0].contains(&level)), "{second:?}");
        assert_eq!(second.disk_used, None);
    }
}
