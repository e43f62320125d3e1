//! Tests of the layer with misbehaving tools.

mod calls;
mod explain;
mod explain_consistency;
mod guardrail;
mod host;
mod idempotency;
mod limits;
mod modes;
mod reload;
mod retry;
mod rewriting;
mod schedules;
mod secrets;
mod sessions;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use ::guardrail::CuratedGuardrails;
use file_access::{UndoLimits, UndoStore};
use governance::policy_environment::{NameComparison, PathVariables, PolicyEnvironment, ProtectedFolders};
use governance::{Policy, Workspace, WorkspaceAccess, Workspaces};
use ledger::{Ledger, LedgerOptions};
use registry::{ExecutorFuture, RecordedPermit, ToolExecutor, ToolRegistry};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tool::{
    Caller, CallerEndpoint, Category, FailureKind, Mode, Progress, RefusalCode, RiskLevel, ToolOutput,
    ToolResult, ToolSpec, TraceContext,
};

use crate::{CallRequest, CallState, ConfigSnapshot, ConnectionLoss, LayerParts, ToolExecutionLayer};
use approvals::ApprovalMode;

/// Tool implemented by a closure.
struct FnTool<F>(F);

impl<F: Fn(Arc<RecordedPermit>) -> ExecutorFuture + Send + Sync + 'static> ToolExecutor for FnTool<F> {
    fn run(&self, recorded_permit: Arc<RecordedPermit>) -> ExecutorFuture {
        (self.0)(recorded_permit)
    }
}

/// Gate that a test opens to let blocked tools continue.
#[derive(Clone, Default)]
struct TestGate(Arc<(Mutex<bool>, Condvar)>);

impl TestGate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let opened = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(opened, |opened| !*opened).unwrap());
    }
}

/// Tool that blocks a thread until the gate opens.
fn blocked_by(gate: &TestGate) -> impl Fn(Arc<RecordedPermit>) -> ExecutorFuture + Send + Sync + 'static {
    let held = gate.clone();
    move |_| {
        let gate = held.clone();
        Box::pin(async move {
            tokio::task::spawn_blocking(move || gate.wait()).await.unwrap();
            Ok(ToolOutput::default())
        })
    }
}

struct LayerBench {
    folder: tempfile::TempDir,
    registry: ToolRegistry,
}

/// Undo store that keeps nothing.
fn empty_undo_store(folder: &Path) -> Arc<UndoStore> {
    UndoStore::at(&folder.join("undo"), UndoLimits { keep_bytes: 0, keep_for: Duration::ZERO })
}

impl LayerBench {
    fn new() -> Self {
        LayerBench { folder: tempfile::tempdir().unwrap(), registry: ToolRegistry::new() }
    }

    fn tool(
        self,
        name: &str,
        category: Category,
        body: impl Fn(Arc<RecordedPermit>) -> ExecutorFuture + Send + Sync + 'static,
    ) -> Self {
        let timeout_seconds = if name == "stuck" { 1 } else { 30 };
        self.tool_with_spec(name, category, |spec| spec.timeout_seconds = timeout_seconds, body)
    }

    fn tool_with_spec(
        self,
        name: &str,
        category: Category,
        change: impl FnOnce(&mut ToolSpec),
        body: impl Fn(Arc<RecordedPermit>) -> ExecutorFuture + Send + Sync + 'static,
    ) -> Self {
        self.tool_with_executor(name, category, change, FnTool(body))
    }

    fn tool_with_executor(
        mut self,
        name: &str,
        category: Category,
        change: impl FnOnce(&mut ToolSpec),
        executor: impl ToolExecutor + 'static,
    ) -> Self {
        let mut spec = ToolSpec::new(name, "A test tool", category, RiskLevel::Low);
        spec.input_schema = Some(json!({"type": "object"}));
        change(&mut spec);
        self.registry.register(spec.check().unwrap(), Arc::new(executor)).unwrap();
        self
    }

    fn layer(self) -> (Arc<ToolExecutionLayer>, tempfile::TempDir) {
        let LayerBench { folder, registry } = self;
        (LayerBench::layer_in(folder.path(), registry), folder)
    }

    /// Creates a layer on the state that an earlier one may have left in this directory.
    fn layer_in(folder: &Path, registry: ToolRegistry) -> Arc<ToolExecutionLayer> {
        let fixture = LayerBench::snapshot_in(folder, registry);
        let (ledger, recovery) = Ledger::open(&folder.join("ledger"), &LedgerOptions::default()).unwrap();
        let (state, undo) = (folder.join("state"), empty_undo_store(folder));
        ToolExecutionLayer::new(LayerParts {
            snapshot: fixture,
            ledger,
            recovery,
            state_dir: state,
            undo,
            reserved_ports: Default::default(),
        })
        .unwrap()
    }

