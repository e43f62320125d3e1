//! Tests of the guardrail in the pipeline: refusals, offered repairs, and advice after failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tool::refusal::Repair;
use tool::{Category, Failure, FailureKind, Mode, RefusalCode, RiskLevel, ToolSpec};

use super::{FnTool, LayerBench, caller, ready_output, records, request};
use crate::ToolExecutionLayer;
use approvals::sessions::SessionTerms;

/// Layer with two tools that take a path and a content, and a counter of their runs.
fn bench() -> (Arc<ToolExecutionLayer>, tempfile::TempDir, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let mut bench = LayerBench::new();
    for (name, category) in [("put", Category::SYSTEM_WRITE), ("get", Category::READ_ONLY)] {
        let mut spec = ToolSpec::new(name, "A test tool", category, RiskLevel::Low);
        spec.rate_limit_per_hour = Some(2);
        spec.input_schema =
            Some(json!({"type": "object", "additionalProperties": false, "required": ["path"],
            "properties": {"path": {"type": "string", "format": "path"}, "content": {"type": "string"},
                "size": {"type": "integer", "default": 1}}}));
        let counted = Arc::clone(&ran);
        let body = move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            ready_output(json!({}))
        };
        bench.registry.register(spec.check().unwrap(), Arc::new(FnTool(body))).unwrap();
    }
    let (layer, folder) = bench.layer();
    (layer, folder, ran)
}

async fn repair(layer: &Arc<ToolExecutionLayer>, tool: &str, arguments: Value) -> Option<Repair> {
    let refusal = layer.execute(request(tool, arguments, None)).await.metadata.refusal.expect("a refusal");
    assert_eq!(refusal.code, RefusalCode::InvalidArguments, "{refusal:?}");
    assert_eq!(refusal.repair.is_some(), refusal.hint.as_ref().unwrap().ends_with("; `repair` is accepted"));
    refusal.repair
}

#[tokio::test]
async fn repair_is_offered_verified_and_never_run() {
    let (layer, folder, ran) = bench();
    let offered =
        repair(&layer, "put", json!({"file_path": "a.txt", "content": "x", "size": "3"})).await.unwrap();
    assert_eq!(Value::Object(offered.arguments.clone()), json!({"path": "a.txt", "content": "x", "size": 3}));
    assert_eq!(offered.note, "rename `file_path` to `path`; send /size as number, not as text");
    assert_eq!(ran.load(Ordering::Relaxed), 0, "a repair is not run");
    let written = records(folder.path());
    let kinds: Vec<&Value> =
        written.iter().map(|record| &record["kind"]).filter(|kind| *kind != "checkpoint").collect();
    assert_eq!(kinds, ["refusal"], "only the refusal is recorded");
    assert!(
        layer.execute(request("put", Value::Object(offered.arguments), None)).await.success,
        "it is accepted"
    );
}

#[tokio::test]
async fn repairs_use_no_rate_limit() {
    let (layer, _folder, ran) = bench();
    for _ in 0..5 {
        assert!(repair(&layer, "put", json!({"file_path": "a.txt"})).await.is_some());
    }
    for _ in 0..2 {
        assert!(layer.execute(request("put", json!({"path": "a.txt"}), None)).await.success);
    }
    assert_eq!(ran.load(Ordering::Relaxed), 2, "both calls of the hour were available");
    assert!(repair(&layer, "put", json!({"file_path": "a.txt"})).await.is_none(), "now it would be refused");
}

#[tokio::test]
async fn forbidden_path_has_no_repair_whether_it_exists_or_not() {
    let (layer, folder, _) = bench();
    std::fs::write(folder.path().join(".env"), "SECRET=1").unwrap();
    std::fs::create_dir(folder.path().join(".git")).unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("there"), "x").unwrap();
    for path in [".git/config", ".git/hooks/pre-commit"] {
        assert_eq!(repair(&layer, "put", json!({"file_path": path})).await, None, "{path}");
    }
    for path in [".env", ".env.missing"] {
        assert_eq!(repair(&layer, "get", json!({"file_path": path})).await, None, "{path}");
    }
    for name in ["there", "not-there"] {
        let path = outside.path().join(name);
        for tool in ["put", "get"] {
            assert_eq!(repair(&layer, tool, json!({"file_path": path})).await, None, "{tool} {name}");
        }
    }
    assert!(repair(&layer, "get", json!({"file_path": "missing.txt"})).await.is_some());
}

#[tokio::test]
async fn repair_is_offered_only_for_a_permitted_call() {
    let (layer, _folder, _) = bench();
    let call = json!({"file_path": "a.txt"});
    layer.set_mode(Mode::Alert, "test", &caller(), None).await.unwrap();
    assert_eq!(repair(&layer, "put", call.clone()).await, None, "approval would be required");
    assert!(repair(&layer, "get", call.clone()).await.is_some());
    layer.set_mode(Mode::Lockdown, "test", &caller(), None).await.unwrap();
    assert_eq!(repair(&layer, "put", call).await, None, "it would be denied");
    let secret = json!({"file_path": "a.txt", "content": "-----BEGIN RSA PRIVATE KEY-----"});
    for mode in [Mode::Recovery, Mode::Normal] {
        layer.set_mode(mode, "test", &caller(), None).await.unwrap();
    }
    assert_eq!(repair(&layer, "put", secret).await, None, "a secret is refused and not echoed");
}

