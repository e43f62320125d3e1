//! What the machine can be asked: processor, memory, and the disk the records are on.
//!
//! Only what a rule needs is measured, on a thread that may block. One that is stuck is waited for, not joined by
//! another; meanwhile nothing is known.

mod pressure;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use governance::files::Metric;
use sysinfo::System;
use tokio::task::JoinHandle;

/// A measurement that is older says nothing about now.
const FRESH: Duration = Duration::from_secs(12);

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
        Eye { instruments: Some(Instruments::new(folder.clone())), looking: None, latest: None, folder }
    }

    /// Begins to measure. While an earlier look has not ended there is no other.
    pub(crate) fn look(&mut self, wanted: &[Metric]) {
        if wanted.is_empty() {
            return;
        }
        let Some(mut instruments) = self.instruments.take() else { return };
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
            Err(_) => self.instruments = Some(Instruments::new(self.folder.clone())),
        }
    }

    /// What was seen last, if that was not long ago.
    pub(crate) fn latest(&self) -> Option<&Sample> {
        self.latest.as_ref().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, sample)| sample)
    }
}

/// Kept between two looks: the load of a processor is a difference.
struct Instruments {
    system: Option<System>,
    /// The first load is of no time at all.
    has_looked: bool,
    folder: PathBuf,
}

impl Instruments {
    fn new(folder: PathBuf) -> Self {
        Instruments { system: System::new().ok(), has_looked: false, folder }
    }

    fn measure(&mut self, wanted: &[Metric]) -> Sample {
        let mut sample = Sample::default();
        for metric in wanted {
            match metric {
                Metric::CpuLoadPercent => sample.cpu_load = self.cpu_load(),
                Metric::MemoryUsedPercent => sample.memory_used = self.memory_used(),
                Metric::MemoryPressure => sample.memory_pressure = self.memory_pressure(),
                Metric::DiskUsedPercent => sample.disk_used = disk_used(&self.folder),
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

    fn cpu_load(&mut self) -> Option<f64> {
        let system = self.system.as_mut()?;
        system.refresh_cpu_usage();
        let first = !std::mem::replace(&mut self.has_looked, true);
        (!first).then(|| f64::from(system.global_cpu_usage()).clamp(0.0, 100.0))
    }

    fn memory_used(&mut self) -> Option<f64> {
        let system = self.system.as_mut()?;
        system.refresh_memory();
        percent(system.total_memory().saturating_sub(system.available_memory()), system.total_memory())
    }

    /// As the kernel says; where it does not, by what is left.
    fn memory_pressure(&mut self) -> Option<f64> {
        pressure::level().or_else(|| Some(pressure::by_what_is_left(100.0 - self.memory_used()?)))
    }
}

/// As `df` counts: of what a user can have, what is taken.
fn disk_used(folder: &Path) -> Option<f64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    let used = disk.f_blocks.saturating_sub(disk.f_bfree);
    percent(used, used.saturating_add(disk.f_bavail))
}

#[allow(clippy::cast_precision_loss)] // of bytes and blocks only the ratio matters
fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 / whole as f64 * 100.0).clamp(0.0, 100.0))
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
        eye.look(&[Metric::DiskUsedPercent, Metric::CpuLoadPercent]);
        eye.seen().await;
        let first = eye.latest().unwrap().clone();
        assert!(first.disk_used.is_some_and(|used| (0.0..=100.0).contains(&used)), "{first:?}");
        assert_eq!((first.cpu_load, first.memory_used), (None, None), "a first load is none");
        eye.look(&[Metric::CpuLoadPercent, Metric::MemoryUsedPercent, Metric::MemoryPressure]);
        eye.look(&[Metric::DiskUsedPercent]);
        eye.seen().await;
        let second = eye.latest().unwrap();
        assert!(second.cpu_load.is_some_and(|load| (0.0..=100.0).contains(&load)), "{second:?}");
        assert!(second.memory_used.is_some_and(|used| used > 0.0 && used < 100.0), "{second:?}");
        assert!(second.memory_pressure.is_some_and(|level| [1.0, 2.0, 4.0].contains(&level)), "{second:?}");
        assert_eq!(second.disk_used, None);
    }

    #[test]
    fn a_disk_that_is_not_there_is_not_known() {
        assert_eq!(disk_used(Path::new("/nowhere/at/all")), None);
        assert_eq!((percent(1, 0), percent(1, 2), percent(3, 2)), (None, Some(50.0), Some(100.0)));
    }
}
