//! A collector that refuses, then takes: said once each way, counted, and no call notices.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use telemetry::{
    CallSpan, Flushed, LogTarget, OtlpSettings, Outcome, Signal, Stage, Subject, TelemetrySettings, init,
};
use tool::{CallId, Mode, TraceContext};

/// Answers requests until the connection ends.
fn serve(stream: TcpStream, takes: &AtomicBool) -> std::io::Result<()> {
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
        let status = if takes.load(Ordering::Relaxed) { "200 OK" } else { "400 Bad Request" };
        write!(reader.get_mut(), "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")?;
    }
}

fn calls(count: usize) {
    let trace = TraceContext::root();
    let call =
        Subject { tool: "x", call_id: CallId::fresh(), trace: &trace, mode: Mode::Normal, session: None };
    for _ in 0..count {
        let span = CallSpan::start(&call);
        drop(span.stage(Stage::Run));
        span.end(Outcome::Done);
    }
}

/// Waits for what a background thread will do; fails after a time in which it must have.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(30), "never came: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn failing_is_said_once_and_recovery_once() {
    let takes = Arc::new(AtomicBool::new(false));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let theirs = Arc::clone(&takes);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let takes = Arc::clone(&theirs);
            std::thread::spawn(move || serve(stream, &takes));
        }
    });
    let home = tempfile::tempdir().unwrap();
    let otlp =
        OtlpSettings { endpoint: Some(endpoint), signals: vec![Signal::Traces], ..OtlpSettings::default() };
    let settings = TelemetrySettings { otlp, ..TelemetrySettings::default() };
    let guard = init(&settings, &LogTarget::Directory(home.path().to_owned())).unwrap();
    let traces = || guard.exports().remove(0);

    // A batch is 512 spans, and is sent as soon as it is full.
    calls(256);
    until("the first failure", || traces().lost == 512);
    calls(256);
    until("the second failure", || traces().lost == 1024);
    assert!(traces().failing.unwrap().contains("400"));
    takes.store(true, Ordering::Relaxed);
    calls(256);
    until("recovery", || traces().delivered == 512);
    assert_eq!(traces().failing, None);
    assert_eq!(guard.shutdown(Duration::from_secs(20)), Flushed::Complete);

    let text = std::fs::read_to_string(home.path().join("sinew.log")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said: Vec<_> = lines.iter().map(|line| (line["level"].as_str(), line["target"].as_str())).collect();
    assert_eq!(said, [(Some("WARN"), Some("sinew::otlp")), (Some("INFO"), Some("sinew::otlp"))], "{text}");
    assert!(lines[0]["message"].as_str().unwrap().contains("does not take telemetry"));
    assert_eq!(lines[1]["lost"], 1024);
}
