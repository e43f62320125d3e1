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
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SystemSample(Vec<(Metric, f64)>);

impl SystemSample {
    /// Returns one value.
    pub(crate) fn read(&self, metric: Metric) -> Option<f64> {
        self.0.iter().find(|(measured, _)| *measured == metric).map(|(_, value)| *value)
    }
}

/// Samples the machine in the background.
pub(crate) struct BackgroundSampler {
    running: Option<JoinHandle<SystemSample>>,
    latest: Option<(Instant, SystemSample)>,
    folder: PathBuf,
}

impl BackgroundSampler {
    /// Creates a sampler for this machine and for the disk of this folder.
    pub(crate) fn new(folder: &Path) -> Self {
        BackgroundSampler { running: None, latest: None, folder: folder.to_owned() }
    }

    /// Starts a sample, unless one is still running.
    pub(crate) fn start_sample(&mut self, metrics: &[Metric]) {
        if metrics.is_empty() || self.running.is_some() {
            return;
        }
        let (folder, metrics) = (self.folder.clone(), metrics.to_vec());
        self.running = Some(tokio::task::spawn_blocking(move || measure(&folder, &metrics)));
    }

    /// Returns when the running sample ends; never if there is none.
    pub(crate) async fn sample_finished(&mut self) {
        let Some(running) = &mut self.running else { return std::future::pending().await };
        let sample = running.await;
        self.running = None;
        // After a panic of the task, the previous sample stays until it is too old.
        if let Ok(sample) = sample {
            self.latest = Some((Instant::now(), sample));
        }
    }

    /// Returns the latest sample if it is fresh enough.
    pub(crate) fn latest(&self) -> Option<&SystemSample> {
        self.latest.as_ref().filter(|(at, _)| at.elapsed() < MAX_SAMPLE_AGE).map(|(_, sample)| sample)
    }
}

/// Measures these metrics, with the disk of this folder. Blocking.
fn measure(folder: &Path, metrics: &[Metric]) -> SystemSample {
    let is_disk = |metric: &Metric| *metric == Metric::DiskUsedPercent;
    let machine = match metrics.iter().all(is_disk) {
        true => None,
        false => SystemSampler::global().snapshot(FIRST_SNAPSHOT_TIMEOUT),
    };
    let machine = machine.as_deref();
    let value = |metric| match metric {
        Metric::CpuLoadPercent => machine.and_then(|seen| seen.cpu.total_percent),
        Metric::MemoryUsedPercent => machine.and_then(|seen| seen.memory).map(|memory| memory.used_percent),
        Metric::MemoryPressure => machine.and_then(|seen| seen.pressure.memory_level),
        Metric::DiskUsedPercent => system_metrics::used_percent(folder),
        Metric::ToolErrorRate
        | Metric::PolicyViolations
        | Metric::HighRiskCalls
        | Metric::RefusedHighRiskCalls
        | Metric::RepeatedValidationFailures
        | Metric::ResourceExhaustion
        | Metric::LedgerPressure => None,
    };
    SystemSample(metrics.iter().filter_map(|metric| Some((*metric, value(*metric)?))).collect())
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
        assert!(
            first.read(Metric::DiskUsedPercent).is_some_and(|used| (0.0..=100.0).contains(&used)),
            "{first:?}"
        );
        assert_eq!(
            (first.read(Metric::CpuLoadPercent), first.read(Metric::MemoryUsedPercent)),
            (None, None),
            "they are not requested"
        );
        sampler.start_sample(&[Metric::CpuLoadPercent, Metric::MemoryUsedPercent, Metric::MemoryPressure]);
        sampler.start_sample(&[Metric::DiskUsedPercent]);
        sampler.sample_finished().await;
        let second = sampler.latest().unwrap();
        assert!(
            second.read(Metric::CpuLoadPercent).is_some_and(|load| (0.0..=100.0).contains(&load)),
            "{second:?}"
        );
        assert!(
            second.read(Metric::MemoryUsedPercent).is_some_and(|used| used > 0.0 && used < 100.0),
            "{second:?}"
        );
        assert!(
            second.read(Metric::MemoryPressure).is_some_and(|level| [1.0, 2.0, 4.0].contains(&level)),
            "{second:?}"
        );
        assert_eq!(second.read(Metric::DiskUsedPercent), None);
    }
}
