//! Entry point of the crate: the sandbox of this process, the tiers it supports, and its launcher pools.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use tool::result::SandboxTier;

use crate::backend;
use crate::check::{self, SandboxFinding};
use crate::cleanup::active_runs::ActiveRuns;
use crate::cleanup::quarantine::Leftovers;
use crate::cleanup::run_journal::{JournalEntry, RunJournal, UnfinishedRun};
use crate::cleanup::{self, ConcurrentRuns, RunHandle};
use crate::error::SandboxError;
use crate::launch;
use crate::launch::interactive::{self, InteractiveProgram, StdioPipes};
use crate::launch::pool::{Launcher, LauncherPool};
use crate::launch::worker::{SandboxWorker, WorkerTask};
use crate::output::spill::SpillStore;
use crate::output::{OutputListener, OutputSinks};
use crate::prepare::ConfinedCommand;
use crate::report::RunReport;
use crate::scan::bounds::ScanBounds;
use crate::scan::cancellation::run_cancellable;

/// Longest time for a run to be gone after its deadline.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs confined programs. Cheap to clone; clones share their launchers.
#[derive(Clone, Debug)]
pub struct Sandbox {
    max_tier: SandboxTier,
    /// Determined on first use: probing starts a few processes, and many holders of a sandbox never use it.
    availability: Arc<OnceLock<Availability>>,
    full_pool: Arc<LauncherPool>,
    reduced_pool: Arc<LauncherPool>,
    spills: Arc<OnceLock<SpillStore>>,
    journal: Arc<OnceLock<RunJournal>>,
    active_runs: Arc<ActiveRuns>,
    leftovers: Leftovers,
}

/// Sandbox tier that this machine supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// Best tier that works.
    pub tier: SandboxTier,
    /// Reasons why no better tier works.
    pub missing: Vec<String>,
}

