//! Where the tools of this area get what they show. Tools are registered before there is anything to tell, so the source
//! comes later, once, from whoever puts the parts together; until then they say that nothing is known.

use std::fmt;
use std::sync::{Arc, OnceLock};

use registry::{Order, Running, ToolExecutor};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tool::{Failure, FailureKind, Mode, Output, RiskLevel};

/// What can be told of the process. Both functions may block.
pub struct Source {
    /// What it is doing, or nothing while it stops.
    pub status: Box<dyn Fn() -> Option<RuntimeStatus> + Send + Sync>,
    /// What it finds when it looks itself over.
    pub checks: Box<dyn Fn() -> Vec<Check> + Send + Sync>,
}

/// A handle to the source. Clones share it.
#[derive(Clone, Default)]
pub struct Internals {
    source: Arc<OnceLock<Source>>,
}

impl Internals {
    /// The one of this process.
    pub fn of_this_process() -> &'static Internals {
        static SHARED: OnceLock<Internals> = OnceLock::new();
        SHARED.get_or_init(Internals::default)
    }

    /// Says where the facts are. The first source stays: a process has one layer.
    pub fn come_from(&self, source: Source) {
        let _ = self.source.set(source);
    }

    fn source(&self) -> Result<&Source, Failure> {
        let missing = || Failure::new(FailureKind::Transient, "Sinew has not come up yet").hint("try again");
        self.source.get().ok_or_else(missing)
    }
}

impl fmt::Debug for Internals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Internals").field("known", &self.source.get().is_some()).finish()
    }
}

/// A body that asks the source, on a thread that may block.
pub(super) struct Asking<O> {
    internals: Internals,
    ask: fn(&Source) -> Result<O, Failure>,
}

impl<O> Asking<O> {
    pub(super) fn new(internals: &Internals, ask: fn(&Source) -> Result<O, Failure>) -> Self {
        Asking { internals: internals.clone(), ask }
    }
}

impl<O: Serialize + Send + 'static> ToolExecutor for Asking<O> {
    fn run(&self, _order: Arc<Order>) -> Running {
        let (internals, ask) = (self.internals.clone(), self.ask);
        let crashed = |why: String| Failure::new(FailureKind::Crashed, why);
        Box::pin(async move {
            let asked = tokio::task::spawn_blocking(move || ask(internals.source()?));
            let answer = asked.await.map_err(|error| crashed(format!("looking failed: {error}")))??;
            let value = serde_json::to_value(answer)
                .map_err(|error| crashed(format!("the tool's answer is not JSON: {error}")))?;
            Ok(Output { value, ..Output::default() })
        })
    }
}

/// What Sinew is doing, and what it lets a caller do.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RuntimeStatus {
    /// The running version.
    pub version: String,
    /// The operational mode.
    pub mode: Mode,
    /// Since it was started.
    pub uptime_seconds: u64,
    /// Calls at work now, this one included.
    pub running_calls: u64,
    /// Calls that ran to their end.
    pub done_calls: u64,
    /// Calls that were started and failed.
    pub failed_calls: u64,
    /// Calls that were never started.
    pub refused_calls: u64,
    /// What is left of the limits that hold for all tools in this mode.
    pub remaining: Map<String, Value>,
    /// The folders callers work in.
    pub workspaces: Vec<String>,
    /// Pins the policy in force.
    pub policy_hash: String,
    /// The record of what happens.
    pub ledger: LedgerHealth,
    /// The tools, and what policy says to their own examples in this mode.
    pub tools: Vec<ToolStanding>,
}

/// Whether records are taken.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LedgerHealth {
    /// `ready`, `unavailable` or `closed`.
    pub state: String,
    /// Why it is not ready.
    pub reason: Option<String>,
    /// The number of the last record.
    pub records: u64,
    /// Records that were acknowledged and are gone. Stays 0.
    pub lost_records: u64,
}

/// How a tool stands.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolStanding {
    /// The tool.
    pub name: String,
    /// Its category.
    pub category: String,
    /// The harm it can do.
    pub risk_level: RiskLevel,
    /// What becomes of its own example: `allow`, `ask` (a human decides) or `deny`.
    pub verdict: String,
    /// Why it is not simply allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Check {
    /// What must hold.
    pub what: String,
    /// Whether it does.
    pub holds: bool,
    /// What was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}
