//! The sandbox of a program: what it can build on this machine, and the launchers that build it.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use tool::SandboxTier;

use crate::aftermath::{self, Company, Underway};
use crate::awaited::while_awaited;
use crate::backend;
use crate::bounds::Bounds;
use crate::check::{self, Finding};
use crate::confined::Confined;
use crate::error::SandboxError;
use crate::left::Left;
use crate::outlets::{Hear, Outlets};
use crate::places::Places;
use crate::pool::{Launcher, Pool};
use crate::report::Report;
use crate::run;
use crate::runs::{Noted, Runs, Unfinished};
use crate::served::{self, Pipes, Served};
use crate::spill::Spills;
use crate::worker::{Task, Worker};

/// What a run may take to be gone after its time.
const TIME_TO_END: Duration = Duration::from_secs(10);

/// Runs confined programs. Cheap to clone; clones share their launchers.
#[derive(Clone, Debug)]
pub struct Sandbox {
    most: SandboxTier,
    /// Found when it is first asked for: trying takes a few processes, and many who hold a sandbox never use it.
    availability: Arc<OnceLock<Availability>>,
    full: Arc<Pool>,
    reduced: Arc<Pool>,
    spills: Arc<OnceLock<Spills>>,
    runs: Arc<OnceLock<Runs>>,
    places: Arc<Places>,
    left: Left,
}

/// How far this machine can confine a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// The most that works.
    pub tier: SandboxTier,
    /// Why not more.
    pub missing: Vec<String>,
}

