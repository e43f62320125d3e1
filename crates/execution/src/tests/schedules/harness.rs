//! Test harness: the real layer on a real ledger, one tool that reports each start, and a daemon that can
//! crash.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use file_access::{UndoLimits, UndoStore};
use governance::policy_environment::{NameComparison, PathVariables, PolicyEnvironment, ProtectedFolders};
use governance::{Permit, Policy, Workspace, WorkspaceAccess, Workspaces};
use jiff::Timestamp;
use ledger::{Ledger, LedgerOptions};
use registry::{CallPreview, ExecutorFuture, RecordedPermit, ToolExecutor, ToolRegistry};
use serde_json::json;
use tokio::runtime::Runtime;
use tool::{Category, Failure, Mode, RiskLevel, ToolOutput, ToolSpec};

use super::later;
use super::oracle::{ApprovalOracle, ObservedRun};
use crate::{ConfigSnapshot, LayerParts, ToolExecutionLayer};

pub(super) const TOOL: &str = "change";

/// Variants of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolicyVariant {
    /// The definition of the tool requires approval.
    Asks,
    /// The mode requires approval too.
    AsksMore,
    Forbids,
}

impl PolicyVariant {
    fn files(self) -> [(&'static str, String); 3] {
        let asked = if self == PolicyVariant::AsksMore { "[any_write_operation]" } else { "[]" };
        let forbidden = if self == PolicyVariant::Forbids { "[NORMAL]" } else { "[]" };
        let modes = format!("modes:\n  NORMAL: {{description: all, require_approval_for: {asked}}}\n");
        let tools =
            format!("tools:\n  {TOOL}: {{allowed_in_modes: [NORMAL], forbidden_in_modes: {forbidden}}}\n");
        let safety = "content_filtering: {secret_patterns: []}\nrate_limits: {}\n\
                      human_approval: {timeout_seconds: 300}\n"
            .to_owned();
        [("modes.yaml", modes), ("tools.yaml", tools), ("safety.yaml", safety)]
    }

    fn policy(self, folder: &Path) -> Policy {
        let policy = folder.join(format!("{self:?}"));
        if !policy.exists() {
            std::fs::create_dir(&policy).unwrap();
            for (name, text) in self.files() {
                std::fs::write(policy.join(name), text).unwrap();
            }
        }
        let around = PolicyEnvironment {
            variables: PathVariables::with_home(folder),
            protected: ProtectedFolders::default(),
            name_comparison: NameComparison::CaseSensitive,
        };
        Policy::load_with(&policy, governance::files::LayerDefault::Replace, &around).unwrap()
    }

    /// Number of rules that require approval.
    fn rules(self) -> Option<usize> {
        match self {
            PolicyVariant::Asks => Some(1),
            PolicyVariant::AsksMore => Some(2),
            PolicyVariant::Forbids => None,
        }
    }
}

/// Test tool: its preview shows the state of an object, and it reports every start to the oracle.
struct ChangeTool {
    oracle: Arc<ApprovalOracle>,
    layer: OnceLock<Weak<ToolExecutionLayer>>,
    /// State that the last preview of each call saw, by the address of its argument, which moves along with
    /// the call.
    previewed: Mutex<HashMap<usize, (String, Timestamp)>>,
    /// Every policy that was loaded, by its hash.
    policy_variants: Mutex<HashMap<String, PolicyVariant>>,
}

fn object_name(permit: &Permit) -> &str {
    permit.call().arguments()["thing"].as_str().unwrap()
}

impl ChangeTool {
    fn state(&self, name: &str) -> (String, Timestamp) {
        let known = self.oracle.lock();
        (known.objects.get(name).map_or(0, |thing| thing.state).to_string(), known.now)
    }
}

impl ToolExecutor for ChangeTool {
    fn preview(&self, permit: &Permit) -> Result<CallPreview, Failure> {
        let name = object_name(permit);
        let (state, at) = self.state(name);
        self.previewed.lock().unwrap().insert(name.as_ptr().addr(), (state.clone(), at));
        Ok(CallPreview { facts: vec![("state".to_owned(), state)], ..CallPreview::default() })
    }

