//! `cargo xtask bench`: what a governed call costs, on a release build of this machine, all checks on.
//!
//! Times of one run on one machine: compare them with each other, not with another day's. What is compared is
//! measured in turns, so that a noisy moment hits all alike.

mod collector;
mod daemon;
mod ledger_share;
mod times;

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use crate::process;
use crate::project::{self, Profile};
use crate::tree::Root;
use daemon::Daemon;
use ledger_share::Replies;
use times::{Times, ask, measure};

const ROUNDS: usize = 20;
const CALLS_PER_ROUND: usize = 1_000;
/// Rounds that only warm up.
const WARM_UP: usize = 2;

/// The crates whose own cost has a bound, each with an example that measures it.
const MEASURED: [&str; 5] = ["guardrail", "governance", "ledger", "telemetry", "sandbox"];

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
    let (mut floor, mut call, mut replies) = (Vec::new(), Vec::new(), Replies::default());
    for round in 0..WARM_UP + ROUNDS {
        if round == WARM_UP {
            (floor, call, replies) = (Vec::new(), Vec::new(), Replies::default());
        }
        measure(&mut client, &status, CALLS_PER_ROUND, &mut floor)?;
        ask(&mut client, &read, CALLS_PER_ROUND, |time, answer| {
            call.push(time);
            replies.take(answer)
        })?;
    }
    drop(daemon);
    Times::new(floor).print("sinew/status, a round trip with no call");
    Times::new(call).print("read_file of 1 KiB, everything on");
    ledger_share::print(&folder.join("home/state/ledger"), &replies)
}

/// One stage of the road by itself.
fn stage(root: &Root, name: &str) -> Result<()> {
    println!();
    process::run(&mut root.cargo(&["run", "--quiet", "--release", "-p", name, "--example", "measure"]))
}