impl Sandbox {
    /// The one of this process.
    pub fn of_this_process() -> &'static Sandbox {
        static SHARED: OnceLock<Sandbox> = OnceLock::new();
        SHARED.get_or_init(Sandbox::untried)
    }

    /// One that builds no better walls than these, to measure them; what asks for better ones does not run in it.
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

    /// Keeps outputs that are longer than an answer in this folder. Said once; until then, and to another folder, none is
    /// kept.
    pub fn keep_outputs_in(&self, folder: &Path) {
        let _ = self.spills.set(Spills::at(folder));
    }

    /// Notes runs that are not over in this folder. Said once.
    pub fn note_runs_in(&self, folder: &Path) {
        let _ = self.runs.set(Runs::at(folder));
    }

    /// The outputs that are kept, if any are.
    pub fn spills(&self) -> Option<&Spills> {
        self.spills.get()
    }

    /// Another with launchers of its own, for a runtime of its own: a launcher is spoken to by the runtime that took it.
    pub fn with_own_launchers(&self) -> Sandbox {
        Sandbox { availability: Arc::clone(&self.availability), ..Sandbox::untried() }
    }

    /// What this machine can do, tried once by doing it: it does not change under a running program. Blocking, the
    /// first time.
    pub fn availability(&self) -> &Availability {
        self.availability.get_or_init(check::availability)
    }

    /// What the kernel holds each run to as a whole, by a control group of its own; or why it does not, and a watcher alone
    /// does.
    pub fn groups(&self) -> Result<Vec<&'static str>, &'static str> {
        backend::groups()
    }

    /// Whether the daemon with this number has such groups.
    pub fn has_groups(&self, daemon: i32) -> bool {
        backend::has_groups(daemon)
    }

    /// Leans against the walls from inside. `folder` is a private one that exists; what is made there is removed.
    pub fn check(&self, folder: &Path) -> std::io::Result<Vec<Finding>> {
        match self.availability().tier {
            SandboxTier::None => Ok(Vec::new()),
            tier => check::findings(tier, folder),
        }
    }

    /// Runs a command in the best walls there are, and in none at all if those are not good enough.
    pub async fn run(&self, confined: Confined) -> Result<Report, SandboxError> {
        self.run_into(confined, Outlets::default()).await
    }

    /// The same for an output that somebody reads on: what the report cannot have all of is kept whole, and pieces of it
    /// are handed on while it comes in.
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
                finished = run::run(begun, tier, launcher, &mut outlets) => finished,
                // Dropped, it is ended and seen to.
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

    /// Starts a command that is spoken to while it runs.
    pub async fn serve(&self, mut confined: Confined) -> Result<(Served, Pipes), SandboxError> {
        let (tier, pool) = self.best(confined.least)?;
        for is_last in [false, true] {
            confined.refuse_what_needs_more_than(tier)?;
            let mut underway = self.begin(confined, pool).await?;
            let (begun, launcher) = underway.parts().ok_or(SandboxError::Lost)?;
            let started = served::start(begun, tier, launcher).await;
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

    /// Comes back once every run is asked to end.
    pub async fn closing(&self) {
        self.places.closing().await;
    }

    /// Takes a place and a launcher for a run.
    async fn begin(&self, confined: Confined, pool: &Arc<Pool>) -> Result<Underway, SandboxError> {
        self.left.refuse_in(&confined.before.writable)?;
        // Who can change nothing is no company.
        let place = (!confined.before.writable.is_empty()).then(|| self.places.take());
        let launcher = pool.take().await?;
        let noted = self.note(&confined, &launcher).map_err(SandboxError::NotNoted)?;
        Ok(Underway::new(confined, launcher, noted, place, self.left.clone()))
    }

    /// Ends every run, and waits until each is seen to, those included that nobody waits for any more.
    pub async fn close(&self) {
        self.places.close().await;
    }

    /// Notes a run that could leave something behind.
    fn note(&self, confined: &Confined, launcher: &Launcher) -> std::io::Result<Option<Noted>> {
        let (Some(runs), false) = (self.runs.get(), confined.before.writable.is_empty()) else {
            return Ok(None);
        };
        let longest = confined.time_left() + confined.spec.limits.grace + TIME_TO_END;
        let latest = SystemTime::now() + longest;
        let launcher = launcher.process.id().unwrap_or(0);
        runs.note(&Unfinished { before: confined.before.clone(), launcher, latest }).map(Some)
    }

    /// Sees to the runs that a daemon before this one left behind when it was killed, and says so in the log. Before any
    /// other run; blocks on the disk.
    pub fn finish_runs(&self) -> std::io::Result<()> {
        for (noted, run) in self.runs.get().map_or(Ok(Vec::new()), Runs::unfinished)? {
            if let Some(run) = run {
                backend::await_launcher(run.launcher, TIME_TO_END);
                // Who ran beside it is not known any more.
                let aside =
                    run.before.set_new_names_aside(Company::Others, Some(run.latest), &Bounds::after());
                match aside.and_then(|aside| aftermath::all_set_aside(aside, &self.left)) {
                    Ok(_) => {}
                    Err(error @ SandboxError::LeftInPlace(_)) => {
                        // The note stays, for the next to try.
                        tracing::warn!(%error, "after a crash");
                        continue;
                    }
                    Err(error) => tracing::warn!(%error, "after a crash"),
                }
            }
            noted.over();
        }
        Ok(())
    }

    /// Starts this program again as a worker, granted nothing: no file but the system's, no network.
    pub async fn start(&self, task: &Task) -> Result<Worker, SandboxError> {
        let confined = task.confined()?;
        let (tier, pool) = self.best(confined.least)?;
        let launcher = pool.take().await?;
        let worker = Worker::start(&confined, tier, launcher).await;
        pool.refill();
        worker
    }

    /// The best walls there are, if they are as good as these.
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

/// The same command with what it was granted looked through anew: something had moved before its walls stood.
async fn looked_through_again(underway: Underway) -> Result<Confined, SandboxError> {
    let confined = underway.not_begun().await.ok_or(SandboxError::Lost)?;
    let looked = while_awaited(move |awaited| confined.looked_through_again(awaited)).await;
    looked.unwrap_or(Err(SandboxError::Lost))
}
