//! Tests of worker sessions in the layer: the session id passed to tools, and budgets under concurrency.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tool::{Caller, Category, Mode, RefusalCode, ToolResult};

use super::{LayerBench, TestGate, blocked_by, caller, failure_kind, ready_output, records, request};
use crate::call::PipelineCall;
use crate::{CallRequest, CallState, ToolExecutionLayer, sessions};
use approvals::sessions::SessionTerms;

fn open(layer: &ToolExecutionLayer, allowlist: &[&str], hops: u32) -> String {
    let allowlist = allowlist.iter().map(|name| (*name).to_owned()).collect();
    let terms = SessionTerms { allowlist, hop_budget: Some(hops), ..SessionTerms::default() };
    layer.open_session(terms, &caller()).unwrap().session_id
}

fn worker_request(tool: &str, arguments: Value, session: &str) -> CallRequest {
    let caller = Caller { session: Some(session.to_owned()), ..caller() };
    CallRequest { caller, ..request(tool, arguments, None) }
}

fn code(result: &ToolResult) -> Option<RefusalCode> {
    result.metadata.refusal.as_ref().map(|refusal| refusal.code)
}

/// Tool that stores the arguments it gets.
fn recording_tool(
    handed: &Arc<Mutex<Vec<Value>>>,
) -> impl Fn(Arc<registry::RecordedPermit>) -> registry::ExecutorFuture + use<> {
    let handed = Arc::clone(handed);
    move |recorded_permit| {
        handed.lock().unwrap().push(Value::Object(recorded_permit.value().call().tool_arguments()));
        ready_output(json!({}))
    }
}

#[tokio::test]
async fn tool_gets_only_the_session_id_of_its_caller() {
    let handed = Arc::new(Mutex::new(Vec::new()));
    let bench = LayerBench::new()
        .tool_with_spec(
            "wants",
            Category::READ_ONLY,
            |spec| spec.wants_session = true,
            recording_tool(&handed),
        )
        .tool_with_spec(
            "closed",
            Category::READ_ONLY,
            |spec| {
                spec.wants_session = true;
                spec.input_schema = Some(json!({"type": "object", "additionalProperties": false}));
            },
            recording_tool(&handed),
        )
        .tool("plain", Category::READ_ONLY, recording_tool(&handed));
    let (layer, _folder) = bench.layer();
    let session = open(&layer, &["wants", "closed", "plain"], 9);
    let other = open(&layer, &["wants"], 9);
    for tool in ["wants", "closed"] {
        assert!(
            layer.execute(worker_request(tool, json!({}), &session)).await.success,
            "the argument may be absent"
        );
        assert_eq!(handed.lock().unwrap().pop(), Some(json!({"session_id": session})), "{tool}");
        for forged in [json!(other), json!(session), json!(""), Value::Null, json!(5)] {
            let refused = layer.execute(worker_request(tool, json!({"session_id": forged}), &session)).await;
            assert_eq!(code(&refused), Some(RefusalCode::InvalidArguments), "{tool} {forged}");
            let refusal = refused.metadata.refusal.unwrap();
            assert_eq!(refusal.problems[0].pointer, "/session_id", "{refusal:?}");
            assert!(refusal.schema_error.is_some_and(|error| error.contains("session_id")));
        }
        layer.next_turn(&session).unwrap();
    }
    assert!(handed.lock().unwrap().is_empty(), "a refused call never reaches the tool");
    // Another tool may have an argument of that name and gets it unchanged.
    assert!(layer.execute(worker_request("plain", json!({"session_id": "mine"}), &session)).await.success);
    assert_eq!(handed.lock().unwrap().pop(), Some(json!({"session_id": "mine"})));
    // Outside of a session there is no id to pass, and a caller cannot invent one.
    assert!(layer.execute(request("wants", json!({}), None)).await.success);
    assert_eq!(handed.lock().unwrap().pop(), Some(json!({})));
    let forged = layer.execute(request("wants", json!({"session_id": session}), None)).await;
    assert_eq!(code(&forged), Some(RefusalCode::InvalidArguments));
}

#[tokio::test]
async fn concurrent_calls_cannot_exceed_the_hop_budget() {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let bench = LayerBench::new().tool("count", Category::READ_ONLY, move |_| {
        let counted = Arc::clone(&counted);
        Box::pin(async move {
            tokio::task::yield_now().await;
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(tool::ToolOutput::default())
        })
    });
    let (layer, folder) = bench.layer();
    let session = open(&layer, &["count"], 10);
    let calls = (0..50).map(|_| layer.execute(worker_request("count", json!({}), &session)));
    let ends = futures_util::future::join_all(calls).await;
    assert_eq!(ran.load(Ordering::Relaxed), 10);
    let refused = ends.iter().filter(|end| code(end) == Some(RefusalCode::HopBudgetExhausted)).count();
    assert_eq!(refused, 40);
    assert_eq!(records(folder.path()).iter().filter(|record| super::holds(record, "decision")).count(), 10);
}