#[tokio::test]
async fn explaining_a_call_offers_the_same_repair() {
    let (layer, _folder, _) = bench();
    let explained = layer
        .explain(
            request("put", json!({"file_path": "a.txt"}), None),
            None,
            crate::ExplanationAudience::Caller,
        )
        .await;
    let refusal = explained.finding.refusal().cloned().unwrap();
    let executed = layer.execute(request("put", json!({"file_path": "a.txt"}), None)).await;
    assert_eq!(refusal.repair, executed.metadata.refusal.unwrap().repair);
    assert!(refusal.repair.is_some());
}

#[tokio::test]
async fn arguments_in_a_tool_name_are_refused_with_the_name() {
    let (layer, folder, ran) = bench();
    for name in [
        "put<arg_key>path</arg_key>",
        "put{\"path\": \"hunter2\"}",
        "put(path='hunter2')",
        "<tool>put</tool>",
        "<function=put><parameter=path>hunter2",
    ] {
        let result = layer.execute(request(name, json!({}), None)).await;
        let refusal = result.metadata.refusal.unwrap();
        assert_eq!(
            (refusal.code, refusal.detail.as_deref()),
            (RefusalCode::UnknownTool, Some("malformed_name"))
        );
        assert!(refusal.hint.as_ref().unwrap().contains("send `put` alone"), "{refusal:?}");
        assert!(refusal.example.is_some(), "{refusal:?}");
        assert!(!format!("{refusal:?}").contains("hunter2"), "the attached text is not echoed: {refusal:?}");
    }
    let near = layer.execute(request("putt[1]", json!({}), None)).await.metadata.refusal.unwrap();
    assert!(near.hint.unwrap().contains("send `put` alone"));
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    assert!(!records(folder.path()).iter().any(|record| record.to_string().contains("hunter2")));
}

#[tokio::test]
async fn tool_names_of_other_hosts_get_a_hint() {
    let (layer, _folder, _) = bench();
    let refusal = |name: &'static str, arguments: Value| {
        let layer = Arc::clone(&layer);
        async move { layer.execute(request(name, arguments, None)).await.metadata.refusal.unwrap() }
    };
    let malformed = refusal("mcp__local_toolkit__write_local_file", json!({"path": "a"})).await;
    assert_eq!(malformed.code, RefusalCode::InvalidArguments);
    assert!(malformed.schema_error.is_some() && malformed.example.is_some(), "{malformed:?}");
    let whole = refusal("write_local_file", json!({"path": "a", "content": "long enough"})).await;
    assert_eq!((whole.code, whole.detail.as_deref()), (RefusalCode::UnknownTool, Some("deprecated_tool")));
    assert_eq!(whole.reason, "Tool write_local_file not found");
    assert!(whole.hint.unwrap().contains("use write_file") && whole.example.is_some());
    assert_eq!(whole.schema_error, None, "its arguments are valid");
    let prefixed = refusal("mcp__sinew__get", json!({"path": "a"})).await;
    assert_eq!(
        (prefixed.code, prefixed.hint.as_deref()),
        (RefusalCode::UnknownTool, Some("did you mean `get`?"))
    );
    let other = refusal("overwrite", json!({})).await;
    assert_eq!(other.code, RefusalCode::UnknownTool, "partial names do not match: {other:?}");
}

/// Schema of a tool with one required argument.
fn subject_schema() -> Value {
    json!({"type": "object", "required": ["subject"], "properties": {"subject": {"type": "string"}}})
}

#[tokio::test]
async fn advice_follows_only_failures_about_arguments() {
    let fails = |kind, message: &'static str| {
        move |_| -> registry::ExecutorFuture { Box::pin(async move { Err(Failure::new(kind, message)) }) }
    };
    let bench = LayerBench::new()
        .tool_with_spec(
            "complains",
            Category::READ_ONLY,
            |spec| spec.input_schema = Some(subject_schema()),
            fails(FailureKind::Io, "1 validation error: subject Field required"),
        )
        .tool("bare", Category::READ_ONLY, fails(FailureKind::Io, "validation error: field required"))
        .tool("breaks", Category::READ_ONLY, fails(FailureKind::Io, "connection refused"))
        .tool("fine", Category::READ_ONLY, |_| {
            ready_output(json!({"text": "validation error: field required"}))
        });
    let (layer, folder) = bench.layer();
    let hint = |tool: &'static str| {
        let layer = Arc::clone(&layer);
        let arguments = if tool == "complains" { json!({"subject": "x"}) } else { json!({}) };
        async move { layer.execute(request(tool, arguments, None)).await.metadata.failure.and_then(|f| f.hint) }
    };
    assert_eq!(hint("complains").await.as_deref(), Some("Example: {\"subject\":\"…\"}"));
    assert_eq!(hint("bare").await, None, "an empty example is no advice");
    assert_eq!(hint("breaks").await, None);
    assert_eq!(hint("fine").await, None);
    let failed = records(folder.path()).into_iter().find(|record| record["outcome"] == "failed").unwrap();
    assert!(!failed.to_string().contains("Example"), "the ledger has only the failure of the tool");
}