impl Sandbox {
    /// Returns the shared sandbox of this process.
    pub fn of_this_process() -> &'static Sandbox {
        static SHARED: OnceLock<Sandbox> = OnceLock::new();
        SHARED.get_or_init(Sandbox::unprobed)
    }

    /// Creates a sandbox limited to this tier, for measurements. Commands that require a better tier do not
    /// run in it.
    pub fn at_most(tier: SandboxTier) -> Sandbox {
        Sandbox { max_tier: tier, ..Sandbox::unprobed() }
    }

    pub(crate) fn unprobed() -> Sandbox {
        Sandbox {
            max_tier: SandboxTier::Full,
            availability: Arc::default(),
            full_pool: Arc::new(LauncherPool::new(SandboxTier::Full)),
            reduced_pool: Arc::new(LauncherPool::new(SandboxTier::Reduced)),
            spills: Arc::default(),
            journal: Arc::default(),
            active_runs: Arc::default(),
            leftovers: Leftovers::default(),
        }
    }

    /// Sets the folder for outputs that are too long for a response. Takes effect once; without it such
    /// outputs are not kept, and later calls are ignored.
    pub fn set_output_dir(&self, folder: &Path) {
        let _ = self.spills.set(SpillStore::at(folder));
    }

    /// Sets the folder in which unfinished runs are recorded. Takes effect once.
    pub fn set_journal_dir(&self, folder: &Path) {
        let _ = self.journal.set(RunJournal::at(folder));
    }

    /// Returns the store of long outputs, if one is set.
    pub fn spills(&self) -> Option<&SpillStore> {
        self.spills.get()
    }

    /// Creates a sandbox with its own launchers, for another async runtime: a launcher's sockets belong to
    /// the runtime that took it.
    pub fn with_own_launchers(&self) -> Sandbox {
        Sandbox { availability: Arc::clone(&self.availability), ..Sandbox::unprobed() }
    }

    /// Returns what this machine supports. Probed once by running a program, because it does not change while
    /// this process runs. The first call blocks.
    pub fn availability(&self) -> &Availability {
        self.availability.get_or_init(check::availability)
    }

    /// Returns the cgroup controllers that limit each run as a whole, or the reason why only the watcher
    /// does.
    pub fn cgroup_controllers(&self) -> Result<Vec<&'static str>, &'static str> {
        backend::cgroup_controllers()
    }

    /// Returns true if the daemon with this process id uses such control groups.
    pub fn has_cgroups(&self, daemon: i32) -> bool {
        backend::has_cgroups(daemon)
    }

    /// Tests the sandbox from inside with a probe. `folder` must be an existing private folder; files made
    /// there are removed.
    pub fn check(&self, folder: &Path) -> std::io::Result<Vec<SandboxFinding>> {
        match self.availability().tier {
            SandboxTier::None => Ok(Vec::new()),
            tier => check::findings(tier, folder),
        }
    }

    /// Runs a command in the best available tier, and fails if that is worse than the command requires.
    pub async fn run(&self, confined: ConfinedCommand) -> Result<RunReport, SandboxError> {
        self.run_with_sinks(confined, OutputSinks::default()).await
    }

    /// Like `run`, and keeps output that does not fit the report in the spill store and passes chunks to
    /// `listener` while they arrive.
    pub async fn run_with_progress(
        &self,
        confined: ConfinedCommand,
        listener: Option<OutputListener>,
    ) -> Result<RunReport, SandboxError> {
        self.run_with_sinks(confined, OutputSinks::new(self.spills().cloned(), listener)).await
    }

    async fn run_with_sinks(
        &self,
        mut confined: ConfinedCommand,
        mut sinks: OutputSinks,
    ) -> Result<RunReport, SandboxError> {
        let (tier, pool) = self.select_pool(confined.required_tier)?;
        for is_last in [false, true] {
            confined.check_tier(tier)?;
            let mut underway = self.begin_run(confined, pool).await?;
            let (begun, launcher) = underway.parts().ok_or(SandboxError::LauncherLost)?;
            let (executable, sandbox_sha256) = (begun.executable.clone(), begun.sandbox_digest(tier));
            let finished = tokio::select! {
                finished = launch::run(begun, tier, launcher, &mut sinks) => finished,
                // Dropping the handle ends the run and cleans up after it.
                () = self.active_runs.closing() => return Err(SandboxError::LauncherLost),
            };
            pool.refill();
            match finished {
                Err(error) if error.is_path_moved() && !is_last => {
                    confined = rescan(underway).await?;
                }
                Err(error) => return Err(error),
                Ok(finished) => {
                    return Ok(RunReport {
                        end: finished.end,
                        stdout: finished.stdout,
                        stderr: finished.stderr,
                        tier,
                        usage: finished.usage,
                        setup_time: finished.setup_time,
                        executable,
                        sandbox_sha256,
                        quarantined: underway.finish().await?,
                    });
                }
            }
        }
        Err(SandboxError::LauncherLost)
    }

    /// Starts a command whose standard streams the caller uses while it runs.
    pub async fn start_interactive(
        &self,
        mut confined: ConfinedCommand,
    ) -> Result<(InteractiveProgram, StdioPipes), SandboxError> {
        let (tier, pool) = self.select_pool(confined.required_tier)?;
        for is_last in [false, true] {
            confined.check_tier(tier)?;
            let mut underway = self.begin_run(confined, pool).await?;
            let (begun, launcher) = underway.parts().ok_or(SandboxError::LauncherLost)?;
            let started = interactive::start(begun, tier, launcher).await;
            pool.refill();
            match started {
                Ok(pipes) => return Ok((InteractiveProgram::new(underway, tier), pipes)),
                Err(error) if error.is_path_moved() && !is_last => {
                    confined = rescan(underway).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(SandboxError::LauncherLost)
    }

    /// Completes once `close` was called.
    pub async fn closing(&self) {
        self.active_runs.closing().await;
    }

    /// Registers a run and takes a launcher for it.
    async fn begin_run(
        &self,
        confined: ConfinedCommand,
        pool: &Arc<LauncherPool>,
    ) -> Result<RunHandle, SandboxError> {
        self.leftovers.retry_or_refuse(&confined.baseline.writable)?;
        // Read-only runs do not count as concurrent writers.
        let active_run = (!confined.baseline.writable.is_empty()).then(|| self.active_runs.register());
        let launcher = pool.take().await?;
        let journal_entry = self.record_run(&confined, &launcher).map_err(SandboxError::JournalFailed)?;
        Ok(RunHandle::new(confined, launcher, journal_entry, active_run, self.leftovers.clone()))
    }

    /// Ends every run and waits until the cleanup of each is finished, cancelled runs included.
    pub async fn close(&self) {
        self.active_runs.close().await;
    }

    /// Records a run that could leave files behind.
    fn record_run(
        &self,
        confined: &ConfinedCommand,
        launcher: &Launcher,
    ) -> std::io::Result<Option<JournalEntry>> {
        let (Some(runs), false) = (self.journal.get(), confined.baseline.writable.is_empty()) else {
            return Ok(None);
        };
        let longest = confined.time_left() + confined.spec.limits.grace + END_TIMEOUT;
        let latest = SystemTime::now() + longest;
        let launcher = launcher.process.id().unwrap_or(0);
        runs.record(&UnfinishedRun { baseline: confined.baseline.clone(), launcher, ends_before: latest })
            .map(Some)
    }

    /// Cleans up after runs of an earlier daemon that was killed, and logs the result. Must be called before
    /// any other run; blocks on the disk.
    pub fn clean_up_unfinished_runs(&self) -> std::io::Result<()> {
        for (journal_entry, run) in self.journal.get().map_or(Ok(Vec::new()), RunJournal::unfinished)? {
            if let Some(run) = run {
                backend::wait_for_launcher(run.launcher, END_TIMEOUT);
                // It is unknown which runs were concurrent.
                let quarantined = run.baseline.quarantine_new_names(
                    ConcurrentRuns::Possible,
                    Some(run.ends_before),
                    &ScanBounds::after_run(),
                );
                match quarantined
                    .and_then(|quarantined| cleanup::require_all_quarantined(quarantined, &self.leftovers))
                {
                    Ok(_) => {}
                    Err(error @ SandboxError::QuarantineFailed(_)) => {
                        // The record stays, so that the next start tries again.
                        tracing::warn!(%error, "cleanup of a run from before a crash");
                        continue;
                    }
                    Err(error) => tracing::warn!(%error, "cleanup of a run from before a crash"),
                }
            }
            journal_entry.remove();
        }
        Ok(())
    }

    /// Starts this program again as a worker without any grants: no files but the system's, and no network.
    pub async fn start_worker(&self, task: &WorkerTask) -> Result<SandboxWorker, SandboxError> {
        let confined = task.confined()?;
        let (tier, pool) = self.select_pool(confined.required_tier)?;
        let launcher = pool.take().await?;
        let worker = SandboxWorker::start(&confined, tier, launcher).await;
        pool.refill();
        worker
    }

    /// Returns the best tier and its pool, or an error if that tier is worse than `least`.
    fn select_pool(&self, least: SandboxTier) -> Result<(SandboxTier, &Arc<LauncherPool>), SandboxError> {
        let tier = match (self.availability().tier, self.max_tier) {
            (SandboxTier::Full, most) => most,
            (less, _) => less,
        };
        match (tier, least) {
            (SandboxTier::Full, _) => Ok((SandboxTier::Full, &self.full_pool)),
            (SandboxTier::Reduced, SandboxTier::Reduced) => Ok((SandboxTier::Reduced, &self.reduced_pool)),
            (SandboxTier::Reduced | SandboxTier::None, _) => Err(SandboxError::SetupFailed {
                step: "tier".to_owned(),
                what: least.as_str().to_owned(),
                cause: std::io::Error::other(self.availability().missing.join("; ")),
            }),
        }
    }
}

/// Rescans the granted folders of a command after a path had moved before the sandbox was built.
async fn rescan(underway: RunHandle) -> Result<ConfinedCommand, SandboxError> {
    let confined = underway.abandon_unstarted().await.ok_or(SandboxError::LauncherLost)?;
    let rescanned = run_cancellable(move |awaited| confined.rescan(awaited)).await;
    rescanned.unwrap_or(Err(SandboxError::LauncherLost))
}
