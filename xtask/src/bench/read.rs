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
use super::conversation::{BenchRequest, Conversation, Program, ask, ask_many};
use super::daemon::{Daemon, Home};
use super::echo::OtherEnd;
use super::life;
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
const CHECKING: &str = "FastMCP, stdio, with a middleware that checks the path";
const PROXY: &str = "FastMCP as a proxy in front of the reference server, stdio";

/// One program that is measured, and its times.
struct Lane {
    name: &'static str,
    conversation: Conversation,
    request: BenchRequest,
    calls: usize,
    /// Processes that answer, whose processor time is measured.
    processes: Vec<u32>,
    alone: Load,
    deep: Load,
}

/// Measurements of one lane at one depth.
#[derive(Default)]
struct Load {
    times: Vec<f64>,
    rates: Vec<f64>,
    /// Processor time in seconds.
    processor: f64,
}

impl Lane {
    /// Lane of a program; `daemon` is the process id of one that was started before the conversation.
    fn new(
        name: &'static str,
        conversation: Conversation,
        (request, calls): (BenchRequest, usize),
        daemon: Option<u32>,
    ) -> Self {
        let processes = conversation.pid().into_iter().chain(daemon).collect();
        let (alone, deep) = Default::default();
        Lane { name, conversation, request, calls, processes, alone, deep }
    }

    fn processor(&self) -> Result<f64> {
        self.processes.iter().map(|pid| life::processor(*pid)).sum()
    }

    fn round(&mut self) -> Result<()> {
        let start = self.processor()?;
        let rate = ask_many(&mut self.conversation, &self.request, (self.calls, 1), &mut self.alone.times)?;
        let middle = self.processor()?;
        self.alone.rates.push(rate);
        self.alone.processor += middle - start;
        let work = (self.calls.max(DEPTH), DEPTH);
        let rate = ask_many(&mut self.conversation, &self.request, work, &mut self.deep.times)?;
        self.deep.rates.push(rate);
        self.deep.processor += self.processor()? - middle;
        Ok(())
    }

    fn forget(&mut self) {
        (self.alone, self.deep) = Default::default();
    }
}

impl Load {
    fn add_to(self, (group, name): (&'static str, &str), results: &mut Results) {
        let processor = self.processor * 1e6 / self.times.len() as f64;
        results.add_load((group, name), self.times, (Times::new(self.rates).p50(), processor));
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
    for round in 0..WARM_UP + length.of(ROUNDS) {
        if round == WARM_UP {
            lanes.iter_mut().for_each(Lane::forget);
        }
        lanes.iter_mut().try_for_each(Lane::round)?;
    }
    for lane in &mut lanes {
        std::mem::take(&mut lane.alone).add_to((ALONE, lane.name), results);
    }
    for lane in lanes {
        lane.deep.add_to((DEEP, lane.name), results);
    }
    state(results);
    Ok(())
}

/// Lanes of the lower bound, of a round trip to the daemon without a call, and of the call over both
/// protocols and through the bridge.
fn ours(home: &Home, daemon: &Daemon) -> Result<Vec<Lane>> {
    let params = json!({"tool_name": "read_file", "arguments": {"path": "kib.txt"}});
    let execute = BenchRequest::new("sinew/execute", &params, "xxxxxxxx");
    let params = json!({"name": "read_file", "arguments": {"path": "kib.txt"}});
    let call = BenchRequest::new("tools/call", &params, "xxxxxxxx");
    let mut native = daemon.connect()?;
    let mut reply = 0;
    ask(&mut native, &execute, 1, |_, text| {
        reply = text.len() - 1;
        Ok(())
    })?;
    let mut mcp = daemon.connect()?;
    mcp.initialise()?;
    let mut bridge = Conversation::on_pipes(&mut home.sinew(&["mcp"]))?;
    bridge.initialise()?;
    let status = BenchRequest::new("sinew/status", &json!({}), "uptime_seconds");
    let pid = Some(daemon.pid());
    Ok(vec![
        Lane::new(FLOOR, OtherEnd::echo(reply).start()?, (execute.clone(), FAST), None),
        #[cfg(target_os = "linux")]
        Lane::new(KERNEL, kernel(home, reply)?, (execute.clone(), FAST), None),
        Lane::new("Sinew, sinew/status: no call", daemon.connect()?, (status, FAST), pid),
        Lane::new(SINEW, native, (execute, FAST), pid),
        Lane::new(MCP, mcp, (call.clone(), FAST), pid),
        Lane::new(BRIDGE, bridge, (call, FAST), pid),
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
    let on_work = |command: Option<Command>| {
        command.map(|mut command| {
            command.arg(work);
            command
        })
    };
    let reference = on_work(peers.node_program("mcp-server-filesystem"));
    // The proxy starts the reference server.
    let behind = reference.as_ref().map(Command::get_program);
    let proxy = peers.python_program("fastmcp_proxy.py").zip(behind).map(|(mut proxy, behind)| {
        proxy.arg(behind);
        proxy
    });
    let on_pipes = [
        (PROXY, "read_text_file", on_work(proxy)),
        (CHECKING, "read_file", on_work(peers.python_program("fastmcp_checking_server.py"))),
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
    let request =
        BenchRequest::new("tools/call", &json!({"name": tool, "arguments": {"path": file}}), "xxxxxxxx");
    Ok(Lane::new(name, conversation, (request, SLOW), None))
}

fn state(results: &mut Results) {
    let ratio = |results: &Results, to: &str| results.ratio(ALONE, MCP, to);
    let faster = |results: &Results, than: &str| ratio(results, than).map(|ratio| 1.0 / ratio);
    let (than_reference, than_proxy) = (faster(results, REFERENCE), faster(results, PROXY));
    let rate = |name: &str| results.find(DEEP, name)?.per_second;
    let throughput = rate(MCP).zip(rate(RMCP)).map(|(ours, theirs)| ours / theirs);
    let middle = |name: &str| Some(results.find(ALONE, name)?.p50);
    let bridge = middle(BRIDGE).zip(middle(MCP)).map(|(with, without)| with - without);
    let processor = |results: &Results, group: &str| results.processor_ratio(group, MCP, RMCP);
    let (alone, deep) = (processor(results, ALONE), processor(results, DEEP));
    results.claim("processor time to bare rmcp, 64 at once", deep, RATIO, Bound::AtMost(2.0));
    results.claim("processor time to bare rmcp, one at a time", alone, RATIO, Bound::AtMost(1.5));
    results.claim("governed read to bare rmcp, p50", ratio(results, RMCP), RATIO, Bound::AtMost(1.4));
    results.claim("calls per second to bare rmcp, 64 at once", throughput, RATIO, Bound::AtLeast(0.6));
    results.claim("faster than the reference filesystem server", than_reference, RATIO, Bound::AtLeast(8.0));
    results.claim("faster than a FastMCP proxy in front of it", than_proxy, RATIO, Bound::AtLeast(15.0));
    results.claim("bridge overhead, p50", bridge, "µs", Bound::AtMost(50.0));
}