    fn snapshot_in(folder: &Path, registry: ToolRegistry) -> ConfigSnapshot {
        let around = PolicyEnvironment {
            variables: PathVariables::with_home(folder),
            protected: ProtectedFolders::default(),
            name_comparison: NameComparison::CaseSensitive,
        };
        let workspace = Workspace::open(folder, WorkspaceAccess::ReadWrite).unwrap();
        let policy = Policy::embedded(&around).unwrap();
        ConfigSnapshot {
            registry,
            policy,
            curated: CuratedGuardrails::embedded().unwrap().into(),
            workspaces: Workspaces::new(vec![workspace]),
            hosts: Arc::default(),
            keys: std::collections::BTreeMap::new(),
            problems: Vec::new(),
        }
    }
}

fn caller() -> Caller {
    Caller {
        uid: 1,
        pid: None,
        endpoint: CallerEndpoint::Socket,
        connection: 1,
        client: None,
        session: None,
        account: None,
    }
}

fn request(tool: &str, arguments: Value, deadline: Option<Duration>) -> CallRequest {
    CallRequest {
        tool_name: tool.to_owned(),
        arguments,
        caller: caller(),
        trace: TraceContext::root(),
        deadline,
        cwd: None,
        progress: Progress::default(),
        started: Instant::now(),
        curated_map: crate::CuratedMapCheck::Applied,
        idempotency_key: None,
        cancellation: CancellationToken::new(),
        approval_mode: ApprovalMode::Never,
        approval_id: None,
        connection_loss: ConnectionLoss::StopsCall,
    }
}

fn records(folder: &Path) -> Vec<Value> {
    let reader = ledger::LedgerReader::new(&folder.join("ledger"));
    reader.tail(1000).unwrap().iter().map(ledger::LedgerRecord::json).collect()
}

/// Returns true if a record holds an entry of a kind. A `call` holds a decision and an outcome.
fn holds(record: &Value, kind: &str) -> bool {
    record["kind"] == kind || (record["kind"] == "call" && ["decision", "outcome"].contains(&kind))
}

fn failure_kind(result: &ToolResult) -> Option<FailureKind> {
    result.metadata.failure.as_ref().map(|failure| failure.kind)
}

fn ready_output(value: Value) -> ExecutorFuture {
    Box::pin(async { Ok(ToolOutput { value, ..ToolOutput::default() }) })
}

#[tokio::test]
async fn panicking_tool_fails_its_call_and_the_next_is_served() {
    let bench = LayerBench::new()
        .tool("broken", Category::READ_ONLY, |_| {
            panic!("with sk-proj-abcdefghijklmnopqrstuvwxyz012345 inside")
        })
        .tool("later", Category::READ_ONLY, |_| Box::pin(async { panic!("later") }))
        .tool("fine", Category::READ_ONLY, |_| ready_output(json!({})));
    let (layer, folder) = bench.layer();
    for tool in ["broken", "later"] {
        let result = layer.execute(request(tool, json!({}), None)).await;
        assert_eq!(failure_kind(&result), Some(FailureKind::Crashed), "{tool}: {result:?}");
        assert!(!result.error.unwrap().contains("sk-proj"), "the panic message is not returned");
        let written = records(folder.path());
        let end = written.iter().rfind(|record| holds(record, "outcome")).unwrap();
        assert_eq!(end["call_id"], json!(result.metadata.call_id), "the outcome is recorded");
    }
    assert!(layer.execute(request("fine", json!({}), None)).await.success);
    let counts = layer.status().calls;
    assert_eq!((counts.running, counts.done, counts.failed), (0, 1, 2));
}

#[tokio::test]
async fn call_that_has_waited_computes_in_a_slot() {
    let has_run = Arc::new(tokio::sync::Notify::new());
    let woken = Arc::clone(&has_run);
    let bench = LayerBench::new().tool("later", Category::READ_ONLY, move |_| {
        let woken = Arc::clone(&woken);
        Box::pin(async move {
            tokio::task::yield_now().await;
            woken.notify_one();
            Ok(ToolOutput::default())
        })
    });
    let (layer, _folder) = bench.layer();
    let occupied = layer.request_slots().occupy(caller().key());
    let call = tokio::spawn({
        let layer = Arc::clone(&layer);
        async move { layer.execute(request("later", json!({}), None)).await }
    });
    // The tool has a task of its own; the stages after it need a slot.
    has_run.notified().await;
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(!call.is_finished(), "all slots of its caller are taken");
    drop(occupied);
    assert!(call.await.unwrap().success);
}

#[tokio::test]
async fn recording_covers_no_call_of_an_earlier_one() {
    let (layer, folder) = LayerBench::new().layer();
    let (recording, current) = (&layer.current.recording, layer.current.snapshot.load_full());
    recording.begin(folder.path());
    let (_, earlier) = recording.derive(&current).unwrap();
    assert!(recording.covers(&earlier));
    recording.begin(folder.path());
    let (_, later) = recording.derive(&current).unwrap();
    assert!(recording.covers(&later) && !recording.covers(&earlier));
}

