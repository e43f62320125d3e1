//! Collector that refuses and then accepts: each change is logged once and counted, and calls are not
//! affected.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use telemetry::{
    CallContext, CallOutcome, CallSpan, FlushOutcome, LogTarget, OtlpSettings, Stage, TelemetrySettings,
    TelemetrySignal, init,
};
use tool::{CallId, Mode, TraceContext};

/// Responds to requests until the connection ends.
fn serve(stream: TcpStream, accepts: &AtomicBool) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut length, mut line) = (0, "\n".to_owned());
        while !line.trim_end().is_empty() || length == 0 {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().map_err(std::io::Error::other)?;
            }
        }
        reader.read_exact(&mut vec![0; length])?;
        let status = if accepts.load(Ordering::Relaxed) { "200 OK" } else { "400 Bad Request" };
        write!(reader.get_mut(), "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")?;
    }
}

fn calls(count: usize) {
    let trace = TraceContext::root();
    let call =
        CallContext { tool: "x", call_id: CallId::fresh(), trace: &trace, mode: Mode::Normal, session: None };
    for _ in 0..count {
        let span = CallSpan::start(&call);
        drop(span.stage(Stage::Run));
        span.end(CallOutcome::Done);
    }
}

/// Polls until `done` returns true; fails after 30 seconds.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(30), "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn failure_and_recovery_are_each_logged_once() {
    let accepts = Arc::new(AtomicBool::new(false));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let theirs = Arc::clone(&accepts);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let accepts = Arc::clone(&theirs);
            std::thread::spawn(move || serve(stream, &accepts));
        }
    });
    let home = tempfile::tempdir().unwrap();
    let otlp = OtlpSettings {
        endpoint: Some(endpoint),
        signals: vec![TelemetrySignal::Traces],
        ..OtlpSettings::default()
    };
    let settings = TelemetrySettings { otlp, ..TelemetrySettings::default() };
    let guard = init(&settings, &LogTarget::Directory(home.path().to_owned())).unwrap();
    let traces = || guard.export_health().remove(0);

    // A batch is 512 spans, and is sent as soon as it is full.
    calls(256);
    wait_until("the first failure", || traces().lost == 512);
    calls(256);
    wait_until("the second failure", || traces().lost == 1024);
    assert!(traces().failing.unwrap().contains("400"));
    accepts.store(true, Ordering::Relaxed);
    calls(256);
    wait_until("recovery", || traces().delivered == 512);
    assert_eq!(traces().failing, None);
    assert_eq!(guard.shutdown(Duration::from_secs(20)), FlushOutcome::Complete);

    let text = std::fs::read_to_string(home.path().join("sinew.log")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let logged: Vec<_> = lines.iter().map(|line| (line["level"].as_str(), line["target"].as_str())).collect();
    assert_eq!(logged, [(Some("WARN"), Some("sinew::otlp")), (Some("INFO"), Some("sinew::otlp"))], "{text}");
    assert!(lines[0]["message"].as_str().unwrap().contains("does not accept telemetry"));
    assert_eq!(lines[1]["lost"], 1024);
}
