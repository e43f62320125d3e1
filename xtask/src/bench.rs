//! `cargo xtask bench`: what a governed call costs, on a release build of this machine, all checks on.
//!
//! Times of one run on one machine: compare them with each other, not with another day's.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::process;
use crate::project::{self, Profile};
use crate::tree::Root;

const WARM_UP: usize = 2_000;
const CALLS: usize = 20_000;

pub(crate) fn command(root: &Root) -> Result<()> {
    let binary = project::build_binary(root, Profile::Release)?;
    let home = root.path().join("target/bench");
    let _ = std::fs::remove_dir_all(&home);
    std::fs::create_dir_all(home.join("work"))?;
    std::fs::write(home.join("work/kib.txt"), "x".repeat(1024))?;
    let daemon = Daemon::start(&binary, &home)?;
    let status = json!({"jsonrpc": "2.0", "id": 1, "method": "sinew/status"});
    let arguments = json!({"path": "kib.txt"});
    let params = json!({"tool_name": "read_file", "arguments": arguments});
    let read = json!({"jsonrpc": "2.0", "id": 1, "method": "sinew/execute", "params": params});
    let mut client = daemon.connect()?;
    let floor = measure(&mut client, &status)?;
    let call = measure(&mut client, &read)?;
    drop(daemon);
    let record = recording(&home)?;
    println!("\n{:<44} {:>9} {:>9}", "", "p50", "p99");
    row("sinew/status, a round trip with no call", &floor);
    row("read_file of 1 KiB, everything on", &call);
    row("  of it, the decision into the ledger", &record);
    println!(
        "\nthe outcome is recorded like the decision: the ledger adds about {:.1} µs",
        2.0 * record.at(50)
    );
    Ok(())
}

fn row(name: &str, times: &Times) {
    println!("{name:<44} {:>6.1} µs {:>6.1} µs", times.at(50), times.at(99));
}

/// Sorted times in microseconds.
struct Times(Vec<f64>);

impl Times {
    fn new(mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        Times(times)
    }

    fn at(&self, percent: usize) -> f64 {
        self.0.get(self.0.len() * percent / 100).copied().unwrap_or_default()
    }
}

fn measure(client: &mut BufReader<UnixStream>, message: &Value) -> Result<Times> {
    let line = format!("{message}\n");
    let mut times = Vec::with_capacity(CALLS);
    let mut answer = String::new();
    for round in 0..WARM_UP + CALLS {
        let asked = Instant::now();
        client.get_mut().write_all(line.as_bytes())?;
        answer.clear();
        client.read_line(&mut answer)?;
        let took = asked.elapsed();
        if !answer.contains("\"success\":true") && !answer.contains("\"uptime_seconds\"") {
            bail!("the daemon answered {answer}");
        }
        if round >= WARM_UP {
            times.push(took.as_secs_f64() * 1e6);
        }
    }
    Ok(Times::new(times))
}

/// What the records say of their own stage, after the warm-up.
fn recording(home: &Path) -> Result<Times> {
    let mut times = Vec::new();
    let mut segments: Vec<PathBuf> = std::fs::read_dir(home.join("home/state/ledger"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "ndjson"));
    segments.sort();
    for segment in segments {
        for line in
            std::fs::read_to_string(segment)?.lines().filter(|line| line.contains("\"outcome\":\"done\""))
        {
            let record: Value = serde_json::from_str(line)?;
            let stages = record.pointer("/facts/stages").and_then(Value::as_array).into_iter().flatten();
            let stage = stages
                .filter(|stage| stage["stage"] == "record")
                .filter_map(|stage| stage["duration_us"].as_f64());
            times.extend(stage);
        }
    }
    let measured = times.split_off(WARM_UP.min(times.len()));
    Ok(Times::new(measured))
}

/// A daemon in a home of its own, ended with the task.
struct Daemon {
    process: Child,
    socket: PathBuf,
}

impl Daemon {
    fn start(binary: &Path, folder: &Path) -> Result<Self> {
        let home = folder.join("home");
        let sinew = |words: &[&str]| {
            let mut command = Command::new(binary);
            command.args(words).env("SINEW_HOME", &home).current_dir(folder.join("work"));
            command
        };
        process::capture(&mut sinew(&["init", "--workspace", "."]))?;
        unlimited(&home.join("config/governance/safety.yaml"))?;
        // Only what is measured runs, so root's powers are no danger here.
        let allow_root: &[&str] = if is_root(folder)? { &["serve", "--allow-root"] } else { &["serve"] };
        let mut serve = sinew(allow_root);
        let process = serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Daemon { process, socket: home.join("run/agent.sock") })
    }

    fn connect(&self) -> Result<BufReader<UnixStream>> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match UnixStream::connect(&self.socket) {
                Ok(stream) => return Ok(BufReader::new(stream)),
                Err(error) if Instant::now() > deadline => {
                    return Err(error).context("the daemon does not answer");
                }
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The limit of calls a minute would be what is measured.
fn unlimited(file: &Path) -> Result<()> {
    let text = std::fs::read_to_string(file)?;
    std::fs::write(file, text.replace("tool_calls_per_minute: 600", "tool_calls_per_minute: 100000000"))?;
    Ok(())
}

/// Whoever makes a file owns it.
fn is_root(folder: &Path) -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata(folder)?.uid() == 0)
}
