//! What the machine can be asked: processor, memory, and the disk the records are on.
//!
//! The sampler that everybody asks measures it; only the disk is asked here, because only here it is known which. Both
//! on a thread that may block. One that is stuck is waited for, not joined by another; meanwhile nothing is known.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use governance::files::Metric;
use machine::Sampler;
use tokio::task::JoinHandle;

/// A measurement that is older says nothing about now.
const FRESH: Duration = Duration::from_secs(12);
/// What the sampler is given for its first look; later ones are there already.
const PATIENCE: Duration = Duration::from_secs(2);

/// What was measured at one moment. What could not be is absent, and holds no condition.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    cpu_load: Option<f64>,
    memory_used: Option<f64>,
    memory_pressure: Option<f64>,
    disk_used: Option<f64>,
}

impl Sample {
    /// One measurement.
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
            | Metric::ResourceExhaustion => None,
        }
    }
}

/// Looks at the machine without holding anybody up.
pub(crate) struct Eye {
    /// At home between two looks.
    instruments: Option<Instruments>,
    looking: Option<JoinHandle<(Instruments, Sample)>>,
    latest: Option<(Instant, Sample)>,
    folder: PathBuf,
}

impl Eye {
    /// An eye on this machine, and on the disk that holds this folder.
    pub(crate) fn on(folder: &Path) -> Self {
        let folder = folder.to_owned();
        Eye { instruments: Some(Instruments { folder: folder.clone() }), looking: None, latest: None, folder }
    }

    /// Begins to measure. While an earlier look has not ended there is no other.
    pub(crate) fn look(&mut self, wanted: &[Metric]) {
        if wanted.is_empty() {
            return;
        }
        let Some(instruments) = self.instruments.take() else { return };
        let wanted = wanted.to_vec();
        self.looking = Some(tokio::task::spawn_blocking(move || {
            let sample = instruments.measure(&wanted);
            (instruments, sample)
        }));
    }

    /// Returns when a look has ended; never while there is none.
    pub(crate) async fn seen(&mut self) {
        let Some(looking) = &mut self.looking else { return std::future::pending().await };
        let seen = looking.await;
        self.looking = None;
        match seen {
            Ok((instruments, sample)) => {
                self.instruments = Some(instruments);
                self.latest = Some((Instant::now(), sample));
            }
            // It panicked, and the instruments with it.
            Err(_) => self.instruments = Some(Instruments { folder: self.folder.clone() }),
        }
    }

    /// What was seen last, if that was not long ago.
    pub(crate) fn latest(&self) -> Option<&Sample> {
        self.latest.as_ref().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, sample)| sample)
    }
}

/// What is asked, and of which disk.
struct Instruments {
    folder: PathBuf,
}

impl Instruments {
    fn measure(&self, wanted: &[Metric]) -> Sample {
        let is_disk = |metric: &Metric| *metric == Metric::DiskUsedPercent;
        let machine = match wanted.iter().all(is_disk) {
            true => None,
            false => Sampler::of_this_process().snapshot(PATIENCE),
        };
        let machine = machine.as_deref();
        let mut sample = Sample::default();
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
                Metric::DiskUsedPercent => sample.disk_used = machine::used_percent(&self.folder),
                Metric::ToolErrorRate
                | Metric::PolicyViolations
                | Metric::HighRiskCalls
                | Metric::RefusedHighRiskCalls
                | Metric::RepeatedValidationFailures
                | Metric::ResourceExhaustion => {}
            }
        }
        sample
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_wanted_is_measured_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let mut eye = Eye::on(folder.path());
        assert_eq!(eye.latest(), None);
        eye.look(&[]);
        assert!(eye.looking.is_none(), "nothing is wanted, so nobody looks");
        eye.look(&[Metric::DiskUsedPercent]);
        eye.seen().await;
        let first = eye.latest().unwrap().clone();
        assert!(first.disk_used.is_some_and(|used| (0.0..=100.0).contains(&used)), "{first:?}");
        assert_eq!((first.cpu_load, first.memory_used), (None, None), "nobody wants them");
        eye.look(&[Metric::CpuLoadPercent, Metric::MemoryUsedPercent, Metric::MemoryPressure]);
        eye.look(&[Metric::DiskUsedPercent]);
        eye.seen().await;
        let second = eye.latest().unwrap();
        assert!(second.cpu_load.is_some_and(|load| (0.0..=100.0).contains(&load)), "{second:?}");
        assert!(second.memory_used.is_some_and(|used| used > 0.0 && used < 100.0), "{second:?}");
        assert!(second.memory_pressure.is_some_and(|level| [1.0, 2.0, 4.0].contains(&level)), "{second:?}");
        assert_eq!(second.disk_used, None);
    }
}
