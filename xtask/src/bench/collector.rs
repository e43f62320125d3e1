//! Cost of a call while its spans, metrics and logs go to a collector, and while the collector is down. Both
//! should be equal.
//!
//! Three daemons are measured in alternating rounds: one that exports nothing, one whose collector accepts
//! everything, and one whose collector does not exist.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use anyhow::Result;

use super::Length;
use super::conversation::{BenchRequest, time};
use super::daemon::Home;
use super::results::{Bound, RATIO, Results};

/// Largest allowed ratio of the p99 with the collector down to the p99 with it up, which allows for noise
/// only.
const MOST: f64 = 1.25;
const ROUNDS: usize = 20;
const CALLS: usize = 1_000;
/// Warm-up rounds, whose times are discarded.
const WARM_UP: usize = 2;
const GROUP: &str = "read_file of 1 KiB, telemetry";

/// Measures all three, and claims that a collector that is down does not slow calls.
pub(crate) fn compare(binary: &Path, folder: &Path, length: Length, results: &mut Results) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let up = format!("http://{}", listener.local_addr()?);
    // This listener is closed at once, so nothing listens on its port.
    let down = format!("http://{}", TcpListener::bind("127.0.0.1:0")?.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || take(&stream));
        }
    });
    let cases: [(&str, Vec<(&str, &str)>); 3] = [
        ("no export", Vec::new()),
        ("collector up", vec![("OTEL_EXPORTER_OTLP_ENDPOINT", up.as_str())]),
        ("collector down", vec![("OTEL_EXPORTER_OTLP_ENDPOINT", down.as_str())]),
    ];
    let mut lanes = Vec::new();
    for (name, variables) in &cases {
        let daemon = Home::make(binary, &folder.join(name.replace(' ', "-")))?.start_with(variables)?;
        let conversation = daemon.connect()?;
        lanes.push((*name, daemon, conversation, Vec::new()));
    }
    let read = BenchRequest::read();
    for round in 0..WARM_UP + length.of(ROUNDS) {
        for (_, _, conversation, times) in &mut lanes {
            if round == WARM_UP {
                times.clear();
            }
            time(conversation, &read, CALLS, times)?;
        }
    }
    for (name, _daemon, _conversation, times) in lanes {
        results.add(GROUP, name, times);
    }
    let p99 = |name: &str| Some(results.find(GROUP, name)?.p99);
    let ratio = p99("collector down").zip(p99("collector up")).map(|(down, up)| down / up);
    results.claim("collector down to collector up, p99", ratio, RATIO, Bound::AtMost(MOST));
    Ok(())
}

/// Reads every request of a connection and answers it with an empty 200.
fn take(stream: &TcpStream) {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    let mut length = 0;
    while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
        let header = line.trim().to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if header.is_empty() {
            let mut body = vec![0; std::mem::take(&mut length)];
            let mut reply_stream = stream;
            let taken = reader
                .read_exact(&mut body)
                .and_then(|()| reply_stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
            if taken.is_err() {
                return;
            }
        }
        line.clear();
    }
}
