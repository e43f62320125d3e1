//! Entry point of the crate: the sandbox of this process, the tiers it supports, and its launcher pools.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use tool::SandboxTier;

use crate::backend;
use crate::check::{self, Finding};
use crate::cleanup::active_runs::Places;
use crate::cleanup::quarantine::Left;
use crate::cleanup::run_journal::{Noted, Runs, Unfinished};
use crate::cleanup::{self, Company, Underway};
use crate::error::SandboxError;
use crate::launch;
use crate::launch::interactive::{self, Pipes, Served};
use crate::launch::pool::{Launcher, Pool};
use crate::launch::worker::{Task, Worker};
use crate::output::spill::Spills;
use crate::output::{Hear, Outlets};
use crate::prepare::Confined;
use crate::report::Report;
use crate::scan::bounds::Bounds;
use crate::scan::cancellation::while_awaited;

/// Longest time for a run to be gone after its deadline.
const TIME_TO_END: Duration = Duration::from_secs(10);

/// Runs confined programs. Cheap to clone; clones share their launchers.
#[derive(Clone, Debug)]
pub struct Sandbox {
    most: SandboxTier,
    /// Determined on first use: probing starts a few processes, and many holders of a sandbox never use it.
    availability: Arc<OnceLock<Availability>>,
    full: Arc<Pool>,
    reduced: Arc<Pool>,
    spills: Arc<OnceLock<Spills>>,
    runs: Arc<OnceLock<Runs>>,
    places: Arc<Places>,
    left: Left,
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
        SHARED.get_or_init(Sandbox::untried)
    }

    /// Creates a sandbox limited to this tier, for measurements. Commands that require a better tier do not
    /// run in it.
    pub fn at_most(tier: SandboxTier) -> Sandbox {
        Sandbox { most: tier, ..Sandbox::untried() }
    }

    pub(crate) fn untried() -> Sandbox {
        Sandbox {
            most: SandboxTier::Full,
            availability: Arc::default(),
            full: Arc::new(Pool::new(SandboxTier::Full)),
            reduced: Arc::new(Pool::new(SandboxTier::Reduced)),
            spills: Arc::default(),
            runs: Arc::default(),
            places: Arc::default(),
            left: Left::default(),
        }
    }

    /// Sets the folder for outputs that are too long for a response. Takes effect once; without it such
    /// outputs are not kept, and later calls are ignored.
    pub fn keep_outputs_in(&self, folder: &Path) {
        let _ = self.spills.set(Spills::at(folder));
    }

    /// Sets the folder in which unfinished runs are recorded. Takes effect once.
    pub fn note_runs_in(&self, folder: &Path) {
        let _ = self.runs.set(Runs::at(folder));
    }

    /// Returns the store of long outputs, if one is set.
    pub fn spills(&self) -> Option<&Spills> {
        self.spills.get()
    }

    /// Creates a sandbox with its own launchers, for another async runtime: a launcher's sockets belong to
    /// the runtime that took it.
    pub fn with_own_launchers(&self) -> Sandbox {
        Sandbox { availability: Arc::clone(&self.availability), ..Sandbox::untried() }
    }

    /// Returns what this machine supports. Probed once by running a program, because it does not change while
    /// this process runs. The first call blocks.
    pub fn availability(&self) -> &Availability {
        self.availability.get_or_init(check::availability)
    }

    /// Returns the cgroup controllers that limit each run as a whole, or the reason why only the watcher
    /// does.
    pub fn groups(&self) -> Result<Vec<&'static str>, &'static str> {
        backend::groups()
    }

    /// Returns true if the daemon with this process id uses such control groups.
    pub fn has_groups(&self, daemon: i32) -> bool {
        backend::has_groups(daemon)
    }

    /// Tests the sandbox from inside with a probe. `folder` must be an existing private folder; files made
    /// there are removed.
    pub fn check(&self, folder: &Path) -> std::io::Result<Vec<Finding>> {
        match self.availability().tier {
            SandboxTier::None => Ok(Vec::new()),
            tier => check::findings(tier, folder),
        }
    }

    /// Runs a command in the best available tier, and fails if that is worse than the command requires.
    pub async fn run(&self, confined: Confined) -> Result<Report, SandboxError> {
        self.run_into(confined, Outlets::default()).await
    }

    /// Like `run`, and keeps output that does not fit the report in the spill store and passes chunks to
    /// `listener` while they arrive.
    pub async fn run_telling(&self, confined: Confined, hear: Option<Hear>) -> Result<Report, SandboxError> {
        self.run_into(confined, Outlets::new(self.spills().cloned(), hear)).await
    }

    async fn run_into(&self, mut confined: Confined, mut outlets: Outlets) -> Result<Report, SandboxError> {
        let (tier, pool) = self.best(confined.least)?;
        for is_last in [false, true] {
            confined.refuse_what_needs_more_than(tier)?;
            let mut underway = self.begin(confined, pool).await?;
            let (begun, launcher) = underway.parts().ok_or(SandboxError::Lost)?;
            let (executable, walls_sha256) = (begun.executable.clone(), begun.walls_digest(tier));
            let finished = tokio::select! {
                finished = launch::run(begun, tier, launcher, &mut outlets) => finished,
                // Dropping the handle ends the run and cleans up after it.
                () = self.places.closing() => return Err(SandboxError::Lost),
            };
            pool.refill();
            match finished {
                Err(error) if error.is_moved() && !is_last => {
                    confined = looked_through_again(underway).await?;
                }
                Err(error) => return Err(error),
                Ok(finished) => {
                    return Ok(Report {
                        end: finished.end,
                        stdout: finished.stdout,
                        stderr: finished.stderr,
                        tier,
                        spent: finished.spent,
                        confining: finished.confining,
                        executable,
                        walls_sha256,
                        quarantined: underway.over().await?,
                    });
                }
            }
        }
        Err(SandboxError::Lost)
    }

    /// Starts a command whose standard streams the caller uses while it runs.
    pub async fn serve(&self, mut confined: Confined) -> Result<(Served, Pipes), SandboxError> {
        let (tier, pool) = self.best(confined.least)?;
        for is_last in [false, true] {
            confined.refuse_what_needs_more_than(tier)?;
            let mut underway = self.begin(confined, pool).await?;
            let (begun, launcher) = underway.parts().ok_or(SandboxError::Lost)?;
            let started = interactive::start(begun, tier, launcher).await;
            pool.refill();
            match started {
                Ok(pipes) => return Ok((Served::new(underway, tier), pipes)),
                Err(error) if error.is_moved() && !is_last => {
                    confined = looked_through_again(underway).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(SandboxError::Lost)
    }

    /// Completes once `close` was called.
    pub async fn closing(&self) {
        self.places.closing().await;
    }

    /// Registers a run and takes a launcher for it.
    async fn begin(&self, confined: Confined, pool: &Arc<Pool>) -> Result<Underway, SandboxError> {
        self.left.refuse_in(&confined.before.writable)?;
        // Read-only runs do not count as concurrent writers.
        let place = (!confined.before.writable.is_empty()).then(|| self.places.take());
        let launcher = pool.take().await?;
        let noted = self.note(&confined, &launcher).map_err(SandboxError::NotNoted)?;
        Ok(Underway::new(confined, launcher, noted, place, self.left.clone()))
    }

    /// Ends every run and waits until the cleanup of each is finished, cancelled runs included.
    pub async fn close(&self) {
        self.places.close().await;
    }

    /// Records a run that could leave files behind.
    fn note(&self, confined: &Confined, launcher: &Launcher) -> std::io::Result<Option<Noted>> {
        let (Some(runs), false) = (self.runs.get(), confined.before.writable.is_empty()) else {
            return Ok(None);
        };
        let longest = confined.time_left() + confined.spec.limits.grace + TIME_TO_END;
        let latest = SystemTime::now() + longest;
        let launcher = launcher.process.id().unwrap_or(0);
        runs.note(&Unfinished { before: confined.before.clone(), launcher, latest }).map(Some)
    }

    /// Cleans up after runs of an earlier daemon that was killed, and logs the result. Must be called before
    /// any other run; blocks on the disk.
    pub fn finish_runs(&self) -> std::io::Result<()> {
        for (noted, run) in self.runs.get().map_or(Ok(Vec::new()), Runs::unfinished)? {
            if let Some(run) = run {
                backend::await_launcher(run.launcher, TIME_TO_END);
                // It is unknown which runs were concurrent.
                let aside =
                    run.before.set_new_names_aside(Company::Others, Some(run.latest), &Bounds::after());
                match aside.and_then(|aside| cleanup::all_set_aside(aside, &self.left)) {
                    Ok(_) => {}
                    Err(error @ SandboxError::LeftInPlace(_)) => {
                        // The record stays, so that the next start tries again.
                        tracing::warn!(%error, "cleanup of a run from before a crash");
                        continue;
                    }
                    Err(error) => tracing::warn!(%error, "cleanup of a run from before a crash"),
                }
            }
            noted.over();
        }
        Ok(())
    }

    /// Starts this program again as a worker without any grants: no files but the system's, and no network.
    pub async fn start(&self, task: &Task) -> Result<Worker, SandboxError> {
        let confined = task.confined()?;
        let (tier, pool) = self.best(confined.least)?;
        let launcher = pool.take().await?;
        let worker = Worker::start(&confined, tier, launcher).await;
        pool.refill();
        worker
    }

    /// Returns the best tier and its pool, or an error if that tier is worse than `least`.
    fn best(&self, least: SandboxTier) -> Result<(SandboxTier, &Arc<Pool>), SandboxError> {
        let tier = match (self.availability().tier, self.most) {
            (SandboxTier::Full, most) => most,
            (less, _) => less,
        };
        match (tier, least) {
            (SandboxTier::Full, _) => Ok((SandboxTier::Full, &self.full)),
            (SandboxTier::Reduced, SandboxTier::Reduced) => Ok((SandboxTier::Reduced, &self.reduced)),
            (SandboxTier::Reduced | SandboxTier::None, _) => Err(SandboxError::NotBuilt {
                step: "tier".to_owned(),
                what: least.as_str().to_owned(),
                cause: std::io::Error::other(self.availability().missing.join("; ")),
            }),
        }
    }
}

/// Rescans the granted folders of a command after a path had moved before the sandbox was built.
async fn looked_through_again(underway: Underway) -> Result<Confined, SandboxError> {
    let confined = underway.not_begun().await.ok_or(SandboxError::Lost)?;
    let looked = while_awaited(move |awaited| confined.looked_through_again(awaited)).await;
    looked.unwrap_or(Err(SandboxError::Lost))
}
