//! Tests of idempotency keys: a call runs once, however and whenever it is repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use registry::ToolRegistry;
use serde_json::{Value, json};
use tool::{Caller, Category, FailureKind, RefusalCode, ToolOutput, ToolResult, ToolSpec};

use super::{FnTool, LayerBench, TestGate, blocked_by, caller, failure_kind, records, request};
use crate::{CallRequest, CallState, ToolExecutionLayer};

fn keyed_request(tool: &str, arguments: Value, key: &str) -> CallRequest {
    CallRequest { idempotency_key: Some(key.to_owned()), ..request(tool, arguments, None) }
}

fn with_caller(request: CallRequest, change: impl FnOnce(&mut Caller)) -> CallRequest {
    let mut caller = caller();
    change(&mut caller);
    CallRequest { caller, ..request }
}

/// Creates a layer in this directory with tools that count their runs.
fn layer_in(folder: &std::path::Path, ran: &Arc<AtomicUsize>) -> Arc<ToolExecutionLayer> {
    let mut registry = ToolRegistry::new();
    for (name, category) in [("change", Category::SYSTEM_WRITE), ("look", Category::READ_ONLY)] {
        let mut spec = ToolSpec::new(name, "A test tool", category, tool::RiskLevel::Low);
        spec.input_schema = Some(json!({"type": "object"}));
        let ran = Arc::clone(ran);
        let body = move |recorded_permit: Arc<registry::RecordedPermit>| -> registry::ExecutorFuture {
            let (ran, fails) =
                (Arc::clone(&ran), recorded_permit.value().call().arguments().contains_key("fail"));
            Box::pin(async move {
                tokio::task::yield_now().await;
                ran.fetch_add(1, Ordering::Relaxed);
                match fails {
                    true => Err(tool::Failure::new(FailureKind::NotFound, "nothing is there")),
                    false => Ok(ToolOutput { files_touched: vec!["/a".to_owned()], ..ToolOutput::default() }),
                }
            })
        };
        registry.register(spec.check().unwrap(), Arc::new(FnTool(body))).unwrap();
    }
    LayerBench::layer_in(folder, registry)
}

fn repeated_call_id(result: &ToolResult) -> Option<tool::CallId> {
    result.metadata.repeat.as_ref().map(|repeat| repeat.of)
}

#[tokio::test]
async fn repeat_returns_the_recorded_outcome_without_a_run() {
    let (folder, ran) = (tempfile::tempdir().unwrap(), Arc::new(AtomicUsize::new(0)));
    let layer = layer_in(folder.path(), &ran);
    for tool in ["change", "look"] {
        ran.store(0, Ordering::Relaxed);
        let first = layer.execute(keyed_request(tool, json!({"n": 1}), tool)).await;
        assert_eq!((first.success, repeated_call_id(&first)), (true, None), "{first:?}");
        let again = layer.execute(keyed_request(tool, json!({"n": 1}), tool)).await;
        assert_eq!(
            (again.success, repeated_call_id(&again)),
            (true, Some(first.metadata.call_id)),
            "{again:?}"
        );
        assert!(again.metadata.cached && again.metadata.recorded);
        assert_eq!(again.metadata.files_touched, first.metadata.files_touched);
        assert!(again.metadata.repeat.unwrap().output_digest.is_some());
        let other = layer.execute(keyed_request(tool, json!({"n": 2}), tool)).await.metadata.refusal.unwrap();
        assert_eq!((other.code, other.detail.as_deref()), (RefusalCode::Conflict, Some("duplicate_id")));
        assert_eq!(ran.load(Ordering::Relaxed), 1, "{tool}");
    }
    let other =
        layer.execute(keyed_request("look", json!({"n": 1}), "change")).await.metadata.refusal.unwrap();
    assert_eq!(other.code, RefusalCode::Conflict, "another tool is another call");
    let failed = layer.execute(keyed_request("change", json!({"fail": 1}), "f")).await;
    let again = layer.execute(keyed_request("change", json!({"fail": 1}), "f")).await;
    assert_eq!(
        (failure_kind(&again), &again.error),
        (failure_kind(&failed), &failed.error),
        "a failure is an outcome too"
    );
    assert_eq!(repeated_call_id(&again), Some(failed.metadata.call_id));
    // Without a key every call is a new one.
    ran.store(0, Ordering::Relaxed);
    for _ in 0..3 {
        assert!(layer.execute(request("change", json!({"n": 1}), None)).await.success);
    }
    assert_eq!(ran.load(Ordering::Relaxed), 3);
    let text = format!("{:?}", records(folder.path()));
    assert!(!text.contains("idempotency_key\": String(\"change\")"), "a key may be a secret");
}

