//! Latency of `sinew hook`, which another agent waits for: one process, from its start to its verdict.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::Length;
use super::conversation::micros;
use super::daemon::Home;
use super::results::Results;

const GROUP: &str = "sinew hook, from start to verdict";
const ROUNDS: usize = 100;

pub(crate) fn measure(binary: &Path, folder: &Path, length: Length, results: &mut Results) -> Result<()> {
    let home = Home::make(binary, &folder.join("hook"))?;
    let daemon = home.start()?;
    drop(daemon.connect()?);
    results.add(GROUP, "pre-tool-use, a daemon runs", ask_often(&home, length.of(ROUNDS))?);
    Ok(())
}

/// Requests verdicts on a read of `kib.txt`, and returns their latencies in microseconds.
pub(crate) fn ask_often(home: &Home, rounds: usize) -> Result<Vec<f64>> {
    let work = home.work();
    let event = json!({"session_id": "s", "transcript_path": "/x.jsonl", "cwd": work, "permission_mode": "default",
        "hook_event_name": "PreToolUse", "tool_name": "Read", "tool_input": {"file_path": work.join("kib.txt")},
        "tool_use_id": "t"});
    let event = event.to_string();
    (0..rounds).map(|_| once(home, &event)).collect()
}

fn once(home: &Home, event: &str) -> Result<f64> {
    let began = Instant::now();
    let mut command = home.sinew(&["hook", "pre-tool-use"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    child.stdin.take().context("no input")?.write_all(event.as_bytes())?;
    let output = child.wait_with_output()?;
    let took = micros(began.elapsed());
    ensure!(output.status.success(), "the hook ended with {}", output.status);
    Ok(took)
}
