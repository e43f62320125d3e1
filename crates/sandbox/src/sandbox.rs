//! The sandbox of a program: what it can build on this machine, and the launchers that build it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tool::SandboxTier;

use crate::check::{self, Finding};
use crate::confined::Confined;
use crate::error::SandboxError;
use crate::inventory;
use crate::outlets::{Hear, Outlets};
use crate::pool::Pool;
use crate::quarantine::{Quarantined, quarantine};
use crate::report::Report;
use crate::run;
use crate::spill::Spills;
use crate::worker::{Task, Worker};

/// Runs confined programs. Cheap to clone; clones share their launchers.
#[derive(Clone, Debug)]
pub struct Sandbox {
    most: SandboxTier,
    /// Found when it is first asked for: trying takes a few processes, and many who hold a sandbox never use it.
    availability: Arc<OnceLock<Availability>>,
    full: Arc<Pool>,
    reduced: Arc<Pool>,
    spills: Arc<OnceLock<Spills>>,
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
        }
    }

    /// Keeps outputs that are longer than an answer in this folder. Said once; until then, and to another folder, none is
    /// kept.
    pub fn keep_outputs_in(&self, folder: &Path) {
        let _ = self.spills.set(Spills::at(folder));
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

    async fn run_into(&self, confined: Confined, outlets: Outlets) -> Result<Report, SandboxError> {
        let (tier, pool) = self.best(confined.least)?;
        confined.refuse_what_needs_more_than(tier)?;
        let launcher = pool.take().await.map_err(SandboxError::Launcher)?;
        let left = LeftAlone(Some(confined));
        let finished = match &left.0 {
            Some(confined) => run::run(confined, tier, launcher, outlets).await,
            None => return Err(SandboxError::Lost),
        };
        pool.refill();
        let finished = finished?;
        let confined = left.taken().ok_or(SandboxError::Lost)?;
        let walls_sha256 = confined.walls_digest(tier);
        let (executable, quarantined) = (confined.executable.clone(), set_new_names_aside(confined).await?);
        Ok(Report {
            end: finished.end,
            stdout: finished.stdout,
            stderr: finished.stderr,
            tier,
            spent: finished.spent,
            executable,
            walls_sha256,
            quarantined,
        })
    }

    /// Starts this program again as a worker, granted nothing: no file but the system's, no network.
    pub async fn start(&self, task: &Task) -> Result<Worker, SandboxError> {
        let confined = task.confined()?;
        let (tier, pool) = self.best(confined.least)?;
        let launcher = pool.take().await.map_err(SandboxError::Launcher)?;
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

/// A run that nobody waits for any more, or that failed: its caller had no patience left, or took it back. What it made
/// is set aside all the same, once its processes are gone.
struct LeftAlone(Option<Confined>);

impl LeftAlone {
    fn taken(mut self) -> Option<Confined> {
        self.0.take()
    }
}

impl Drop for LeftAlone {
    fn drop(&mut self) {
        let Some(confined) = self.0.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            tokio::time::sleep(TIME_TO_END).await;
            if let Err(error) = set_new_names_aside(confined).await {
                tracing::warn!(%error, "what a run left behind could not be looked through");
            }
        });
    }
}

/// Twice what a launcher takes to end everything it started.
const TIME_TO_END: std::time::Duration = std::time::Duration::from_millis(500);

/// Nothing of the run is left, so what is found now is what it left behind.
async fn set_new_names_aside(confined: Confined) -> Result<Vec<Quarantined>, SandboxError> {
    if confined.spec.writable.is_empty() {
        return Ok(Vec::new());
    }
    let looked = tokio::task::spawn_blocking(move || {
        let (mut aside, mut problem) = (Vec::new(), None);
        let hidden: HashSet<&Path> = confined.spec.hidden.iter().map(PathBuf::as_path).collect();
        for folder in &confined.spec.writable {
            // What was hidden was not looked into before, so what is in it is not new.
            let found = inventory::take(folder, inventory::MOST_AFTER, |path| !hidden.contains(path));
            let new = found.kept.iter().filter(|(path, now)| !confined.before.knew(path, now));
            aside.extend(new.map(|(path, _)| quarantine(path)));
            // What was unlisted before was hidden, and is not come to again.
            aside.extend(found.unlisted.iter().map(|path| quarantine(path)));
            problem = problem.or(found.problem);
        }
        problem.map_or(Ok(aside), |problem| Err(SandboxError::LeftUnseen(Box::new(problem))))
    });
    looked.await.unwrap_or(Err(SandboxError::Lost))
}
