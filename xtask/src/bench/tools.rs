//! Other tools beside the programs that people would use for the same work, in alternating rounds.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::Length;
use super::conversation::{BenchRequest, Conversation, ask, ask_many, micros};
use super::daemon::{Daemon, Home};
use super::peers::Installed;
use super::results::{Bound, RATIO, Results};
use crate::process;

const SEARCH: &str = "search_files of a tree without a match";
const LIST: &str = "list_directory of one large directory";
const PARTS: &str = "read_file of a large file in parts of 512 KiB";
const WRITE: &str = "write_file of 10 MiB, durable";
const FETCH: &str = "fetch_url of 10 MB from this machine";
const TESTS: &str = "run_tests of a project without tests";
const SINEW: &str = "Sinew";
const ROUNDS: usize = 10;
const MIB: usize = 1 << 20;
/// Bytes of one part of a large file.
const PART: usize = MIB / 2;
/// Calls that list a directory at the same time.
const AT_ONCE: usize = 40;
/// Text that is in no file.
const NEEDLE: &str = "a needle that is nowhere";
const LINE: &str = "The heron stands in the shallow water and waits, because waiting is how it eats.\n";
/// Policy for the run: no limit of calls, and a gateway that reaches this machine.
const SAFETY: &str = "rate_limits:\n  NORMAL: {tool_calls_per_minute: 100000000}\noutbound_gateway:\n  {allowed_domains: [\"*\"], allow_private_addresses: true, max_response_kb: 20480}\n";

/// Daemon with a conversation and the folder that its tools work in.
struct Workplace {
    home: Home,
    daemon: Daemon,
    conversation: Conversation,
    length: Length,
}

impl Workplace {
    /// Calls a tool that must succeed, and returns its reply and its time in microseconds.
    fn call(&mut self, tool: &str, arguments: &Value) -> Result<(Value, f64)> {
        let (mut reply, mut time) = (Value::Null, 0.0);
        ask(&mut self.conversation, &request(tool, arguments), 1, |took, text| {
            (reply, time) = (serde_json::from_str(text)?, took);
            Ok(())
        })?;
        Ok((reply, time))
    }

    /// A number of rounds for a full run, or a smaller one.
    fn rounds(&self) -> usize {
        self.length.of(ROUNDS)
    }

    /// `full` for a full run, otherwise a tenth of it.
    fn size(&self, full: usize) -> usize {
        if self.length == Length::Full { full } else { full / 10 }
    }
}

fn request(tool: &str, arguments: &Value) -> BenchRequest {
    let params = json!({"tool_name": tool, "arguments": arguments});
    BenchRequest::new("sinew/execute", &params, "\"success\":true")
}

pub(crate) fn measure(
    binary: &Path,
    folder: &Path,
    (peers, length): (&Installed, Length),
    results: &mut Results,
) -> Result<()> {
    let home = Home::make(binary, &folder.join("tools"))?;
    home.put_policy("safety.yaml", SAFETY)?;
    let daemon = home.start()?;
    let conversation = daemon.connect()?;
    let mut place = Workplace { home, daemon, conversation, length };
    write(&mut place, results)?;
    parts(&mut place, results)?;
    search(&mut place, peers, results)?;
    fetch(&mut place, results)?;
    tests(&mut place, results)?;
    list(&mut place, results)
}

