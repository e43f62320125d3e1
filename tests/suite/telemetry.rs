//! OpenTelemetry from the real daemon to a real collector on loopback, and to one that is not there.

mod events;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use serde_json::json;
use tests::{Daemon, Home};

/// A collector: takes what is posted, and hands on the path and the body.
fn collector() -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
    let address = format!("http://{}", listener.local_addr().expect("its address"));
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sender = sender.clone();
            std::thread::spawn(move || serve(&stream, &sender));
        }
    });
    (address, receiver)
}

fn serve(stream: &TcpStream, sender: &Sender<(String, Vec<u8>)>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request).unwrap_or(0) == 0 {
            return;
        }
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).expect("a header");
            let header = header.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("the body");
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let _ = sender.send((path, body));
        let mut answer = stream;
        answer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("an answer");
    }
}

/// Names are plain text in the protobuf encoding, so finding them needs no decoder.
fn contains(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn spans_metrics_and_logs_arrive_under_their_documented_names() {
    let (address, received) = collector();
    let daemon = Daemon::start_with(Home::initialised(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", &address)]);
    daemon.home().file("a.txt", "the content");
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let params = json!({"tool_name": "read_file", "arguments": {"path": "a.txt"}, "trace_ctx": traceparent});
    let mut agent = daemon.agent();
    assert_eq!(agent.request("sinew/execute", &params)["result"]["success"], true);
    agent.execute("read_file", &json!({"path": "/etc/hostname"}));
    drop(daemon.stop());
    let all: Vec<(String, Vec<u8>)> = received.try_iter().collect();
    let has =
        |path: &str, text: &str| all.iter().any(|(at, body)| at.ends_with(path) && contains(body, text));
    let trace_id: Vec<u8> =
        (0..16).map(|n| u8::from_str_radix(&traceparent[3 + 2 * n..5 + 2 * n], 16).unwrap()).collect();
    for name in [
        "execute_tool read_file",
        "gen_ai.operation.name",
        "gen_ai.tool.name",
        "check",
        "judge",
        "run",
        "record",
        "path_not_allowed",
    ] {
        assert!(has("/v1/traces", name), "{name} is not among the spans");
    }
    let in_trace =
        all.iter().any(|(at, body)| at.ends_with("/v1/traces") && body.windows(16).any(|w| w == trace_id));
    assert!(in_trace, "the caller's trace goes on");
    for name in ["sinew.tool.calls", "sinew.policy.decisions"] {
        assert!(has("/v1/metrics", name), "{name} is not among the metrics");
    }
    assert!(has("/v1/logs", "tool_call_completed"), "events arrive as logs");
    assert!(!all.iter().any(|(_, body)| contains(body, "the content")), "content stays here by default");
}

#[test]
fn a_collector_that_is_not_there_delays_nobody() {
    // A port that was just free, and where nobody listens.
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
