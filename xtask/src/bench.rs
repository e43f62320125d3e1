//! `cargo xtask bench`: what a governed call costs, on a release build of this machine, all checks on.
//!
//! Times of one run on one machine: compare them with each other, not with another day's. What is compared is
//! measured in turns, so that a noisy moment hits all alike.

mod collector;
mod daemon;
mod times;

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use crate::process;
use crate::project::{self, Profile};
use crate::tree::Root;
use daemon::Daemon;
use times::{Times, measure};

const ROUNDS: usize = 20;
const CALLS_PER_ROUND: usize = 1_000;
/// Rounds that only warm up.
const WARM_UP: usize = 2;

/// The crates whose own cost has a bound, each with an example that measures it.
const MEASURED: [&str; 3] = ["guardrail", "governance", "ledger"];

pub(crate) fn command(root: &Root) -> Result<()> {
    let binary = project::build_binary(root, Profile::Release)?;
    let folder = root.path().join("target/bench");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("work"))?;
    std::fs::write(folder.join("work/kib.txt"), "x".repeat(1024))?;
    println!("\n{:<44} {:>9} {:>9}", "", "p50", "p99");
    governed_call(&binary, &folder)?;
    collector::compare(&binary, &folder)?;
    MEASURED.iter().try_for_each(|name| stage(root, name))
}

/// A read over the socket beside a round trip that does nothing, and the ledger's share of it.
fn governed_call(binary: &Path, folder: &Path) -> Result<()> {
    let daemon = Daemon::start(binary, folder)?;
    let status = json!({"jsonrpc": "2.0", "id": 1, "method": "sinew/status"});
    let params = json!({"tool_name": "read_file", "arguments": {"path": "kib.txt"}});
    let read = json!({"jsonrpc": "2.0", "id": 1, "method": "sinew/execute", "params": params});
    let mut client = daemon.connect()?;
    let (mut floor, mut call) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + ROUNDS {
        if round == WARM_UP {
            (floor, call) = (Vec::new(), Vec::new());
        }
        measure(&mut client, &status, CALLS_PER_ROUND, &mut floor)?;
        measure(&mut client, &read, CALLS_PER_ROUND, &mut call)?;
    }
    drop(daemon);
    Times::new(floor).print("sinew/status, a round trip with no call");
    Times::new(call).print("read_file of 1 KiB, everything on");
    let decision = decisions(folder)?;
    decision.print("  of it, the decision into the ledger");
    println!(
        "\nthe outcome is a shorter record than the decision: the ledger adds at most about {:.1} µs",
        2.0 * decision.at(50)
    );
    Ok(())
}

/// What the records say of their own stage, after the warm-up.
fn decisions(folder: &Path) -> Result<Times> {
    let mut times = Vec::new();
    let mut segments: Vec<PathBuf> = std::fs::read_dir(folder.join("home/state/ledger"))?
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
    let warm = WARM_UP * CALLS_PER_ROUND;
    let measured = times.split_off(warm.min(times.len()));
    Ok(Times::new(measured))
}

/// One stage of the road by itself.
fn stage(root: &Root, name: &str) -> Result<()> {
    println!();
    process::run(&mut root.cargo(&["run", "--quiet", "--release", "-p", name, "--example", "measure"]))
}
