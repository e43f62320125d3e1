//! Round trip of a governed `read_file` of 1 KiB, compared with a lower bound and with servers that check
//! nothing.
//!
//! All of them are measured in alternating rounds, one call at a time and 64 at once, and every answer to a
//! read must contain the file.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;

use super::Length;
use super::conversation::{Conversation, Program, Question, ask, ask_many};
use super::daemon::{Daemon, Home};
use super::echo::OtherEnd;
use super::ledger_share::{self, Replies};
use super::peers::Installed;
use super::results::{Bound, RATIO, Results, Times};

/// Warm-up rounds, whose times are discarded.
const WARM_UP: usize = 2;
const ROUNDS: usize = 20;
/// Calls per round to a fast program; a slow one gets fewer.
const FAST: usize = 1_000;
const SLOW: usize = 50;
/// Concurrent calls.
const DEPTH: usize = 64;

pub(crate) const ALONE: &str = "read_file of 1 KiB, one at a time";
const DEEP: &str = "read_file of 1 KiB, 64 at once";
const SINEW: &str = "Sinew, sinew/execute, governed";
const MCP: &str = "Sinew, MCP tools/call, governed";
const BRIDGE: &str = "Sinew, MCP tools/call through the bridge, `sinew mcp`";
#[cfg(target_os = "linux")]
const KERNEL: &str = "system calls of a governed read alone";
const FLOOR: &str = "echo of the same bytes over a socket pair: lower bound";
const RMCP: &str = "bare rmcp on a Unix socket, no checks";
const REFERENCE: &str = "reference filesystem server, stdio";

/// One program that is measured, and its times.
struct Lane {
    name: &'static str,
    conversation: Conversation,
    question: Question,
    calls: usize,
    alone: Vec<f64>,
    deep: Vec<f64>,
    rates: Vec<f64>,
}

impl Lane {
    fn new(name: &'static str, conversation: Conversation, question: Question, calls: usize) -> Self {
        let (alone, deep, rates) = Default::default();
        Lane { name, conversation, question, calls, alone, deep, rates }
    }

    fn round(&mut self, replies: &mut Replies) -> Result<()> {
        let (is_ours, times) = (self.name == SINEW, &mut self.alone);
        ask(&mut self.conversation, &self.question, self.calls, |time, answer| {
            times.push(time);
            if is_ours {
                replies.keep(answer);
            }
            Ok(())
        })?;
        let work = (self.calls.max(DEPTH), DEPTH);
        self.rates.push(ask_many(&mut self.conversation, &self.question, work, &mut self.deep)?);
        Ok(())
    }

    fn forget(&mut self) {
        [&mut self.alone, &mut self.deep, &mut self.rates].into_iter().for_each(Vec::clear);
    }
}

/// Measures all of them, and makes the claims about their ratios.
pub(crate) fn measure(
    binary: &Path,
    folder: &Path,
    (peers, length): (&Installed, Length),
    results: &mut Results,
) -> Result<()> {
    let home = Home::make(binary, &folder.join("read"))?;
    let daemon = home.start()?;
    let file = home.work().join("kib.txt");
    let mut lanes = ours(&home, &daemon)?;
    for lane in others(peers, &file, folder) {
        match lane {
            Ok(lane) => lanes.push(lane),
            Err(error) => results.absent.push(format!("{error:#}")),
        }
    }
    let mut replies = Replies::default();
    for round in 0..WARM_UP + length.of(ROUNDS) {
        if round == WARM_UP {
            replies = Replies::default();
            lanes.iter_mut().for_each(Lane::forget);
        }
        lanes.iter_mut().try_for_each(|lane| lane.round(&mut replies))?;
    }
    for lane in &mut lanes {
        results.add(ALONE, lane.name, std::mem::take(&mut lane.alone));
    }
    drop(daemon);
    ledger_share::add(&home.root().join("state/ledger"), &replies, ALONE, results)?;
    for lane in lanes {
        let rate = Times::new(lane.rates).p50();
        results.add_deep(DEEP, lane.name, lane.deep, rate);
    }
    state(results);
    Ok(())
}