#[tokio::test]
async fn call_that_is_judged_again_is_counted_once() {
    let gate = TestGate::default();
    let (layer, _folder) = LayerBench::new().tool("slow", Category::READ_ONLY, blocked_by(&gate)).layer();
    let session = open(&layer, &["slow"], 2);
    // RECOVERY has 8 run slots. Two callers take all of them, so the next call is queued.
    for mode in [Mode::Lockdown, Mode::Recovery] {
        layer.set_mode(mode, "test", &caller(), None).await.unwrap();
    }
    let start = |request: CallRequest| {
        let layer = Arc::clone(&layer);
        tokio::spawn(async move { layer.execute(request).await })
    };
    let request_by = |pid: Option<i32>| {
        let request = request("slow", json!({}), None);
        CallRequest { caller: tool::Caller { pid, ..request.caller.clone() }, ..request }
    };
    let running: Vec<_> =
        [None; 6].into_iter().chain([Some(2); 2]).map(|pid| start(request_by(pid))).collect();
    let status = |wanted: CallState| layer.calls().iter().filter(|call| call.standing == wanted).count();
    while status(CallState::Running) < 8 {
        tokio::task::yield_now().await;
    }
    let waiting = start(worker_request("slow", json!({}), &session));
    while status(CallState::Queued) < 1 {
        tokio::task::yield_now().await;
    }
    layer.set_mode(Mode::Normal, "test", &caller(), None).await.unwrap();
    gate.open();
    let result = waiting.await.unwrap();
    assert_eq!((result.success, result.metadata.mode), (true, Mode::Normal), "judged again: {result:?}");
    assert_eq!(result.metadata.remaining["hops"], 1, "counted once");
    for task in running {
        assert!(task.await.unwrap().success);
    }
}

#[tokio::test]
async fn running_calls_end_with_their_session() {
    let gate = TestGate::default();
    let (layer, folder) = LayerBench::new().tool("slow", Category::READ_ONLY, blocked_by(&gate)).layer();
    let (session, other) = (open(&layer, &["slow"], 2), open(&layer, &["slow"], 2));
    let start = |session: &str| {
        let (layer, request) = (Arc::clone(&layer), worker_request("slow", json!({}), session));
        tokio::spawn(async move { layer.execute(request).await })
    };
    let (its, others) = (start(&session), start(&other));
    while layer.calls().iter().filter(|call| call.standing == CallState::Running).count() < 2 {
        tokio::task::yield_now().await;
    }
    layer.close_session(&session, "test").unwrap();
    let ended = its.await.unwrap();
    assert_eq!(failure_kind(&ended), Some(tool::FailureKind::Cancelled), "{ended:?}");
    assert_eq!(ended.error.as_deref(), Some("slow was cancelled because its session was closed"));
    let late = layer.execute(worker_request("slow", json!({}), &session)).await;
    let refusal = late.metadata.refusal.unwrap();
    assert_eq!((refusal.code, refusal.detail.as_deref()), (RefusalCode::Conflict, Some("session_closed")));
    assert!(!refusal.retryable);
    gate.open();
    assert!(others.await.unwrap().success, "another session is not affected");
    let on_record: Vec<Value> =
        records(folder.path()).into_iter().filter(|record| record["id"] == session).collect();
    assert_eq!(on_record.iter().map(|record| &record["event"]).collect::<Vec<_>>(), ["opened", "closed"]);
    assert_eq!(on_record[1]["data"]["hops"], 1);
}

#[tokio::test]
async fn unlisted_call_also_ends_with_its_session() {
    type Close = Box<dyn FnOnce() + Send>;
    let close: Arc<Mutex<Option<Close>>> = Arc::default();
    let closing = Arc::clone(&close);
    let bench = LayerBench::new().tool("slow", Category::READ_ONLY, move |_| {
        let close = closing.lock().unwrap().take();
        Box::pin(async move {
            // A tool is polled once before its call is in the list of calls.
            close.into_iter().for_each(|close| close());
            std::future::pending().await
        })
    });
    let (layer, _folder) = bench.layer();
    let session = open(&layer, &["slow"], 2);
    let (closer, id) = (Arc::clone(&layer), session.clone());
    *close.lock().unwrap() = Some(Box::new(move || closer.close_session(&id, "test").unwrap()));
    let ended = layer.execute(worker_request("slow", json!({}), &session)).await;
    assert_eq!(
        ended.error.as_deref(),
        Some("slow was cancelled because its session was closed"),
        "{ended:?}"
    );
}

#[tokio::test]
async fn tool_without_a_schema_accepts_any_arguments() {
    let bench = LayerBench::new().tool_with_spec(
        "free",
        Category::READ_ONLY,
        |spec| (spec.input_schema, spec.parameters) = (Some(json!({"type": "object"})), Vec::new()),
        |_| ready_output(json!({})),
    );
    let (layer, _folder) = bench.layer();
    let session = open(&layer, &["free"], 9);
    for arguments in [json!({}), Value::Null, json!({"a": [1, {"b": null}]})] {
        assert!(
            layer.execute(worker_request("free", arguments.clone(), &session)).await.success,
            "{arguments}"
        );
    }
}

#[tokio::test]
async fn allowlist_is_checked_on_every_pass() {
    let bench = || LayerBench::new().tool("one", Category::READ_ONLY, |_| ready_output(json!({})));
    let (layer, _folder) = bench().layer();
    let session = open(&layer, &["one"], 9);
    let snapshot = layer.current.snapshot.load_full();
    let request = worker_request("one", json!({}), &session);
    let (call, _) = PipelineCall::receive(request, &layer.recorder.ledger, snapshot, layer.mode());
    assert!(sessions::admit(&layer.sessions, &call).is_ok());
    // A reload between two passes has removed the tool.
    let (other, _folder) =
        LayerBench::new().tool("two", Category::READ_ONLY, |_| ready_output(json!({}))).layer();
    let call = call.with_snapshot(other.current.snapshot.load_full(), layer.mode(), None);
    let refused = sessions::admit(&layer.sessions, &call).unwrap_err();
    assert_eq!(refused.code, RefusalCode::NotInAllowlist, "{refused:?}");
}
