//! Status of the daemon, and the availability of each tool under the current policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use governance::files::VerdictKind;
use governance::transitions::ModeTransition;
use guardrail::KnownTool;
use ledger::{LedgerHealthReport, LedgerState};
use registry::Tool;
use serde::Serialize;
use serde_json::{Map, Value};
use tool::{Category, Mode, RiskLevel};

use crate::config_snapshot::ManifestProblem;
use crate::layer::ToolExecutionLayer;
use crate::reload::ReloadReport;

/// Status of the layer, for `sinew status` and `sinew/status`.
#[derive(Clone, Debug, Serialize)]
pub struct LayerStatus {
    /// Running version.
    pub version: &'static str,
    /// Current mode.
    pub mode: Mode,
    /// Mode change that waits for confirmation by the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal: Option<ProposalStatus>,
    /// Last reload of the configuration: applied, waiting for the operator, or rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reload: Option<ReloadReport>,
    /// Manifests and tools that could not be loaded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub manifest_problems: Vec<ManifestProblem>,
    /// Seconds since the layer was created.
    pub uptime_seconds: u64,
    /// Calls by outcome, and the number of running calls.
    pub calls: CallCounts,
    /// Pending approvals.
    pub approvals: ApprovalsStatus,
    /// Remaining calls under the limits that apply to all tools in this mode.
    pub remaining: Map<String, Value>,
    /// Number of tools.
    pub tools: usize,
    /// Hash of the policy in effect.
    pub policy_hash: String,
    /// Folders in which callers work.
    pub workspaces: Vec<String>,
    /// State of the ledger.
    pub ledger: LedgerStatus,
}

/// State of the approvals.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ApprovalsStatus {
    /// Number of pending approvals.
    pub pending: usize,
    /// True if an approval requires the operator's PIN.
    pub pin: bool,
}

/// Mode change that a rule proposes and the operator decides.
#[derive(Clone, Debug, Serialize)]
pub struct ProposalStatus {
    /// Proposed mode; setting it confirms the proposal.
    pub to: Mode,
    /// The rule and the measured values.
    pub reason: String,
}

impl ProposalStatus {
    pub(crate) fn of(transition: &ModeTransition) -> Self {
        ProposalStatus { to: transition.to, reason: transition.reason() }
    }
}

/// State of the ledger and its record counts.
#[derive(Clone, Debug, Serialize)]
pub struct LedgerStatus {
    /// `ready`, `unavailable` or `closed`.
    pub state: &'static str,
    /// Reason why the ledger is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Number of the last record.
    pub records: u64,
    /// Calls with a recorded decision and no recorded outcome.
    pub open_intents: u64,
    /// Records that were acknowledged and lost. Must stay 0.
    pub lost_records: u64,
    /// Calls whose records are held in memory until they can be written.
    pub deferred: u64,
    /// Entries that could not be recorded. Each caller received an error.
    pub rejected_entries: u64,
    /// Bytes of all records.
    pub bytes: u64,
    /// Segments that retention has removed.
    pub removed_segments: u64,
    /// Segments among them that held records younger than the minimum age: the size limit forced their removal.
    pub removed_under_pressure: u64,
    /// Time of the last such removal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_removed_under_pressure: Option<String>,
    /// Reads are refused, because the rest of the size limit is reserved for records of changes.
    pub reads_refused: bool,
}

impl LedgerStatus {
    pub(crate) fn of(health: &LedgerHealthReport) -> Self {
        let (state, reason) = match &health.state {
            LedgerState::Ready => ("ready", None),
            LedgerState::Unavailable { reason } => ("unavailable", Some(reason.to_string())),
            LedgerState::Closed => ("closed", None),
        };
        LedgerStatus {
            state,
            reason,
            records: health.head,
            open_intents: health.open_intents,
            lost_records: health.lost_records,
            deferred: health.deferred_records,
            rejected_entries: health.rejected_entries,
            bytes: health.bytes,
            removed_segments: health.removed.segments,
            removed_under_pressure: health.removed.under_pressure,
            last_removed_under_pressure: health.removed.last_under_pressure.map(|time| time.to_string()),
            reads_refused: health.pressure.reads_refused,
        }
    }
}

/// Calls since the start, by outcome.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CallCounts {
    /// Running calls.
    pub running: usize,
    /// Calls that succeeded.
    pub done: u64,
    /// Calls that were started and failed.
    pub failed: u64,
    /// Calls that were refused.
    pub refused: u64,
}

/// Counters behind `CallCounts`.
#[derive(Default)]
pub(crate) struct CallTally {
    pub(crate) done: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl CallTally {
    pub(crate) fn counts(&self, running: usize) -> CallCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CallCounts {
            running,
            done: read(&self.done),
            failed: read(&self.failed),
            refused: read(&self.refused),
        }
    }
}

/// Availability of a tool in the current mode.
#[derive(Clone, Debug)]
pub struct ToolAvailability {
    /// Name of the tool.
    pub name: String,
    /// Category of the tool.
    pub category: Category,
    /// Risk level of the tool.
    pub risk_level: RiskLevel,
    /// Verdict for the example of the tool, judged by names alone; no file is opened.
    pub verdict: VerdictKind,
    /// Reason, unless the verdict is allow.
    pub reason: Option<String>,
}

impl ToolExecutionLayer {
    /// Returns all tools, by name.
    pub fn tool_availability(&self) -> Vec<ToolAvailability> {
        let (snapshot, mode) = (self.current.snapshot.load(), self.mode());
        let one = |tool: &Arc<Tool>| {
            let (definition, schema) = (tool.definition(), tool.schema());
            let example = definition.example().and_then(|example| example.as_object().cloned());
            let known = KnownTool { definition, schema };
            let tried = snapshot.policy.dry_run_with_schema(
                known,
                &example.unwrap_or_default(),
                mode,
                &snapshot.workspaces,
            );
            let (verdict, reason) = match tried {
                Ok(found) => {
                    let summary = found.summary();
                    (found.verdict, (found.verdict != VerdictKind::Allow).then_some(summary))
                }
                // Without a valid example, only the mode decides.
                Err(_) if snapshot.policy.may_run(definition, mode) => (VerdictKind::Allow, None),
                Err(_) => (VerdictKind::Deny, Some(format!("deny: not in {mode}"))),
            };
            ToolAvailability {
                name: definition.name().to_string(),
                category: definition.category().clone(),
                risk_level: definition.risk_level(),
                verdict,
                reason,
            }
        };
        let tools = snapshot.registry.definitions();
        tools.filter_map(|definition| snapshot.registry.get(definition.name().as_str())).map(one).collect()
    }
}