/// Lanes of the lower bound, of a round trip to the daemon without a call, and of the call over both
/// protocols and through the bridge.
fn ours(home: &Home, daemon: &Daemon) -> Result<Vec<Lane>> {
    let params = json!({"tool_name": "read_file", "arguments": {"path": "kib.txt"}});
    let execute = Question::new("sinew/execute", &params, "xxxxxxxx");
    let params = json!({"name": "read_file", "arguments": {"path": "kib.txt"}});
    let call = Question::new("tools/call", &params, "xxxxxxxx");
    let mut native = daemon.connect()?;
    let mut reply = 0;
    ask(&mut native, &execute, 1, |_, answer| {
        reply = answer.len() - 1;
        Ok(())
    })?;
    let mut mcp = daemon.connect()?;
    mcp.initialise()?;
    let mut bridge = Conversation::on_pipes(&mut home.sinew(&["mcp"]))?;
    bridge.initialise()?;
    let status = Question::new("sinew/status", &json!({}), "uptime_seconds");
    Ok(vec![
        Lane::new(FLOOR, OtherEnd::echo(reply).start()?, execute.clone(), FAST),
        #[cfg(target_os = "linux")]
        Lane::new(KERNEL, kernel(home, reply)?, execute.clone(), FAST),
        Lane::new("Sinew, sinew/status: no call", daemon.connect()?, status, FAST),
        Lane::new(SINEW, native, execute, FAST),
        Lane::new(MCP, mcp, call.clone(), FAST),
        Lane::new(BRIDGE, bridge, call, FAST),
    ])
}

#[cfg(target_os = "linux")]
fn kernel(home: &Home, reply: usize) -> Result<Conversation> {
    let records = home.root().join("kernel");
    std::fs::create_dir_all(&records)?;
    OtherEnd::reading(reply, home.work().join("kib.txt"), records).start()
}

/// Lanes of the available other programs. The error of one that does not start names it.
fn others(peers: &Installed, file: &Path, folder: &Path) -> Vec<Result<Lane>> {
    let mut lanes: Vec<Result<Lane>> = Vec::new();
    lanes.extend(peers.rmcp.as_ref().map(|program| rmcp(program, file, &folder.join("rmcp.sock"))));
    let work = file.parent().unwrap_or(file);
    let reference = peers.node_program("mcp-server-filesystem").map(|mut command| {
        command.arg(work);
        command
    });
    let on_pipes = [
        (REFERENCE, "read_text_file", reference),
        ("Python SDK, stdio, no checks", "read_file", peers.python_program("mcp_server.py")),
        ("FastMCP, stdio, no checks", "read_file", peers.python_program("fastmcp_server.py")),
    ];
    for (name, tool, command) in on_pipes {
        let start = |mut command: Command| speaking(name, tool, file, Conversation::on_pipes(&mut command)?);
        lanes.extend(command.map(|command| start(command).with_context(|| name.to_owned())));
    }
    lanes
}

fn rmcp(program: &Path, file: &Path, socket: &Path) -> Result<Lane> {
    let _ = std::fs::remove_file(socket);
    let program = Program(Command::new(program).arg(socket).spawn().context(RMCP)?);
    let began = Instant::now();
    let stream = loop {
        match UnixStream::connect(socket) {
            Err(error) if began.elapsed() > Duration::from_secs(10) => return Err(error).context(RMCP),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
            Ok(stream) => break stream,
        }
    };
    let conversation = Conversation::on_socket(stream)?.ending(program);
    Ok(Lane { calls: FAST, ..speaking(RMCP, "read_file", file, conversation)? })
}

/// Lane of an MCP server whose tool takes a path.
fn speaking(name: &'static str, tool: &str, file: &Path, mut conversation: Conversation) -> Result<Lane> {
    conversation.initialise()?;
    let question =
        Question::new("tools/call", &json!({"name": tool, "arguments": {"path": file}}), "xxxxxxxx");
    Ok(Lane::new(name, conversation, question, SLOW))
}

fn state(results: &mut Results) {
    let ratio = |results: &Results, to: &str| results.ratio(ALONE, SINEW, to);
    let faster = ratio(results, REFERENCE).map(|ratio| 1.0 / ratio);
    let rate = |name: &str| results.find(DEEP, name)?.per_second;
    let throughput = rate(SINEW).zip(rate(RMCP)).map(|(ours, theirs)| ours / theirs);
    let (lower_bound, bare) = (ratio(results, FLOOR), ratio(results, RMCP));
    let middle = |name: &str| Some(results.find(ALONE, name)?.p50);
    let bridge = middle(BRIDGE).zip(middle(MCP)).map(|(with, without)| with - without);
    results.claim("governed read to bare rmcp, p50", bare, RATIO, Bound::AtMost(1.0));
    results.claim("governed read to echo, p50", lower_bound, RATIO, Bound::AtMost(4.0));
    results.claim("faster than the reference filesystem server", faster, RATIO, Bound::AtLeast(8.0));
    results.claim("calls per second to bare rmcp, 64 at once", throughput, RATIO, Bound::AtLeast(1.5));
    results.claim("bridge overhead, p50", bridge, "µs", Bound::AtMost(50.0));
}
