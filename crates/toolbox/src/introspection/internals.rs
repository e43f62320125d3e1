//! Data source of the introspection tools. Tools are registered before the daemon has anything to report, so
//! the source is set later, once, at start-up; until then a call fails with a hint to try again.

use std::fmt;
use std::sync::{Arc, OnceLock};

use registry::{ExecutorFuture, RecordedPermit, ToolExecutor};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tool::{Failure, FailureKind, Mode, RiskLevel, ToolOutput};

use crate::tool_registration::TypedOutput;

/// Functions that report on the process. Both may block.
pub struct InternalsSource {
    /// Returns the current status, or nothing while the process shuts down.
    pub status: Box<dyn Fn() -> Option<RuntimeStatus> + Send + Sync>,
    /// Runs the checks of `self_check`.
    pub checks: Box<dyn Fn() -> Vec<SelfCheckResult> + Send + Sync>,
}

/// Handle to the source. Clones share it.
#[derive(Clone, Default)]
pub struct Internals {
    source: Arc<OnceLock<InternalsSource>>,
}

impl Internals {
    /// Returns the handle of this process.
    pub fn of_this_process() -> &'static Internals {
        static SHARED: OnceLock<Internals> = OnceLock::new();
        SHARED.get_or_init(Internals::default)
    }

    /// Sets the source. Later calls have no effect: a process has one source.
    pub fn set_source(&self, source: InternalsSource) {
        let _ = self.source.set(source);
    }

    fn source(&self) -> Result<&InternalsSource, Failure> {
        let missing =
            || Failure::new(FailureKind::Transient, "Sinew has not finished starting").with_hint("try again");
        self.source.get().ok_or_else(missing)
    }
}

impl fmt::Debug for Internals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Internals").field("known", &self.source.get().is_some()).finish()
    }
}

/// Executor that queries the source on the blocking pool.
pub(super) struct IntrospectionTool<O> {
    internals: Internals,
    query: fn(&InternalsSource) -> Result<O, Failure>,
}

impl<O> IntrospectionTool<O> {
    pub(super) fn new(internals: &Internals, query_fn: fn(&InternalsSource) -> Result<O, Failure>) -> Self {
        IntrospectionTool { internals: internals.clone(), query: query_fn }
    }
}

impl<O: Serialize + Send + 'static> ToolExecutor for IntrospectionTool<O> {
    fn run(&self, _order: Arc<RecordedPermit>) -> ExecutorFuture {
        let (internals, query_fn) = (self.internals.clone(), self.query);
        Box::pin(async move {
            let query = tokio::task::spawn_blocking(move || query_fn(internals.source()?)).await;
            let value = query.map_err(|error| {
                Failure::new(FailureKind::Crashed, format!("the query failed: {error}"))
            })??;
            TypedOutput { value, metadata: ToolOutput::default() }.into_output()
        })
    }
}

/// Current state of Sinew and what its policy allows.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RuntimeStatus {
    /// Running version.
    pub version: String,
    /// Operational mode.
    pub mode: Mode,
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// Calls running now, this one included.
    pub running_calls: u64,
    /// Calls that completed.
    pub done_calls: u64,
    /// Calls that started and failed.
    pub failed_calls: u64,
    /// Calls that were refused and did not start.
    pub refused_calls: u64,
    /// Remaining quota of the limits that apply to all tools in this mode.
    pub remaining: Map<String, Value>,
    /// Directories that callers work in.
    pub workspaces: Vec<String>,
    /// Hash of the policy in force.
    pub policy_hash: String,
    /// State of the ledger.
    pub ledger: LedgerHealth,
    /// Registered tools, each with the verdict of the policy on its example call in this mode.
    pub tools: Vec<ToolVerdict>,
}

/// State of the ledger.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LedgerHealth {
    /// `ready`, `unavailable` or `closed`.
    pub state: String,
    /// Reason why it is not ready.
    pub reason: Option<String>,
    /// Sequence number of the last record.
    pub records: u64,
    /// Acknowledged records that are lost. Stays 0.
    pub lost_records: u64,
}

/// Verdict of the policy on one tool.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolVerdict {
    /// Tool name.
    pub name: String,
    /// Tool category.
    pub category: String,
    /// Risk level.
    pub risk_level: RiskLevel,
    /// Verdict on its example call: `allow`, `ask` (needs operator approval) or `deny`.
    pub verdict: String,
    /// Reason why it is not simply allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Result of one check.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SelfCheckResult {
    /// Condition that was checked.
    pub name: String,
    /// True if the condition is met.
    pub ok: bool,
    /// Finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Suggested fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}