    fn run(&self, recorded_permit: Arc<RecordedPermit>) -> ExecutorFuture {
        let name = object_name(recorded_permit.value());
        let caller = &recorded_permit.call().caller;
        let layer = self.layer.get().and_then(Weak::upgrade).unwrap();
        let stance = self.policy_variants.lock().unwrap()[layer.current.snapshot.load().policy.hash()];
        let looked = self.previewed.lock().unwrap().get(&name.as_ptr().addr()).cloned();
        let mut wrong = Vec::new();
        if stance == PolicyVariant::Forbids {
            wrong.push("the policy forbids it by now");
        }
        if self.oracle.lock().withdrawn[&caller.connection].is_cancelled() {
            wrong.push("it was withdrawn");
        }
        if looked.is_none() {
            wrong.push("its effect was never computed");
        }
        let (looked, at) = looked.unwrap_or_default();
        self.oracle.record_run(name, |before| ObservedRun {
            approvals_before: before,
            client: caller.client.clone().unwrap_or_default(),
            previewed: looked,
            rule_count: stance.rules().unwrap_or_default(),
            at,
        });
        let mut known = self.oracle.lock();
        known.violations.extend(wrong.iter().map(|reason| format!("`{name}` ran, and {reason}")));
        Box::pin(async { Ok(ToolOutput::default()) })
    }
}

/// One run of the daemon.
pub(super) struct DaemonRun {
    pub(super) runtime: Runtime,
    pub(super) layer: Arc<ToolExecutionLayer>,
    tool: Arc<ChangeTool>,
    oracle: Arc<ApprovalOracle>,
}

impl DaemonRun {
    /// Starts the daemon on the state that an earlier run left.
    pub(super) fn start(folder: &Path, truth: &Arc<ApprovalOracle>, stance: PolicyVariant) -> DaemonRun {
        // Single-threaded, so that everything between two awaits is atomic for the schedule.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let body = Arc::new(ChangeTool {
            oracle: Arc::clone(truth),
            layer: OnceLock::new(),
            previewed: Mutex::default(),
            policy_variants: Mutex::default(),
        });
        let snapshot = snapshot(folder, stance, &body);
        // Small segments, so that a start reads little and requests are carried over between segments.
        let options = LedgerOptions { segment_bytes: 128 * 1024, ..LedgerOptions::default() };
        let (ledger, recovery) = Ledger::open(&folder.join("ledger"), &options).unwrap();
        let undo =
            UndoStore::at(&folder.join("undo"), UndoLimits { keep_bytes: 0, keep_for: Duration::ZERO });
        let (state_dir, reserved_ports) = (folder.join("state"), Default::default());
        let parts = LayerParts { snapshot, ledger, recovery, state_dir, undo, reserved_ports };
        let layer = ToolExecutionLayer::new(parts).unwrap();
        body.layer.set(Arc::downgrade(&layer)).unwrap();
        layer.approvals.advance_clock(truth.lock().now);
        DaemonRun { runtime, layer, tool: body, oracle: Arc::clone(truth) }
    }

    pub(super) fn snapshot(&self, folder: &Path, stance: PolicyVariant) -> ConfigSnapshot {
        snapshot(folder, stance, &self.tool)
    }

    /// Advances the time of the layer and of the test.
    pub(super) fn advance(&self, time: Duration) {
        let mut known = self.oracle.lock();
        known.now = later(known.now, time);
        self.layer.approvals.advance_clock(known.now);
    }

    /// Ends the process at whatever point its tasks are; files stay.
    pub(super) fn crash(self) {
        let DaemonRun { runtime, layer, .. } = self;
        let gone = Arc::downgrade(&layer);
        drop(runtime);
        drop(layer);
        assert_eq!(gone.strong_count(), 0, "no task of an earlier run continues");
    }
}

fn snapshot(folder: &Path, stance: PolicyVariant, body: &Arc<ChangeTool>) -> ConfigSnapshot {
    let mut spec = ToolSpec::new(TOOL, "Changes a thing", Category::SYSTEM_WRITE, RiskLevel::Low);
    spec.input_schema = Some(json!({"type": "object"}));
    spec.requires_approval = true;
    spec.allowed_modes = vec![Mode::Normal];
    let mut registry = ToolRegistry::new();
    registry.register(spec.check().unwrap(), Arc::<ChangeTool>::clone(body)).unwrap();
    let workspace = Workspace::open(folder, WorkspaceAccess::ReadWrite).unwrap();
    let policy = stance.policy(folder);
    body.policy_variants.lock().unwrap().insert(policy.hash().to_owned(), stance);
    ConfigSnapshot {
        registry,
        policy,
        curated: Arc::default(),
        workspaces: Workspaces::new(vec![workspace]),
        hosts: Arc::default(),
        keys: std::collections::BTreeMap::new(),
        problems: Vec::new(),
    }
}
