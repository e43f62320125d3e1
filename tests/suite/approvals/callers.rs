//! Ownership of an approval: only the caller that requested it can use it.

use std::time::{Duration, Instant};

use serde_json::json;
use tests::Bridge;

use super::*;

/// Returns a client on the worker socket of a new session, and the orchestrator connection that keeps the
/// session open.
fn worker(daemon: &Daemon) -> (Client, Client) {
    let mut orchestrator = daemon.agent();
    let terms = json!({"allowlist": ["write_file"], "hop_budget": 900});
    let session = orchestrator.request("sinew/session.open", &terms)["result"].clone();
    let socket = session["socket"].as_str().unwrap_or_else(|| panic!("{session}")).to_owned();
    (Client::connect(socket.as_ref()), orchestrator)
}

pub(super) fn named_client(daemon: &Daemon, name: &str) -> Client {
    let mut agent = daemon.agent();
    let client = json!({"name": name, "version": "1"});
    agent.request(
        "initialize",
        &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}),
    );
    agent
}

#[test]
fn approval_of_one_worker_is_used_once_and_only_by_it() {
    let daemon = daemon_requiring_approval();
    let ((mut one, _first), (mut other, _second)) = (worker(&daemon), worker(&daemon));
    let arguments = json!({"path": "a.txt", "content": "x", "mode": "append"});
    let id = request_approval(&mut one, &arguments);
    // Other callers are refused before the decision, after it, and on the orchestrator's own connection.
    let pending = write_with_approval(&mut other, &arguments, &id);
    assert_eq!((code(&pending), detail(&pending)), ("conflict", "approval_unknown"), "{pending}");
    decide(&mut daemon.control(), &id, "approve");
    for thief in [&mut other, &mut daemon.agent(), &mut named_client(&daemon, "thief")] {
        let stolen = write_with_approval(thief, &arguments, &id);
        assert_eq!((code(&stolen), detail(&stolen)), ("conflict", "approval_unknown"), "{stolen}");
    }
    // The workers send a hundred requests without waiting for responses, half of them from the wrong worker.
    for n in 0..50 {
        let params = json!({"tool_name": "write_file", "arguments": arguments, "approval": "async", "approval_id": id});
        let line = json!({"jsonrpc": "2.0", "id": 1000 + n, "method": "sinew/execute", "params": params});
        for endpoint in [&mut one, &mut other] {
            endpoint.send(format!("{line}\n").as_bytes());
        }
    }
    let ends: Vec<Value> = [&mut one, &mut other]
        .into_iter()
        .flat_map(|endpoint| {
            (0..50).map(|_| endpoint.receive().expect("an answer")["result"].clone()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(ends.iter().filter(|end| end["success"] == true).count(), 1, "{ends:?}");
    assert_eq!(std::fs::read_to_string(daemon.home().workspace().join("a.txt")).unwrap(), "x");
    assert_eq!(completed_calls(daemon.home(), "write_file"), 1);
}

#[test]
fn client_with_a_masked_or_cut_name_gets_its_own_approval() {
    let daemon = daemon_requiring_approval();
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0".repeat(2));
    for name in [format!("token {secret}"), "long ".repeat(60)] {
        let arguments = json!({"path": "a.txt", "content": name.len().to_string()});
        let id = request_approval(&mut named_client(&daemon, &name), &arguments);
        let request = daemon.control().request("control/approvals.show", &json!({"id": id}));
        assert!(!request.to_string().contains(&secret), "{request}");
        decide(&mut daemon.control(), &id, "approve");
        let done = write_with_approval(&mut named_client(&daemon, &name), &arguments, &id);
        assert_eq!(done["success"], true, "{name}: {done}");
    }
}

/// Neither caller has a name, but a caller on the control socket is distinct from one on the agent socket.
#[test]
fn operator_call_approval_does_not_cover_an_agent() {
    let daemon = daemon_requiring_approval();
    let arguments = json!({"path": "a.txt", "content": "x"});
    let params = json!({"tool_name": "write_file", "arguments": arguments, "approval": "async"});
    let asked = daemon.control().request("control/execute", &params)["result"].clone();
    let id = asked["metadata"]["refusal"]["approval_id"].as_str().unwrap_or_else(|| panic!("{asked}"));
    let request = daemon.control().request("control/approvals.show", &json!({"id": id}));
    assert!(
        request["result"]["caller"].as_str().unwrap().ends_with("through the control socket"),
        "{request}"
    );
    daemon.home().run(&["approve", id, "--for", "10m", "--yes"]).must_exit(0);
    let refused = write_with_approval(&mut daemon.agent(), &arguments, id);
    assert_eq!(refused["success"], false, "{refused}");
    let asked = daemon.agent().execute_with("write_file", &arguments, &json!({"approval": "async"}));
    assert_eq!(code(&asked), "approval_pending", "{asked}");
    assert!(!daemon.home().workspace().join("a.txt").exists());
}

#[test]
fn edited_call_goes_to_the_connection_that_waited_first() {
    let daemon = daemon_requiring_approval();
    let mut control = daemon.control();
    let arguments = json!({"path": "a.txt", "content": "x"});
    let first = suspend(&daemon, arguments.clone());
    let id = pending_approval(&mut control);
    // Two more connections of the same caller wait for the same approval; one of them disconnects.
    let params = json!({"tool_name": "write_file", "arguments": arguments, "approval_id": id});
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "sinew/execute", "params": params});
    let (mut passing, mut staying) = (daemon.agent(), daemon.agent());
    for other in [&mut passing, &mut staying] {
        other.send(format!("{line}\n").as_bytes());
    }
    until_suspended(&mut control, 3);
    drop(passing);
    until_suspended(&mut control, 2);
    assert_eq!(pending_approvals(&mut control, 1)[0]["waiting"], true, "the first still does");
    let edit = json!({"id": id, "answer": "edit", "arguments": {"path": "b.txt", "content": "y"}});
    let asks = control.request("control/approvals.decide", &edit)["result"]["new_request_id"].clone();
    assert!(asks.is_string(), "{asks}");
    let sent_away = staying.receive().expect("an answer")["result"].clone();
    assert_eq!(detail(&sent_away), "approval_withdrawn", "{sent_away}");
    decide(&mut control, asks.as_str().unwrap(), "approve");
    let done = first.join().unwrap();
    assert_eq!(done["metadata"]["edited_arguments"]["path"], "b.txt", "{done}");
    assert_eq!(completed_calls(daemon.home(), "write_file"), 1);
}

/// Waits until exactly `count` calls wait for approval.
fn until_suspended(control: &mut Client, count: usize) {
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let calls = control.request("control/calls.list", &json!({}));
        let calls = calls["result"]["calls"].as_array().unwrap();
        if calls.iter().filter(|call| call["state"] == "suspended").count() == count {
            return;
        }
        assert!(Instant::now() < deadline, "not {count} wait: {calls:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Calls `write_file` as the process of a bridge, without waiting for a decision.
fn write_as(bridge: &mut Bridge, path: &str, approval_id: Option<&str>) -> Value {
    let mut params =
        json!({"tool_name": "write_file", "arguments": {"path": path, "content": "x"}, "approval": "async"});
    if let Some(id) = approval_id {
        params["approval_id"] = json!(id);
    }
    bridge.request("sinew/execute", &params)["result"].clone()
}

#[test]
fn approval_without_id_belongs_to_the_process_that_asked() {
    let daemon = daemon_requiring_approval();
    let start = || {
        let mut bridge = Bridge::start(daemon.home(), &[]);
        bridge.handshake();
        bridge
    };
    let (mut first, mut copy) = (start(), start());
    let ask = |bridge: &mut Bridge, path: &str| {
        let pending = write_as(bridge, path, None);
        assert_eq!(code(&pending), "approval_pending", "{pending}");
        pending["metadata"]["refusal"]["approval_id"].as_str().expect("an id").to_owned()
    };
    let id = ask(&mut first, "a.txt");
    assert_eq!(ask(&mut first, "a.txt"), id, "a repeat does not ask again");
    decide(&mut daemon.control(), &id, "approve");
    assert_ne!(ask(&mut copy, "a.txt"), id, "another process with the same name asks for itself");
    assert_eq!(write_as(&mut first, "a.txt", None)["success"], true, "the process that asked continues");

    // A client that was restarted continues with the id only.
    let id = ask(&mut first, "b.txt");
    decide(&mut daemon.control(), &id, "approve");
    drop(first);
    let mut restarted = start();
    assert_ne!(ask(&mut restarted, "b.txt"), id);
    assert_eq!(write_as(&mut restarted, "b.txt", Some(&id))["success"], true);
    assert_eq!(completed_calls(daemon.home(), "write_file"), 2);
}