#[tokio::test]
async fn key_is_scoped_to_its_caller() {
    let (folder, ran) = (tempfile::tempdir().unwrap(), Arc::new(AtomicUsize::new(0)));
    let layer = layer_in(folder.path(), &ran);
    let call = || keyed_request("change", json!({}), "k");
    for (run, request) in [
        (1, call()),
        (1, with_caller(call(), |caller| caller.connection = 9)),
        (2, with_caller(call(), |caller| caller.uid = 9)),
        (3, with_caller(call(), |caller| caller.client = Some("Marvin".to_owned()))),
        (4, keyed_request("change", json!({}), "K")),
    ] {
        assert!(layer.execute(request).await.success);
        assert_eq!(ran.load(Ordering::Relaxed), run);
    }
}

#[tokio::test]
async fn hundred_concurrent_repeats_run_once() {
    let (folder, ran) = (tempfile::tempdir().unwrap(), Arc::new(AtomicUsize::new(0)));
    let layer = layer_in(folder.path(), &ran);
    let calls = (0..100).map(|connection| {
        let request =
            with_caller(keyed_request("change", json!({}), "k"), |caller| caller.connection = connection);
        let layer = Arc::clone(&layer);
        tokio::spawn(async move { layer.execute(request).await })
    });
    let ends = futures_util::future::join_all(calls).await;
    let ends: Vec<ToolResult> = ends.into_iter().map(Result::unwrap).collect();
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    assert!(ends.iter().all(|end| end.success));
    let original: Vec<_> = ends.iter().filter(|end| end.metadata.repeat.is_none()).collect();
    assert_eq!(original.len(), 1);
    let of = Some(original[0].metadata.call_id);
    assert_eq!(
        ends.iter().filter(|end| repeated_call_id(end) == of).count(),
        99,
        "all repeats refer to the one that ran"
    );
    assert!(layer.calls().is_empty());
}

#[tokio::test]
async fn keys_survive_a_restart() {
    let (folder, ran) = (tempfile::tempdir().unwrap(), Arc::new(AtomicUsize::new(0)));
    let first = layer_in(folder.path(), &ran);
    let ended = first.execute(keyed_request("change", json!({}), "k")).await;
    first.close("test");
    drop(first);
    let second = layer_in(folder.path(), &ran);
    let again = second.execute(keyed_request("change", json!({}), "k")).await;
    assert_eq!((repeated_call_id(&again), ran.load(Ordering::Relaxed)), (Some(ended.metadata.call_id), 1));
}

#[tokio::test]
async fn call_that_never_started_does_not_use_its_key() {
    let gate = TestGate::default();
    let bench = LayerBench::new().tool("slow", Category::SYSTEM_WRITE, blocked_by(&gate));
    let (layer, _folder) = bench.layer();
    let malformed = layer.execute(keyed_request("slow", json!([]), "k")).await;
    assert_eq!(malformed.metadata.refusal.unwrap().code, RefusalCode::InvalidArguments);
    // A repeat waits for the running call until its own deadline.
    let running = Arc::clone(&layer);
    let running = tokio::spawn(async move { running.execute(keyed_request("slow", json!({}), "k")).await });
    while !layer.calls().iter().any(|call| call.standing == CallState::Running) {
        tokio::task::yield_now().await;
    }
    let hasty =
        CallRequest { deadline: Some(Duration::from_millis(30)), ..keyed_request("slow", json!({}), "k") };
    let refusal = layer.execute(hasty).await.metadata.refusal.unwrap();
    assert_eq!((refusal.code, refusal.detail.as_deref()), (RefusalCode::Busy, Some("deadline_passed")));
    gate.open();
    assert!(running.await.unwrap().success);
    assert!(layer.execute(keyed_request("slow", json!({}), "k")).await.metadata.repeat.is_some());
}
