//! OpenTelemetry from the real daemon to a real collector on loopback, and to a missing one.

pub(crate) mod collector;
mod events;
mod names;
mod passwords;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;
use tests::{Daemon, Home};

use collector::{Collector, contains};

const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn bytes_of(trace_id: &str) -> Vec<u8> {
    (0..16).map(|n| u8::from_str_radix(&trace_id[2 * n..2 * n + 2], 16).unwrap()).collect()
}

fn read_in_trace(agent: &mut tests::Client, trace: &serde_json::Value) {
    let params = json!({"tool_name": "read_file", "arguments": {"path": "a.txt"}, "trace_ctx": trace});
    assert_eq!(agent.request("sinew/execute", &params)["result"]["success"], true);
}

#[test]
fn spans_metrics_and_logs_arrive_under_their_documented_names() {
    let collector = Collector::start();
    let daemon = Daemon::start_with(Home::initialised(), &[collector.variable()]);
    daemon.home().file("a.txt", "the content");
    let mut agent = daemon.agent();
    read_in_trace(&mut agent, &json!(format!("00-{TRACE_ID}-00f067aa0ba902b7-01")));
    agent.execute("read_file", &json!({"path": "/etc/hostname"}));
    drop(daemon.stop());
    let got = collector.received();
    for name in [
        "execute_tool read_file",
        "gen_ai.operation.name",
        "gen_ai.tool.name",
        "check",
        "precheck",
        "judge",
        "record_decision",
        "run",
        "record_outcome",
        "path_not_allowed",
    ] {
        assert!(got.has("/v1/traces", name.as_bytes()), "{name} is not among the spans");
    }
    assert!(got.has("/v1/traces", &bytes_of(TRACE_ID)), "the caller's trace goes on");
    for name in ["sinew.tool.calls", "sinew.policy.decisions"] {
        assert!(got.has("/v1/metrics", name.as_bytes()), "{name} is not among the metrics");
    }
    assert!(got.has("/v1/logs", b"tool_call_completed"), "events arrive as logs");
    assert!(!contains(&got.everything(), b"the content"), "content stays here by default");
    assert!(!contains(&got.everything(), b"gen_ai.tool.call.arguments"), "and so do arguments");
}

#[test]
fn trace_state_is_passed_on_and_sampling_is_respected() {
    let collector = Collector::start();
    let daemon = Daemon::start_with(Home::initialised(), &[collector.variable()]);
    daemon.home().file("a.txt", "x");
    let mut agent = daemon.agent();
    let sampled = format!("00-{TRACE_ID}-00f067aa0ba902b7-01");
    read_in_trace(&mut agent, &json!({"traceparent": sampled, "tracestate": "rojo=1,congo=t61rcWkgMzE"}));
    let unsampled = TRACE_ID.replace('4', "5");
    read_in_trace(&mut agent, &json!(format!("00-{unsampled}-00f067aa0ba902b7-00")));
    drop(daemon.stop());
    let got = collector.received();
    assert!(got.has("/v1/traces", b"rojo=1,congo=t61rcWkgMzE"), "the state is handed on whole");
    assert!(got.has("/v1/traces", &bytes_of(TRACE_ID)));
    assert!(!got.has("/v1/traces", &bytes_of(&unsampled)), "what the caller does not record is not exported");
    assert!(got.has("/v1/logs", &bytes_of(&unsampled)), "its events still are");
}

#[test]
fn captured_content_reaches_spans_redacted() {
    let collector = Collector::start();
    let home = Home::initialised();
    collector::capture_content(&home);
    let daemon = Daemon::start_with(home, &[collector.variable()]);
    let secret = format!("ghp_{}", "a1B2c3D4".repeat(5));
    let content = format!("plain words and {secret}");
    daemon.agent().execute("write_file", &json!({"path": "b.txt", "content": content}));
    drop(daemon.stop());
    let got = collector.received();
    assert!(got.has("/v1/traces", b"gen_ai.tool.call.arguments"), "the arguments are there");
    assert!(got.has("/v1/traces", b"plain words and"), "and say what was asked");
    assert!(!contains(&got.everything(), secret.as_bytes()), "less the secret");
}

#[test]
fn missing_collector_delays_no_call() {
    // A port that was just free and has no listener.
    let address = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let daemon = Daemon::start_with(Home::initialised(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", &address)]);
    daemon.home().file("a.txt", "x");
    let mut agent = daemon.agent();
    for _ in 0..200 {
        assert_eq!(agent.execute("read_file", &json!({"path": "a.txt"}))["success"], true);
    }
    let asked = Instant::now();
    drop(daemon.stop());
    assert!(asked.elapsed() < Duration::from_secs(15), "flushing has a deadline");
}
