//! Export of all three signals to a real collector on a loopback port, and to one that does not respond.

mod receiver;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::common::v1::{KeyValue as Pair, any_value::Value as Any};
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric::Data, number_data_point};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};
use tool::result::{Truncation, TruncationUnit};
use tool::{CallId, FailureKind, Mode, RefusalCode, RuleRef, ToolName, TraceContext};

use super::*;
use crate::event::set_content_capture;
use crate::init::build_subscriber;
use crate::settings::{OtlpSettings, Sampler, TelemetrySettings};
use crate::{
    ApprovalDecision, CallContext, CallOutcome, CallSpan, LogTarget, SpanNote, Stage, TelemetryEvent,
    TelemetryGuard, emit, metrics,
};
use receiver::{CollectorBehaviour, ReceivedExports, TestCollector};

/// The pipelines are global to the process, so these tests run one at a time even if they share a process.
static EXCLUSIVE: Mutex<()> = Mutex::new(());

fn lock_exclusive() -> MutexGuard<'static, ()> {
    EXCLUSIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` with all signals exported.
fn run_exporting(otlp: OtlpSettings, work: impl FnOnce(&TelemetryGuard)) -> TelemetryGuard {
    let settings = TelemetrySettings { otlp, ..TelemetrySettings::default() };
    let home = tempfile::tempdir().unwrap();
    let configuration = resolve(&settings.otlp, &|_| None).unwrap().unwrap();
    let target = LogTarget::Directory(home.path().to_owned());
    let (subscriber, guard) = build_subscriber(&settings, &target, Some(&configuration)).unwrap();
    guard.install_exports();
    tracing::subscriber::with_default(subscriber, || work(&guard));
    guard
}

fn settings_for(receiver: &TestCollector) -> OtlpSettings {
    OtlpSettings { endpoint: Some(receiver.endpoint.clone()), ..OtlpSettings::default() }
}

fn attributes(pairs: &[Pair]) -> BTreeMap<String, Value> {
    let plain = |value: &Any| match value {
        Any::StringValue(text) => json!(text),
        Any::IntValue(number) => json!(number),
        Any::DoubleValue(number) => json!(number),
        Any::BoolValue(flag) => json!(flag),
        other => json!(format!("{other:?}")),
    };
    let value = |pair: &Pair| plain(pair.value.as_ref().unwrap().value.as_ref().unwrap());
    pairs.iter().map(|pair| (pair.key.clone(), value(pair))).collect()
}

fn hex(bytes: &[u8]) -> String {
    tool::canonical::hex(bytes)
}

fn spans(taken: &ReceivedExports) -> Vec<Span> {
    let resources = taken.traces.iter().flat_map(|request| &request.resource_spans);
    resources.flat_map(|resource| &resource.scope_spans).flat_map(|scope| scope.spans.clone()).collect()
}

fn metric<'a>(taken: &'a ReceivedExports, name: &str) -> &'a Metric {
    let resources = taken.metrics.iter().flat_map(|request| &request.resource_metrics);
    let mut all = resources.flat_map(|resource| &resource.scope_metrics).flat_map(|scope| &scope.metrics);
    all.find(|metric| metric.name == name).unwrap_or_else(|| panic!("no metric {name}"))
}

/// Returns the points of a metric: labels and value (the count, for a histogram).
fn points(metric: &Metric) -> Vec<(BTreeMap<String, Value>, f64)> {
    let number = |value: &Option<number_data_point::Value>| match value.unwrap() {
        number_data_point::Value::AsInt(number) => number as f64,
        number_data_point::Value::AsDouble(number) => number,
    };
    match metric.data.as_ref().unwrap() {
        Data::Sum(sum) => sum
            .data_points
            .iter()
            .map(|point| (attributes(&point.attributes), number(&point.value)))
            .collect(),
        Data::Gauge(gauge) => gauge
            .data_points
            .iter()
            .map(|point| (attributes(&point.attributes), number(&point.value)))
            .collect(),
        Data::Histogram(histogram) => histogram
            .data_points
            .iter()
            .map(|point| (attributes(&point.attributes), point.count as f64))
            .collect(),
        other => panic!("unexpected {other:?}"),
    }
}

const SECRET: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";

#[test]
fn call_is_exported_as_a_span_with_its_stages() {
    let _alone = lock_exclusive();
    let receiver = TestCollector::start(CollectorBehaviour::Accepting);
    let trace = TraceContext::from_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let session = format!("s {SECRET}");
    let call = CallContext {
        tool: "write_file",
        call_id: CallId::fresh(),
        trace: &trace,
        mode: Mode::Normal,
        session: Some(&session),
    };
    let mut otlp = settings_for(&receiver);
    otlp.headers.insert("x-api-key".to_owned(), "a%20b".to_owned());
    otlp.resource_attributes.insert("team".to_owned(), "tools".to_owned());
    let mut timings = Vec::new();
    let guard = run_exporting(otlp, |_| {
        let span = CallSpan::start(&call);
        drop(span.stage(Stage::Check));
        drop(span.stage(Stage::Judge));
        {
            let _run = span.stage(Stage::Run);
            drop(span.stage(Stage::Confine));
        }
        span.add_note(SpanNote::Mode(Mode::Alert));
        span.add_note(SpanNote::Decision("permit"));
        span.add_note(SpanNote::Rule(&RuleRef { file: "tools.yaml".into(), line: 3, id: "w".into() }));
        span.add_note(SpanNote::Arguments(&json!({"content": "the content"})));
        timings = span.end(CallOutcome::Failed(FailureKind::TimedOut));
    });
    assert_eq!(guard.export_health().len(), 3);
    assert_eq!(guard.shutdown(Duration::from_secs(20)), FlushOutcome::Complete);

    let taken = receiver.received.lock().unwrap();
    let spans = spans(&taken);
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["check", "judge", "confine", "run", "execute_tool write_file"]);
    let (root, children) = spans.split_last().unwrap();
    assert_eq!(
        (hex(&root.trace_id), hex(&root.span_id)),
        (trace.trace_id.to_string(), trace.span_id.to_string())
    );
    assert_eq!(hex(&root.parent_span_id), "00f067aa0ba902b7");
    assert_eq!(root.kind, 1, "INTERNAL");
    assert_eq!(root.status.as_ref().unwrap().code, 2, "ERROR");
    let found = attributes(&root.attributes);
    let expected = BTreeMap::from([
        ("gen_ai.operation.name".to_owned(), json!("execute_tool")),
        ("gen_ai.tool.name".to_owned(), json!("write_file")),
        ("gen_ai.tool.type".to_owned(), json!("function")),
        ("gen_ai.tool.call.id".to_owned(), json!(call.call_id)),
        ("sinew.mode".to_owned(), json!("ALERT")),
        ("sinew.outcome".to_owned(), json!("failed")),
        ("sinew.session".to_owned(), json!("s [redacted:github_token]")),
        ("sinew.policy.decision".to_owned(), json!("permit")),
        ("sinew.policy.rule".to_owned(), json!("tools.yaml:3 w")),
        ("error.type".to_owned(), json!("timed_out")),
    ]);
    assert_eq!(found, expected);
    for (child, timing) in children.iter().zip(&timings) {
        assert_eq!(hex(&child.trace_id), trace.trace_id);
        assert_eq!(hex(&child.parent_span_id), trace.span_id);
        assert_eq!(
            attributes(&child.attributes),
            BTreeMap::from([("sinew.stage".to_owned(), json!(timing.stage))])
        );
        let micros = (child.end_time_unix_nano - child.start_time_unix_nano) / 1000;
        assert_eq!(micros, timing.duration_us);
        assert!(child.start_time_unix_nano >= root.start_time_unix_nano);
        assert!(child.end_time_unix_nano <= root.end_time_unix_nano);
    }
    let resource = &taken.traces[0].resource_spans[0];
    let described = attributes(&resource.resource.as_ref().unwrap().attributes);
    assert_eq!((&described["service.name"], &described["team"]), (&json!("sinew"), &json!("tools")));
    assert_eq!(resource.scope_spans[0].schema_url, SCHEMA_URL);
    assert!(taken.headers.contains(&"x-api-key: a%20b".to_owned()), "{:?}", taken.headers);
    let bytes = String::from_utf8_lossy(&taken.bytes).into_owned();
    assert!(!bytes.contains(SECRET) && !bytes.contains("the content"));
}

/// Records every metric at least once.
fn record_one_of_each() {
    let trace = TraceContext::root();
    let call = |tool| CallContext {
        tool,
        call_id: CallId::fresh(),
        trace: &trace,
        mode: Mode::Normal,
        session: None,
    };
    let tool = ToolName::new("read_file").unwrap();
    CallSpan::start(&call("read_file")).end(CallOutcome::Done);
    CallSpan::start(&call("read_file")).end(CallOutcome::Done);
    CallSpan::start(&call("any name / at all")).end(CallOutcome::Refused(RefusalCode::UnknownTool));
    drop(CallSpan::start(&call("read_file")));
    metrics::record_decision(Mode::Lockdown, "deny");
    metrics::record_approval(ApprovalDecision::TimedOut, Duration::from_secs(300));
    for (unit, total) in
        [(TruncationUnit::Bytes, 1024), (TruncationUnit::Entries, 515), (TruncationUnit::Bytes, 600)]
    {
        let cut = Truncation { unit, total, returned: 512, how_to_continue: String::new() };
        metrics::record_truncation(&tool, &cut);
    }
    let operation = metrics::RequestOperation {
        method: "tools/call",
        tool: Some(&tool),
        protocol_version: Some("2026-07-28"),
        error_type: Some("tool_error"),
    };
    metrics::record_operation(&operation, Duration::from_millis(15));
}

#[test]
fn metrics_are_exported_under_their_names() {
    let _alone = lock_exclusive();
    let receiver = TestCollector::start(CollectorBehaviour::Accepting);
    let guard = run_exporting(settings_for(&receiver), |_| record_one_of_each());
    let (_pending, _running) =
        (metrics::Gauge::ApprovalsPending.increment(), metrics::Gauge::ToolsRunning.increment());
    drop(metrics::Gauge::ToolsRunning.increment());
    metrics::set_lost_records(3);
    assert_eq!(guard.shutdown(Duration::from_secs(20)), FlushOutcome::Complete);

    let taken = receiver.received.lock().unwrap();
    let check = |name: &str, unit: &str, mut expected: Vec<(Value, f64)>| {
        let found = metric(&taken, name);
        assert_eq!(found.unit, unit, "{name}");
        let mut points: Vec<_> = points(found).into_iter().map(|(labels, n)| (json!(labels), n)).collect();
        points.sort_by_key(|(labels, _)| labels.to_string());
        expected.sort_by_key(|(labels, _)| labels.to_string());
        assert_eq!(points, expected, "{name}");
    };
    let calls = vec![
        (json!({"gen_ai.tool.name": "read_file", "sinew.outcome": "done"}), 2.0),
        (
            json!({"error.type": "unknown_tool", "gen_ai.tool.name": "_OTHER", "sinew.outcome": "refused"}),
            1.0,
        ),
        (json!({"error.type": "cancelled", "gen_ai.tool.name": "read_file", "sinew.outcome": "failed"}), 1.0),
    ];
    check("sinew.tool.calls", "{call}", calls.clone());
    check("sinew.tool.duration", "s", calls);
    check(
        "sinew.policy.decisions",
        "{decision}",
        vec![(json!({"sinew.mode": "LOCKDOWN", "sinew.policy.decision": "deny"}), 1.0)],
    );
    check("sinew.approvals", "{approval}", vec![(json!({"sinew.approval.outcome": "timed_out"}), 1.0)]);
    check("sinew.approval.wait", "s", vec![(json!({"sinew.approval.outcome": "timed_out"}), 1.0)]);
    check("sinew.output.truncated_bytes", "By", vec![(json!({"gen_ai.tool.name": "read_file"}), 600.0)]);
    check(
        "sinew.output.truncated_items",
        "{item}",
        vec![(json!({"gen_ai.tool.name": "read_file", "sinew.unit": "entries"}), 3.0)],
    );
    check("sinew.approvals.pending", "{approval}", vec![(json!({}), 1.0)]);
    check("sinew.tools.running", "{call}", vec![(json!({}), 1.0)]);
    check("sinew.ledger.lost_records", "{record}", vec![(json!({}), 3.0)]);
    check(
        "mcp.server.operation.duration",
        "s",
        vec![(
            json!({"error.type": "tool_error", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read_file",
                   "mcp.method.name": "tools/call", "mcp.protocol.version": "2026-07-28", "network.transport": "unix"}),
            1.0,
        )],
    );
    let Some(Data::Histogram(histogram)) = &metric(&taken, "mcp.server.operation.duration").data else {
        panic!()
    };
    assert_eq!(histogram.data_points[0].explicit_bounds, conventions_boundaries());
    assert_eq!(histogram.data_points[0].bucket_counts[1], 1, "15 ms is between 10 and 20");
}

fn conventions_boundaries() -> Vec<f64> {
    crate::conventions::metric::DURATION_BOUNDARIES.to_vec()
}

#[test]
fn events_are_exported_as_logs_with_call_ids() {
    let _alone = lock_exclusive();
    let receiver = TestCollector::start(CollectorBehaviour::Accepting);
    let trace = TraceContext::root();
    let call =
        CallContext { tool: "x", call_id: CallId::fresh(), trace: &trace, mode: Mode::Normal, session: None };
    let missing = ["path".to_owned()];
    let guard = run_exporting(settings_for(&receiver), |_| {
        emit(TelemetryEvent::ToolValidationFailed {
            call,
            code: RefusalCode::InvalidArguments,
            missing: &missing,
            reason: &format!("not with {SECRET}"),
        });
        tracing::info!(target: "other", count = 3, "plain {SECRET}");
        tracing::error!(target: "hyper::client", "the export's own traffic is not exported");
    });
    assert_eq!(guard.shutdown(Duration::from_secs(20)), FlushOutcome::Complete);

    let taken = receiver.received.lock().unwrap();
    let scopes = taken.logs.iter().flat_map(|request| &request.resource_logs).flat_map(|r| &r.scope_logs);
    let records: Vec<_> = scopes.flat_map(|scope| &scope.log_records).collect();
    assert_eq!(records.len(), 2);
    let event = records.iter().find(|record| record.event_name == "tool_validation_failed").unwrap();
    assert_eq!(
        (hex(&event.trace_id), hex(&event.span_id)),
        (trace.trace_id.to_string(), trace.span_id.to_string())
    );
    assert_eq!((event.severity_text.as_str(), event.severity_number), ("WARN", 13));
    let fields = attributes(&event.attributes);
    assert_eq!(fields["reason"], "not with [redacted:github_token]");
    assert!(fields["missing"].as_str().unwrap().contains("path"));
    let plain = records.iter().find(|record| record.event_name.is_empty()).unwrap();
    assert_eq!(
        plain.body.as_ref().unwrap().value,
        Some(Any::StringValue("plain [redacted:github_token]".to_owned()))
    );
    assert!(plain.trace_id.iter().all(|byte| *byte == 0));
    assert!(!String::from_utf8_lossy(&taken.bytes).contains(SECRET));
}

#[test]
fn content_is_exported_only_if_enabled_and_redacted() {
    let _alone = lock_exclusive();
    let receiver = TestCollector::start(CollectorBehaviour::Accepting);
    let trace = TraceContext::root();
    let call =
        CallContext { tool: "x", call_id: CallId::fresh(), trace: &trace, mode: Mode::Normal, session: None };
    let arguments = json!({"path": "/tmp/a", "password": "hunter2", "content": SECRET});
    let guard = run_exporting(settings_for(&receiver), |_| {
        set_content_capture(&TelemetrySettings { capture_content: true, ..TelemetrySettings::default() });
        let span = CallSpan::start(&call);
        span.add_note(SpanNote::Arguments(&arguments));
        span.add_note(SpanNote::Result(&json!(["done"])));
        emit(TelemetryEvent::ToolCallStarted { call, arguments_digest: "d", arguments: Some(&arguments) });
        span.end(CallOutcome::Done);
        set_content_capture(&TelemetrySettings::default());
    });
    assert_eq!(guard.shutdown(Duration::from_secs(20)), FlushOutcome::Complete);
    let taken = receiver.received.lock().unwrap();
    let found = attributes(&spans(&taken)[0].attributes);
    let clean =
        r#"{"path":"/tmp/a","password":"[redacted:sensitive_key]","content":"[redacted:github_token]"}"#;
    assert_eq!(found["gen_ai.tool.call.arguments"], clean);
    assert_eq!(found["gen_ai.tool.call.result"], r#"["done"]"#);
    assert_eq!(spans(&taken)[0].status.as_ref().map_or(0, |status| status.code), 0, "UNSET");
    let bytes = String::from_utf8_lossy(&taken.bytes).into_owned();
    assert!(bytes.contains("/tmp/a") && !bytes.contains("hunter2") && !bytes.contains(SECRET));
}

#[test]
fn always_off_sampler_exports_no_span() {
    let _alone = lock_exclusive();
    let receiver = TestCollector::start(CollectorBehaviour::Accepting);
    let trace = TraceContext::root();
    let call =
        CallContext { tool: "x", call_id: CallId::fresh(), trace: &trace, mode: Mode::Normal, session: None };
    let otlp = OtlpSettings { traces_sampler: Sampler::AlwaysOff, ..settings_for(&receiver) };
    let guard = run_exporting(otlp, |_| {
        CallSpan::start(&call).end(CallOutcome::Done);
    });
    assert_eq!(guard.shutdown(Duration::from_secs(20)), FlushOutcome::Complete);
    let taken = receiver.received.lock().unwrap();
    assert_eq!(spans(&taken).len(), 0);
    assert_eq!(points(metric(&taken, "sinew.tool.calls"))[0].1, 1.0);
}

#[test]
fn exports_are_compressed_if_configured() {
    let _alone = lock_exclusive();
    let receiver = TestCollector::start(CollectorBehaviour::Accepting);
    let otlp = OtlpSettings { compression: crate::settings::Compression::Gzip, ..settings_for(&receiver) };
    let guard = run_exporting(otlp, |_| tracing::warn!("something"));
    let health = guard.export_health();
    assert_eq!(guard.shutdown(Duration::from_secs(20)), FlushOutcome::Complete);
    let taken = receiver.received.lock().unwrap();
    assert!(taken.headers.contains(&"content-encoding: gzip".to_owned()), "{:?} {health:?}", taken.headers);
}

#[test]
fn tls_endpoint_is_accepted() {
    let _alone = lock_exclusive();
    // Nothing is sent. The pipelines are built, or a warning reports that the certificates of the machine
    // could not be read.
    let otlp = OtlpSettings { endpoint: Some("https://localhost:1".to_owned()), ..OtlpSettings::default() };
    let configuration = resolve(&otlp, &|_| None).unwrap().unwrap();
    let pipelines = Arc::new(build(&configuration).unwrap());
    assert_eq!(pipelines.health().len() + pipelines.warnings.len(), 3, "{:?}", pipelines.warnings);
    assert!(pipelines.warnings.iter().all(|warning| warning.contains("https://localhost:1")));
    let _ = pipelines.shutdown(Instant::now() + Duration::from_secs(5));
}

#[test]
fn unresponsive_collector_costs_spans_not_time() {
    let _alone = lock_exclusive();
    let receiver = TestCollector::start(CollectorBehaviour::Silent);
    let trace = TraceContext::root();
    let call =
        CallContext { tool: "x", call_id: CallId::fresh(), trace: &trace, mode: Mode::Normal, session: None };
    let rounds = 3000;
    let otlp = OtlpSettings { timeout_ms: 60_000, ..settings_for(&receiver) };
    let mut slowest = Duration::ZERO;
    let started = Instant::now();
    let guard = run_exporting(otlp, |_| {
        for _ in 0..rounds {
            let began = Instant::now();
            let span = CallSpan::start(&call);
            drop(span.stage(Stage::Check));
            drop(span.stage(Stage::Run));
            emit(TelemetryEvent::ToolCallCompleted { call, latency_ms: 1.0, output_bytes: 1, cached: false });
            span.end(CallOutcome::Done);
            slowest = slowest.max(began.elapsed());
        }
    });
    // A single export would wait a minute for its response.
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    let health = guard.export_health();
    let lost = |signal| health.iter().find(|entry| entry.signal == signal).unwrap().lost;
    let capacity = traces::QUEUE_CAPACITY as u64;
    assert_eq!(lost(TelemetrySignal::Traces), rounds * 3 - capacity, "spans beyond the capacity are counted");
    let began = Instant::now();
    assert_eq!(guard.shutdown(Duration::from_millis(300)), FlushOutcome::TimedOut);
    assert!(began.elapsed() < Duration::from_secs(3), "the deadline is kept: {:?}", began.elapsed());
}

#[test]
fn stages_are_timed_without_export() {
    let _alone = lock_exclusive();
    let trace = TraceContext::root();
    let call =
        CallContext { tool: "x", call_id: CallId::fresh(), trace: &trace, mode: Mode::Normal, session: None };
    let span = CallSpan::start(&call);
    drop(span.stage(Stage::Check));
    {
        let _run = span.stage(Stage::Run);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(span.timings().len(), 2);
    let stages = span.end(CallOutcome::Done);
    assert_eq!((stages[0].stage, stages[1].stage), (Stage::Check, Stage::Run));
    assert!(
        stages[1].duration_us >= 2000 && stages[1].start_us >= stages[0].start_us + stages[0].duration_us
    );
    let json = serde_json::to_value(stages[0]).unwrap();
    assert_eq!(json["stage"], "check");
}
