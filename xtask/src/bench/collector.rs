//! What a call costs while its spans, metrics and logs go to a collector, and while the collector is down: the same.
//!
//! Three daemons are measured in turns: one that exports nothing, one whose collector takes everything, one whose
//! collector is not there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::json;

use super::daemon::Daemon;
use super::times::{Times, measure};
use super::{CALLS_PER_ROUND, ROUNDS, WARM_UP};

/// The p99 with the collector down may be this much of the p99 with it up: noise, and no more.
const MOST: f64 = 1.25;

/// Measures, prints, and fails where a collector that is down can be felt.
pub(crate) fn compare(binary: &Path, folder: &Path) -> Result<()> {
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
        let home = folder.join(name.replace(' ', "-"));
        std::fs::create_dir_all(home.join("work"))?;
        std::fs::write(home.join("work/kib.txt"), "x".repeat(1024))?;
        let daemon = Daemon::start_with(binary, &home, variables)?;
        let client = daemon.connect()?;
        lanes.push((*name, daemon, client, Vec::new()));
    }
    let params = json!({"tool_name": "read_file", "arguments": {"path": "kib.txt"}});
    let read = json!({"jsonrpc": "2.0", "id": 1, "method": "sinew/execute", "params": params});
    for round in 0..WARM_UP + ROUNDS {
        for (_, _, client, times) in &mut lanes {
            if round == WARM_UP {
                times.clear();
            }
            measure(client, &read, CALLS_PER_ROUND, times)?;
        }
    }
    println!();
    let mut p99 = Vec::new();
    for (name, _daemon, _client, times) in lanes {
        let times = Times::new(times);
        times.print(&format!("read_file of 1 KiB, {name}"));
        p99.push(times.at(99));
    }
    let [_, up, down] = p99.as_slice() else { bail!("three were measured") };
    let ratio = down / up;
    println!("\nwith the collector down the p99 is {ratio:.2} of what it is with it up");
    if ratio > MOST {
        bail!("a collector that is down can be felt: {ratio:.2} is more than {MOST}");
    }
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
