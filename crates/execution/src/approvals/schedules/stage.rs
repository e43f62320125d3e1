//! Test harness: the real layer on a real ledger, one tool that reports each start, and a daemon that can
//! crash.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use file_access::{UndoLimits, UndoStore};
use governance::{
    FileNames, Permit, Policy, Protected, Surroundings, Variables, Workspace, WorkspaceAccess, Workspaces,
};
use guardrail::Curated;
use jiff::Timestamp;
use ledger::{Ledger, Options};
use registry::{Order, Preview, Running, ToolExecutor, ToolRegistry};
use serde_json::json;
use tokio::runtime::Runtime;
use tool::{Category, Failure, Mode, Output, RiskLevel, ToolSpec};

use super::super::clock::later;
use super::truth::{Run, Truth};
use crate::{Parts, ToolExecutionLayer, World};

pub(super) const TOOL: &str = "change";

/// Variants of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stance {
    /// The definition of the tool requires approval.
    Asks,
    /// The mode requires approval too.
    AsksMore,
    Forbids,
}

impl Stance {
    fn files(self) -> [(&'static str, String); 3] {
        let asked = if self == Stance::AsksMore { "[any_write_operation]" } else { "[]" };
        let forbidden = if self == Stance::Forbids { "[NORMAL]" } else { "[]" };
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
        let around = Surroundings {
            variables: Variables::with_home(folder),
            protected: Protected::default(),
            names: FileNames::CaseSensitive,
        };
        Policy::load(&policy, &around).unwrap()
    }

    /// Number of rules that require approval.
    fn rules(self) -> Option<usize> {
        match self {
            Stance::Asks => Some(1),
            Stance::AsksMore => Some(2),
            Stance::Forbids => None,
        }
    }
}

/// Test tool: its preview shows the state of an object, and it reports every start to the oracle.
struct Changes {
    truth: Arc<Truth>,
    layer: OnceLock<Weak<ToolExecutionLayer>>,
    /// State that the last preview of each call saw, by the address of its argument, which moves along with
    /// the call.
    looked: Mutex<HashMap<usize, (String, Timestamp)>>,
    /// Every policy that was loaded, by its hash.
    stances: Mutex<HashMap<String, Stance>>,
}

fn name_of(permit: &Permit) -> &str {
    permit.call().arguments()["thing"].as_str().unwrap()
}

impl Changes {
    fn state(&self, name: &str) -> (String, Timestamp) {
        let known = self.truth.known();
        (known.things.get(name).map_or(0, |thing| thing.state).to_string(), known.now)
    }
}

impl ToolExecutor for Changes {
    fn preview(&self, permit: &Permit) -> Result<Preview, Failure> {
        let name = name_of(permit);
        let (state, at) = self.state(name);
        self.looked.lock().unwrap().insert(name.as_ptr().addr(), (state.clone(), at));
        Ok(Preview { facts: vec![("state".to_owned(), state)], ..Preview::default() })
    }

    fn run(&self, order: Arc<Order>) -> Running {
        let name = name_of(order.value());
        let caller = &order.call().caller;
        let layer = self.layer.get().and_then(Weak::upgrade).unwrap();
        let stance = self.stances.lock().unwrap()[layer.world.load().policy.hash()];
        let looked = self.looked.lock().unwrap().get(&name.as_ptr().addr()).cloned();
        let mut wrong = Vec::new();
        if stance == Stance::Forbids {
            wrong.push("the policy forbids it by now");
        }
        if self.truth.known().withdrawn[&caller.connection].is_cancelled() {
            wrong.push("it was withdrawn");
        }
        if looked.is_none() {
            wrong.push("its effect was never computed");
        }
        let (looked, at) = looked.unwrap_or_default();
        self.truth.runs(name, |before| Run {
            before,
            client: caller.client.clone().unwrap_or_default(),
            looked,
            asks: stance.rules().unwrap_or_default(),
            at,
        });
        let mut known = self.truth.known();
        known.wrong.extend(wrong.iter().map(|why| format!("`{name}` ran, and {why}")));
        Box::pin(async { Ok(Output::default()) })
    }
}

/// One run of the daemon.
pub(super) struct Life {
    pub(super) runtime: Runtime,
    pub(super) layer: Arc<ToolExecutionLayer>,
    body: Arc<Changes>,
    truth: Arc<Truth>,
}

impl Life {
    /// Starts the daemon on the state that an earlier run left.
    pub(super) fn begin(folder: &Path, truth: &Arc<Truth>, stance: Stance) -> Life {
        // Single-threaded, so that everything between two awaits is atomic for the schedule.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let body = Arc::new(Changes {
            truth: Arc::clone(truth),
            layer: OnceLock::new(),
            looked: Mutex::default(),
            stances: Mutex::default(),
        });
        let world = world(folder, stance, &body);
        // Small segments, so that a start reads little and requests are carried over between segments.
        let options = Options { segment_bytes: 128 * 1024, ..Options::default() };
        let (ledger, recovery) = Ledger::open(&folder.join("ledger"), &options).unwrap();
        let undo =
            UndoStore::at(&folder.join("undo"), UndoLimits { keep_bytes: 0, keep_for: Duration::ZERO });
        let parts = Parts { world, ledger, recovery, state: folder.join("state"), undo };
        let layer = ToolExecutionLayer::new(parts).unwrap();
        body.layer.set(Arc::downgrade(&layer)).unwrap();
        layer.approvals.clock.now_by(truth.known().now);
        Life { runtime, layer, body, truth: Arc::clone(truth) }
    }

    pub(super) fn world(&self, folder: &Path, stance: Stance) -> World {
        world(folder, stance, &self.body)
    }

    /// Advances the time of the layer and of the test.
    pub(super) fn pass(&self, time: Duration) {
        let mut known = self.truth.known();
        known.now = later(known.now, time);
        self.layer.approvals.clock.now_by(known.now);
    }

    /// Ends the process at whatever point its tasks are; files stay.
    pub(super) fn crash(self) {
        let Life { runtime, layer, .. } = self;
        let gone = Arc::downgrade(&layer);
        drop(runtime);
        drop(layer);
        assert_eq!(gone.strong_count(), 0, "no task of an earlier run continues");
    }
}

fn world(folder: &Path, stance: Stance, body: &Arc<Changes>) -> World {
    let mut spec = ToolSpec::new(TOOL, "Changes a thing", Category::SYSTEM_WRITE, RiskLevel::Low);
    spec.input_schema = Some(json!({"type": "object"}));
    spec.requires_approval = true;
    spec.allowed_modes = vec![Mode::Normal];
    let mut registry = ToolRegistry::new();
    registry.register(spec.check().unwrap(), Arc::<Changes>::clone(body)).unwrap();
    let workspace = Workspace::at(folder, WorkspaceAccess::ReadWrite).unwrap();
    let policy = stance.policy(folder);
    body.stances.lock().unwrap().insert(policy.hash().to_owned(), stance);
    World {
        registry,
        policy,
        curated: Curated::default(),
        workspaces: Workspaces::new(vec![workspace]),
        hosts: Vec::new(),
        keys: std::collections::BTreeMap::new(),
    }
}