/// Adds the times of both, and a claim about their ratio.
fn compare(
    results: &mut Results,
    (group, other): (&'static str, &str),
    (ours, theirs): (Vec<f64>, Vec<f64>),
    most: f64,
) {
    results.add(group, SINEW, ours);
    results.add(group, other, theirs);
    let name = format!("{group}, to {other}, p50");
    results.claim(&name, results.ratio(group, SINEW, other), RATIO, Bound::AtMost(most));
}

/// Runs a program that may end with these codes, and returns its time in microseconds.
fn run(command: &mut Command, codes: &[i32]) -> Result<f64> {
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    let took = micros(began.elapsed());
    ensure!(
        status.code().is_some_and(|code| codes.contains(&code)),
        "`{}`: {status}",
        process::shown(command)
    );
    Ok(took)
}

fn text(bytes: usize) -> String {
    let mut text = LINE.repeat(bytes.div_ceil(LINE.len()));
    text.truncate(bytes);
    text
}

fn write(place: &mut Workplace, results: &mut Results) -> Result<()> {
    let work = place.home.work();
    let content = text(10 * MIB);
    std::fs::write(work.join("source"), &content)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..place.rounds() {
        let arguments = json!({"path": format!("written-{round}"), "content": content});
        ours.push(place.call("write_file", &arguments)?.1);
        let to = format!("of={}", work.join(format!("copied-{round}")).display());
        let from = format!("if={}", work.join("source").display());
        theirs.push(run(Command::new("dd").args([&from, &to, "bs=1M", "conv=fsync"]), &[0])?);
        std::fs::remove_file(work.join(format!("written-{round}")))?;
        std::fs::remove_file(work.join(format!("copied-{round}")))?;
    }
    compare(results, (WRITE, "dd conv=fsync"), (ours, theirs), 1.3);
    Ok(())
}

fn parts(place: &mut Workplace, results: &mut Results) -> Result<()> {
    let (size, file) = (place.size(1024 * MIB), place.home.work().join("large"));
    let mut out = std::fs::File::create(&file)?;
    let block = text(MIB);
    for _ in 0..size / MIB {
        out.write_all(block.as_bytes())?;
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..place.rounds().min(3) {
        let began = Instant::now();
        for offset in (0..size / MIB * MIB).step_by(PART) {
            let arguments = json!({"path": "large", "offset": offset, "length": PART});
            ask(&mut place.conversation, &request("read_file", &arguments), 1, |_, _| Ok(()))?;
        }
        ours.push(micros(began.elapsed()));
        let from = format!("if={}", file.display());
        theirs.push(run(Command::new("dd").args([&from, "of=/dev/null", "bs=512K"]), &[0])?);
    }
    std::fs::remove_file(file)?;
    compare(results, (PARTS, "dd bs=512K"), (ours, theirs), 1.5);
    Ok(())
}

fn search(place: &mut Workplace, peers: &Installed, results: &mut Results) -> Result<()> {
    let Some(program) = peers.debian_program("rg") else {
        results.absent.push(format!("{SEARCH}: ripgrep is not installed"));
        return Ok(());
    };
    let tree = place.home.work().join("tree");
    let content = text(100 << 10);
    for n in 0..place.size(7_000) {
        let folder = tree.join(format!("{}", n / 100));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(format!("{n}.txt")), &content)?;
    }
    let arguments = json!({"path": "tree", "query": NEEDLE});
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..=place.rounds() {
        let (reply, took) = place.call("search_files", &arguments)?;
        ensure!(reply.pointer("/result/output/complete") == Some(&json!(true)), "not all files: {reply}");
        ours.push(took);
        // Code 1 reports that there is no match.
        let mut command = Command::new(&program);
        theirs.push(run(command.args(["--no-config", "-F", NEEDLE]).arg(&tree), &[1])?);
    }
    std::fs::remove_dir_all(tree)?;
    // The first round fills the page cache.
    let warm = |times: Vec<f64>| times.into_iter().skip(1).collect();
    compare(results, (SEARCH, "ripgrep"), (warm(ours), warm(theirs)), 1.2);
    Ok(())
}

fn fetch(place: &mut Workplace, results: &mut Results) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let body = text(10_000_000);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close";
            let _ = write!(&stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..place.rounds() {
        // Another URL each time, because a fetched page is cached.
        let arguments = json!({"url": format!("{url}/{round}"), "view": "source"});
        ours.push(place.call("fetch_url", &arguments)?.1);
        theirs.push(run(
            Command::new("curl").args(["-s", "-o", "/dev/null"]).arg(format!("{url}/{round}")),
            &[0],
        )?);
    }
    compare(results, (FETCH, "curl"), (ours, theirs), 1.5);
    Ok(())
}

fn tests(place: &mut Workplace, results: &mut Results) -> Result<()> {
    if !process::works(Command::new("npm").arg("--version")) {
        results.absent.push(format!("{TESTS}: npm is not installed"));
        return Ok(());
    }
    let project = place.home.work().join("project");
    std::fs::create_dir_all(&project)?;
    std::fs::write(project.join("package.json"), r#"{"name":"project","scripts":{"test":"true"}}"#)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..place.rounds() {
        ours.push(place.call("run_tests", &json!({"path": "project", "runner": "npm"}))?.1);
        theirs.push(run(Command::new("npm").arg("test").current_dir(&project), &[0])?);
    }
    compare(results, (TESTS, "npm test"), (ours, theirs), 1.05);
    Ok(())
}

fn list(place: &mut Workplace, results: &mut Results) -> Result<()> {
    let (count, folder) = (place.size(1_000_000), place.home.work().join("many"));
    std::fs::create_dir_all(&folder)?;
    for n in 0..count {
        std::fs::File::create(folder.join(format!("entry-{n}")))?;
    }
    let (mut first, mut further) = (Vec::new(), Vec::new());
    for _ in 0..place.rounds() {
        let (reply, took) = place.call("list_directory", &json!({"path": "many"}))?;
        first.push(took);
        let cursor = reply.pointer("/result/output/next_cursor").context("only one page")?;
        further.push(place.call("list_directory", &json!({"path": "many", "cursor": cursor}))?.1);
    }
    let (first, further) =
        (results.add(LIST, "first page", first), results.add(LIST, "further page", further));
    results.claim("first page of a large directory", Some(first / 1e3), "ms", Bound::AtMost(50.0));
    results.claim("further page to first page", Some(further / first), RATIO, Bound::AtMost(2.0));
    let before = reset_peak_memory(place.daemon.pid())?;
    let page = request("list_directory", &json!({"path": "many"}));
    ask_many(&mut place.conversation, &page, (AT_ONCE, AT_ONCE), &mut Vec::new())?;
    let grown = peak_memory(place.daemon.pid())? - before;
    results.claim("memory of 40 listings at once", Some(grown), "MiB", Bound::AtMost(64.0));
    Ok(std::fs::remove_dir_all(folder)?)
}

/// Resets the peak of the resident memory, and returns the new one in MiB.
fn reset_peak_memory(pid: u32) -> Result<f64> {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5")?;
    peak_memory(pid)
}

/// Largest resident memory in MiB.
fn peak_memory(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let Some(line) = status.lines().find_map(|line| line.strip_prefix("VmHWM:")) else { bail!("no VmHWM") };
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}
