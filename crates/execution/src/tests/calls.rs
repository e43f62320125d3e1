//! Tests of the list of active calls and of cancellation by operator and caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use registry::{ExecutorFuture, RecordedPermit, ToolExecutor};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tool::{Category, FailureKind, Mode, RefusalCode, ToolResult};

use super::{LayerBench, TestGate, blocked_by, caller, failure_kind, ready_output, records, request};
use crate::{CallState, CancelOutcome, ToolExecutionLayer};

fn start(layer: &Arc<ToolExecutionLayer>, tool: &'static str) -> tokio::task::JoinHandle<ToolResult> {
    let layer = Arc::clone(layer);
    tokio::spawn(async move { layer.execute(request(tool, json!({}), None)).await })
}

async fn wait_for_state(layer: &ToolExecutionLayer, status: &CallState, count: usize) {
    while layer.calls().iter().filter(|call| call.standing == *status).count() < count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn cancelled_running_call_records_who_cancelled_it() {
    let gate = TestGate::default();
    let (layer, folder) = LayerBench::new().tool("slow", Category::SYSTEM_WRITE, blocked_by(&gate)).layer();
    let running = start(&layer, "slow");
    wait_for_state(&layer, &CallState::Running, 1).await;
    let [seen] = layer.calls().try_into().unwrap();
    assert_eq!((seen.tool.as_str(), &seen.caller, seen.cancelled), ("slow", &caller(), false));
    assert_eq!(layer.cancel(seen.call_id).await, CancelOutcome::Ended);
    let result = running.await.unwrap();
    assert_eq!(failure_kind(&result), Some(FailureKind::Cancelled), "{result:?}");
    assert_eq!(result.error.as_deref(), Some("slow was cancelled by the operator"));
    assert_eq!(result.metadata.call_id, seen.call_id);
    let end = records(folder.path()).into_iter().rfind(|record| super::holds(record, "outcome")).unwrap();
    assert_eq!(
        (&end["outcome"], &end["failure"], &end["message"]),
        (&json!("unknown"), &json!("cancelled"), &json!("slow was cancelled by the operator"))
    );
    assert!(layer.calls().is_empty(), "it is no longer listed");
    assert_eq!(layer.cancel(seen.call_id).await, CancelOutcome::NotFound, "it cannot be cancelled twice");
    gate.open();
}

#[tokio::test]
async fn cancelled_queued_call_never_runs() {
    let (gate, ran) = (TestGate::default(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&ran);
    let bench = LayerBench::new().tool("slow", Category::READ_ONLY, blocked_by(&gate)).tool(
        "count",
        Category::READ_ONLY,
        move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            ready_output(json!({}))
        },
    );
    let (layer, folder) = bench.layer();
    // RECOVERY has 8 run slots and gives one connection 6 of them.
    for mode in [Mode::Lockdown, Mode::Recovery] {
        layer.set_mode(mode, "test", &caller(), None).await.unwrap();
    }
    let running: Vec<_> = (0..6).map(|_| start(&layer, "slow")).collect();
    wait_for_state(&layer, &CallState::Running, 6).await;
    let waiting = start(&layer, "count");
    wait_for_state(&layer, &CallState::Queued, 1).await;
    let queued = layer.calls().into_iter().find(|call| call.standing == CallState::Queued).unwrap();
    assert_eq!(layer.cancel(queued.call_id).await, CancelOutcome::Ended);
    let refusal = waiting.await.unwrap().metadata.refusal.unwrap();
    assert_eq!((refusal.code, refusal.retryable), (RefusalCode::Cancelled, false));
    assert_eq!(refusal.reason, "The call was cancelled by the operator");
    gate.open();
    for task in running {
        assert!(task.await.unwrap().success, "other calls are not affected");
    }
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    let last = records(folder.path());
    assert!(last.iter().any(|record| record["code"] == "cancelled"), "{last:?}");
}

#[tokio::test]
async fn caller_can_withdraw_its_call() {
    let gate = TestGate::default();
    let (layer, folder) = LayerBench::new().tool("slow", Category::READ_ONLY, blocked_by(&gate)).layer();
    let (withdrawn, theirs) = (CancellationToken::new(), Arc::clone(&layer));
    let asked = crate::CallRequest { cancellation: withdrawn.clone(), ..request("slow", json!({}), None) };
    let running = tokio::spawn(async move { theirs.execute(asked).await });
    wait_for_state(&layer, &CallState::Running, 1).await;
    withdrawn.cancel();
    let result = running.await.unwrap();
    assert_eq!(result.error.as_deref(), Some("slow was cancelled by its caller"));
    assert_eq!(failure_kind(&result), Some(FailureKind::Cancelled));
    // A call that is withdrawn before it begins does not start.
    let late = crate::CallRequest { cancellation: withdrawn, ..request("slow", json!({}), None) };
    let late = layer.execute(late).await;
    assert!(!late.success && late.error.is_some_and(|error| error.contains("cancelled by its caller")));
    let started = records(folder.path()).iter().filter(|record| super::holds(record, "outcome")).count();
    assert_eq!(started, 2, "both outcomes are recorded");
    gate.open();
}

/// Tool that makes calls for its caller and waits for one of them forever.
struct CallingTool(CancellationToken);

impl ToolExecutor for CallingTool {
    fn makes_inner_calls(&self) -> bool {
        true
    }

    fn run(&self, _order: Arc<RecordedPermit>) -> ExecutorFuture {
        let ended = self.0.clone().drop_guard();
        Box::pin(async move {
            let _ended = ended;
            std::future::pending().await
        })
    }
}

#[tokio::test]
async fn calling_tool_ends_with_its_caller_or_deadline() {
    for leaves in [true, false] {
        let ended = CancellationToken::new();
        let conducts = CallingTool(ended.clone());
        let (layer, _folder) =
            LayerBench::new().tool_with_executor("conductor", Category::READ_ONLY, |_| {}, conducts).layer();
        let mut asked = request("conductor", json!({}), None);
        asked.deadline = (!leaves).then_some(Duration::from_millis(500));
        let running = tokio::spawn({
            let layer = Arc::clone(&layer);
            async move { layer.execute(asked).await }
        });
        if leaves {
            wait_for_state(&layer, &CallState::Running, 1).await;
            running.abort();
        }
        ended.cancelled().await;
    }
}
