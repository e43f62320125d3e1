//! Approvals: when approval is required, which caller may use a decision, and that a decision covers exactly
//! one call.

mod answers;
mod asking;
mod callers;
mod effects;
mod explanation;
mod grants;
mod notify;
mod pin;
#[cfg(target_os = "linux")]
mod programs;
mod replays;
mod requests;
mod roles;
mod screen;
mod terminal;
mod waiting;

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Client, Daemon, Home};

/// Returns a home whose policy requires approval for every `write_file`, with the given approval timeout.
fn home_requiring_approval(timeout_seconds: u64) -> Home {
    let home = Home::initialised();
    home.configure(
        "governance/tools.yaml",
        "tools:\n  write_file: {requires_approval: true, allowed_in_modes: [NORMAL, ALERT]}\n",
    );
    let safety = std::fs::read_to_string(home.root().join("config/governance/safety.yaml")).expect("written");
    let time_limit = format!("timeout_seconds: {timeout_seconds} ");
    home.configure("governance/safety.yaml", &safety.replace("timeout_seconds: 300", &time_limit));
    home
}

fn daemon_requiring_approval() -> Daemon {
    Daemon::start_in(home_requiring_approval(300))
}

/// Starts a `write_file` call that waits for approval in its own thread.
fn suspend(daemon: &Daemon, arguments: Value) -> JoinHandle<Value> {
    suspend_with(daemon, arguments, json!({}))
}

fn suspend_with(daemon: &Daemon, arguments: Value, more: Value) -> JoinHandle<Value> {
    let mut agent = daemon.agent();
    std::thread::spawn(move || agent.execute_with("write_file", &arguments, &more))
}

/// Waits until exactly `count` approvals are pending, and returns them.
fn pending_approvals(control: &mut Client, count: usize) -> Vec<Value> {
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let reply = control.request("control/approvals.list", &json!({}));
        let list = reply["result"]["approvals"].as_array().unwrap_or_else(|| panic!("{reply}")).clone();
        if list.len() == count {
            return list;
        }
        assert!(Instant::now() < deadline, "not {count} questions: {list:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns the id of the only pending approval.
fn pending_approval(control: &mut Client) -> String {
    id_of(&pending_approvals(control, 1)[0])
}

fn id_of(question: &Value) -> String {
    question["id"].as_str().expect("an id").to_owned()
}

fn decide(control: &mut Client, id: &str, answer: &str) -> Value {
    control.request("control/approvals.decide", &json!({"id": id, "answer": answer}))
}

/// Requests approval for a `write_file` call without waiting for the decision, and returns the approval id.
fn request_approval(agent: &mut Client, arguments: &Value) -> String {
    let pending = agent.execute_with("write_file", arguments, &json!({"approval": "async"}));
    let refusal = &pending["metadata"]["refusal"];
    assert_eq!(refusal["code"], "approval_pending", "{pending}");
    refusal["approval_id"].as_str().expect("an id").to_owned()
}

fn write_with_approval(agent: &mut Client, arguments: &Value, id: &str) -> Value {
    agent.execute_with("write_file", arguments, &json!({"approval": "async", "approval_id": id}))
}

fn code(result: &Value) -> &str {
    result["metadata"]["refusal"]["code"].as_str().unwrap_or_else(|| panic!("not refused: {result}"))
}

fn detail(result: &Value) -> &str {
    result["metadata"]["refusal"]["detail"].as_str().unwrap_or_else(|| panic!("no detail: {result}"))
}

/// Counts the completed calls of a tool in the ledger.
fn completed_calls(home: &Home, tool: &str) -> usize {
    let records = home.complete_records();
    let ran = |record: &&Value| {
        tests::holds(record, "outcome") && record["tool"] == tool && record["outcome"] == "done"
    };
    records.iter().filter(ran).count()
}
