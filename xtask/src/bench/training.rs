//! Workload for recording a profile of the program: calls over every endpoint, one at a time and concurrent,
//! granted and refused, commands of the command line, and starts.
//!
//! Nothing is measured here, but every answer is checked: a profile of errors would be worse than none.

use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

use super::conversation::{BenchRequest, Conversation, ask, ask_many};
use super::daemon::{Daemon, Home};
use super::{hook, life};
use crate::process;

/// Rounds of the most frequent request; several others are a fraction of it.
const REQUESTS: usize = 3_000;
const CONCURRENCY: usize = 64;
/// Starts with the state of earlier ones.
const STARTS: usize = 5;
const MANIFESTS: usize = 100;

/// Tool, arguments, text that every answer contains, and number of calls.
type TrainingCall = (&'static str, Value, &'static str, usize);

/// Runs the whole workload against a program, in new homes below `folder`.
pub(crate) fn train(binary: &Path, folder: &Path) -> Result<()> {
    let home = Home::make(binary, &folder.join("few"))?;
    let daemon = home.start()?;
    call_native_endpoint(&daemon)?;
    by_mcp(daemon.connect()?)?;
    by_mcp(Conversation::on_pipes(&mut home.sinew(&["mcp"]))?)?;
    hook::ask_often(&home, REQUESTS / 300)?;
    run_commands(&home)?;
    daemon.end()?;
    start_again(&home)?;
    refused(&Home::make(binary, &folder.join("refused"))?)?;
    let many = Home::make(binary, &folder.join("many"))?;
    life::manifests(&many, MANIFESTS)?;
    start_again(&many)
}

fn call_native_endpoint(daemon: &Daemon) -> Result<()> {
    let mut native = daemon.connect()?;
    let read = BenchRequest::read();
    ask(&mut native, &read, REQUESTS, |_, _| Ok(()))?;
    ask_many(&mut native, &read, (REQUESTS, CONCURRENCY), &mut Vec::new())?;
    teach(&mut native, granted())?;
    let params = json!({"tool_name": "read_file", "arguments": {"path": "kib.txt"}});
    ask(&mut native, &BenchRequest::new("sinew/explain", &params, "permit"), REQUESTS / 30, |_, _| Ok(()))?;
    ask(
        &mut native,
        &BenchRequest::new("sinew/status", &json!({}), "uptime_seconds"),
        REQUESTS / 10,
        |_, _| Ok(()),
    )
}

fn teach(native: &mut Conversation, lessons: Vec<TrainingCall>) -> Result<()> {
    lessons.into_iter().try_for_each(|(tool, arguments, expected, often)| {
        let params = json!({"tool_name": tool, "arguments": arguments});
        ask(native, &BenchRequest::new("sinew/execute", &params, expected), often, |_, _| Ok(()))
    })
}

fn granted() -> Vec<TrainingCall> {
    let done = "\"success\":true";
    vec![
        ("list_directory", json!({"path": "."}), done, 100),
        ("search_files", json!({"path": ".", "query": "xx"}), done, 50),
        ("write_file", json!({"path": "made.txt", "content": "hello\n"}), done, 50),
        (
            "edit_file",
            json!({"path": "made.txt", "edits": [{"old_text": "hello", "new_text": "hello!"}]}),
            done,
            1,
        ),
        ("system_metrics_snapshot", json!({}), done, 20),
        ("runtime_status", json!({}), done, 20),
    ]
}

/// Runs refused calls in a home of their own, because the daemon becomes stricter after a few of them.
fn refused(home: &Home) -> Result<()> {
    let daemon = home.start()?;
    let refused = "\"refused\":true";
    let lessons = vec![
        ("read_file", json!({"path": "/etc/shadow"}), refused, 50),
        ("read_file", json!({"pth": "kib.txt"}), refused, 50),
        ("no_such_tool", json!({}), refused, 20),
    ];
    teach(&mut daemon.connect()?, lessons)?;
    daemon.end()
}

fn by_mcp(mut client: Conversation) -> Result<()> {
    client.initialise()?;
    let params = json!({"name": "read_file", "arguments": {"path": "kib.txt"}});
    let call = BenchRequest::new("tools/call", &params, "xxxxxxxx");
    ask(&mut client, &call, REQUESTS / 2, |_, _| Ok(()))?;
    ask_many(&mut client, &call, (REQUESTS / 2, CONCURRENCY), &mut Vec::new())?;
    ask(&mut client, &BenchRequest::new("tools/list", &json!({}), "read_file"), REQUESTS / 150, |_, _| Ok(()))
}

fn run_commands(home: &Home) -> Result<()> {
    let lines: [&[&str]; 6] = [
        &["status"],
        &["tools", "list"],
        &["check"],
        &["ledger", "tail"],
        &["ledger", "query", "--tool", "read_file"],
        &["ledger", "verify"],
    ];
    lines.iter().try_for_each(|arguments| process::capture(&mut home.sinew(arguments)).map(drop))
}

fn start_again(home: &Home) -> Result<()> {
    for _ in 0..STARTS {
        life::first_answer(home)?.0.end()?;
    }
    Ok(())
}
