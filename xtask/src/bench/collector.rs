//! What a call costs while its spans, metrics and logs go to a collector, and while the collector is down: the same.
//!
//! Three daemons are measured in turns: one that exports nothing, one whose collector takes everything, one whose
//! collector is not there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use anyhow::Result;

use super::conversation::{Question, time};
use super::daemon::Home;
use super::results::{Bound, RATIO, Results};
use super::wish::Length;

/// The p99 with the collector down may be this much of the p99 with it up: noise, and no more.
const MOST: f64 = 1.25;
const ROUNDS: usize = 20;
const CALLS: usize = 1_000;
/// Rounds that only warm up.
const WARM_UP: usize = 2;
const GROUP: &str = "read_file of 1 KiB, telemetry";

/// Measures, and states whether a collector that is down can be felt.
pub(crate) fn compare(binary: &Path, folder: &Path, length: Length, results: &mut Results) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let up = format!("http://{}", listener.local_addr()?);
    // A port that was just free, and where nobody listens.
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
    let read = Question::read();
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

/// Takes what is posted.
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
            let mut answer = stream;
            let taken = reader
                .read_exact(&mut body)
                .and_then(|()| answer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
            if taken.is_err() {
                return;
            }
        }
        line.clear();
    }
}