#[tokio::test]
async fn timed_out_tool_keeps_its_run_slot_until_it_ends() {
    let gate = TestGate::default();
    let (layer, folder) = LayerBench::new().tool("stuck", Category::SYSTEM_WRITE, blocked_by(&gate)).layer();
    let asked = Instant::now();
    let result = layer.execute(request("stuck", json!({}), None)).await;
    assert_eq!(failure_kind(&result), Some(FailureKind::TimedOut), "{result:?}");
    assert!(asked.elapsed() < Duration::from_secs(20), "the result does not wait for the tool");
    assert_eq!(layer.status().calls.running, 1, "a thread that cannot be stopped still counts");
    let end = records(folder.path()).into_iter().rfind(|record| record["kind"] == "outcome").unwrap();
    assert_eq!(end["outcome"], "unknown", "the effect of a write past its deadline is unknown");
    gate.open();
    while layer.status().calls.running > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn passed_deadline_starts_no_tool() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let bench = LayerBench::new().tool("count", Category::READ_ONLY, move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        ready_output(json!({}))
    });
    let (layer, _folder) = bench.layer();
    let mut late = request("count", json!({}), Some(Duration::from_millis(1)));
    late.started = Instant::now() - Duration::from_secs(1);
    let result = layer.execute(late).await;
    assert!(!result.success, "{result:?}");
    assert_eq!(ran.load(Ordering::Relaxed), 0, "the tool was started");
    let is_reported = failure_kind(&result) == Some(FailureKind::TimedOut)
        || result
            .metadata
            .refusal
            .is_some_and(|refusal| refusal.detail.as_deref() == Some("deadline_passed"));
    assert!(is_reported, "the caller gets the reason");
}

#[tokio::test]
async fn mode_change_reaches_a_queued_call() {
    let gate = TestGate::default();
    let bench = LayerBench::new().tool("slow", Category::READ_ONLY, blocked_by(&gate)).tool(
        "change",
        Category::SYSTEM_WRITE,
        |_| ready_output(json!({})),
    );
    let (layer, _folder) = bench.layer();
    // RECOVERY has 8 run slots and gives one connection 6 of them: all 6 are taken.
    for mode in [Mode::Lockdown, Mode::Recovery] {
        layer.set_mode(mode, "test", &caller(), None).await.unwrap();
    }
    let running: Vec<_> = (0..6)
        .map(|_| {
            let layer = Arc::clone(&layer);
            tokio::spawn(async move { layer.execute(request("slow", json!({}), None)).await })
        })
        .collect();
    while layer.status().calls.running < 6 {
        tokio::task::yield_now().await;
    }
    let waiting = Arc::clone(&layer);
    let waiting = tokio::spawn(async move { waiting.execute(request("slow", json!({}), None)).await });
    while !layer.calls().iter().any(|call| call.standing == CallState::Queued) {
        tokio::task::yield_now().await;
    }
    layer.set_mode(Mode::Lockdown, "test", &caller(), None).await.unwrap();
    gate.open();
    let result = waiting.await.unwrap();
    assert_eq!(result.metadata.mode, Mode::Lockdown, "judged again in the current mode: {result:?}");
    for task in running {
        assert_eq!(task.await.unwrap().metadata.mode, Mode::Recovery, "a running call continues");
    }
    let refused = layer.execute(request("change", json!({}), None)).await;
    assert_eq!(refused.metadata.refusal.unwrap().code, RefusalCode::ModeDenied);
}

#[tokio::test]
async fn oversized_output_is_a_failure_that_names_the_limit() {
    let big = LayerBench::new()
        .tool("big", Category::READ_ONLY, |_| ready_output(json!({"text": "x".repeat(2 << 20)})));
    let (layer, _folder) = big.layer();
    let result = layer.execute(request("big", json!({}), None)).await;
    assert_eq!(failure_kind(&result), Some(FailureKind::TooLarge));
    assert!(result.error.unwrap().contains("1048576"), "the limit is named");
}

#[tokio::test]
async fn draining_refuses_new_calls_and_waits_for_running_ones() {
    let gate = TestGate::default();
    let (layer, _folder) = LayerBench::new().tool("slow", Category::READ_ONLY, blocked_by(&gate)).layer();
    let running = Arc::clone(&layer);
    let running = tokio::spawn(async move { running.execute(request("slow", json!({}), None)).await });
    while layer.status().calls.running == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(layer.drain(Duration::from_millis(20)).await, 1, "the time to drain was up");
    let refused = layer.execute(request("slow", json!({}), None)).await;
    assert_eq!(refused.metadata.refusal.unwrap().code, RefusalCode::ShuttingDown);
    gate.open();
    assert!(running.await.unwrap().success);
    assert_eq!(layer.drain(Duration::from_secs(10)).await, 0);
}