#[tokio::test]
async fn nested_calls_are_checked_against_their_tools() {
    let mut spec = ToolSpec::new("plan", "Calls others", Category::READ_ONLY, RiskLevel::Low);
    spec.input_schema = Some(json!({"type": "object", "required": ["steps"], "properties": {
        "steps": {"type": "array", "format": "calls"}}}));
    let mut bench = LayerBench::new();
    let mut inner = ToolSpec::new("inner", "Is called", Category::READ_ONLY, RiskLevel::Low);
    inner.input_schema =
        Some(json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}));
    for spec in [spec, inner] {
        bench
            .registry
            .register(spec.check().unwrap(), Arc::new(FnTool(|_| ready_output(json!({})))))
            .unwrap();
    }
    let (layer, _folder) = bench.layer();
    let plan = |n: Value| json!({"steps": [{"tool_slug": "INNER", "arguments": {"n": n}}]});
    let refused = layer.execute(request("plan", plan(json!("x")), None)).await.metadata.refusal.unwrap();
    assert_eq!(refused.problems[0].pointer, "/steps/0/arguments/n");
    assert!(layer.execute(request("plan", plan(json!(1)), None)).await.success);
}

/// Collects the events of a call up to and including `last`.
async fn events_of(
    watch: &mut telemetry::EventSubscription,
    call: tool::CallId,
    last: &str,
) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    loop {
        let telemetry::FeedItem::Event(event) = watch.next().await else { panic!("events were missed") };
        let record = Value::clone(&event.record);
        if record["call_id"] == json!(call) {
            events.push((event.event.to_owned(), record));
            if event.event == last {
                return events;
            }
        }
    }
}

#[tokio::test]
async fn worker_mistakes_and_advice_emit_one_event_each() {
    let log = tempfile::tempdir().unwrap();
    let target = telemetry::LogTarget::Directory(log.path().to_owned());
    let _guard = telemetry::init(&telemetry::TelemetrySettings::default(), &target).unwrap();
    let secret = "sk-proj-abcdefghijklmnopqrstuvwxyz012345";
    let long = format!("validation error for {secret}: {}", "field required ".repeat(50));
    let complains = move |_| -> registry::ExecutorFuture {
        let message = long.clone();
        Box::pin(async move { Err(Failure::new(FailureKind::Io, message)) })
    };
    let mut bench = LayerBench::new().tool_with_spec(
        "complains",
        Category::READ_ONLY,
        |spec| spec.input_schema = Some(subject_schema()),
        complains,
    );
    let mut fetch = ToolSpec::new("fetch", "Fetches", Category::READ_ONLY, RiskLevel::Low);
    fetch.input_schema =
        Some(json!({"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}}}));
    bench.registry.register(fetch.check().unwrap(), Arc::new(FnTool(|_| ready_output(json!({}))))).unwrap();
    let (layer, _folder) = bench.layer();
    let terms = SessionTerms { allowlist: vec!["fetch".to_owned()], ..SessionTerms::default() };
    let session = layer.open_session(terms, &caller()).unwrap().session_id;
    let session = session.as_str();
    let mut watch = telemetry::subscribe();
    let mut run = async |tool: &str, session: Option<&str>, last: &str| {
        let arguments = if tool == "complains" { json!({"subject": "x"}) } else { json!({}) };
        let mut request = request(tool, arguments, None);
        request.caller.session = session.map(str::to_owned);
        let result = layer.execute(request).await;
        events_of(&mut watch, result.metadata.call_id, last).await
    };
    let names = |events: &[(String, Value)]| events.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();

    let worker = run("fetch", Some(session), "worker_inner_validation_fail").await;
    let all = ["worker_inner_call", "tool_validation_failed", "worker_inner_validation_fail"];
    assert_eq!(names(&worker), all);
    for (_, record) in worker.iter().skip(1) {
        assert_eq!((&record["tool"], &record["missing"]), (&json!("fetch"), &json!(["url"])), "{record}");
        assert_eq!(record["session"], session);
    }
    assert_eq!(names(&run("fetch", None, "tool_validation_failed").await), ["tool_validation_failed"]);
    let off_the_list = run("not_there", Some(session), "tool_call_blocked").await;
    assert_eq!(names(&off_the_list), ["worker_inner_call", "tool_call_blocked"]);

    let nudged = run("complains", None, "tool_call_failed").await;
    assert_eq!(names(&nudged), ["tool_call_started", "tool_validation_nudge", "tool_call_failed"]);
    let error = nudged[1].1["error"].as_str().unwrap();
    assert_eq!(error.chars().count(), 200, "{error}");
    assert!(error.starts_with("validation error for ") && !error.contains("sk-proj"), "{error}");
    assert_eq!(
        names(&run("fetch", None, "tool_validation_failed").await),
        ["tool_validation_failed"],
        "no event is late"
    );
}
