//! Conditions under which approval is required, and the state of a call while it waits.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Client, Daemon, Home, wait_until};

use super::*;

fn written(daemon: &Daemon, name: &str) -> Option<String> {
    std::fs::read_to_string(daemon.home().workspace().join(name)).ok()
}

fn set_mode(control: &mut Client, mode: &str) {
    let set = control.request("control/mode.set", &json!({"mode": mode, "reason": "test"}));
    assert!(set["result"].is_object(), "{set}");
}

#[test]
fn write_in_alert_waits_and_runs_once_approved() {
    let daemon = Daemon::start();
    let mut control = daemon.control();
    set_mode(&mut control, "ALERT");
    let call = suspend(&daemon, json!({"path": "a.txt", "content": "hello\n"}));
    let asked = pending_approvals(&mut control, 1);
    assert_eq!((&asked[0]["state"], &asked[0]["waiting"]), (&json!("pending"), &json!(true)), "{asked:?}");
    assert_eq!(written(&daemon, "a.txt"), None, "it waits");
    let ps = control.request("control/calls.list", &json!({}));
    assert_eq!(ps["result"]["calls"][0]["state"], "suspended", "{ps}");
    // Other callers are served while the call waits.
    assert_eq!(daemon.agent().execute("list_directory", &json!({"path": "."}))["success"], true);
    assert_eq!(decide(&mut control, &id_of(&asked[0]), "approve")["result"]["decided"], true);
    let done = call.join().unwrap();
    assert_eq!(done["success"], true, "{done}");
    assert_eq!(written(&daemon, "a.txt").as_deref(), Some("hello\n"));
    pending_approvals(&mut control, 0);
    let home = daemon.stop();
    let records = home.records();
    let words: Vec<&str> =
        records.iter().filter(|r| r["kind"] == "approval").filter_map(|r| r["event"].as_str()).collect();
    assert_eq!(words, ["requested", "granted", "used"]);
    let decision = records.iter().find(|r| tests::holds(r, "decision") && r["tool"] == "write_file").unwrap();
    assert_eq!(decision["approval_id"], asked[0]["id"]);
    let log = home.run(&["logs", "--json"]).must_exit(0).stdout();
    for event in ["approval_requested", "approval_decided"] {
        assert!(log.contains(&format!("\"{event}\"")), "{event}");
    }
}

#[test]
fn tool_definition_or_mode_alone_requires_approval() {
    // Required by `tools.yaml` alone, in NORMAL.
    let daemon = daemon_requiring_approval();
    let mut agent = daemon.agent();
    request_approval(&mut agent, &json!({"path": "a.txt", "content": "x"}));
    // Required by the mode alone.
    let daemon = Daemon::start();
    set_mode(&mut daemon.control(), "ALERT");
    request_approval(&mut daemon.agent(), &json!({"path": "a.txt", "content": "x"}));
}

#[test]
fn immediate_decision_is_not_lost() {
    let daemon = daemon_requiring_approval();
    let mut control = daemon.control();
    for n in 0..20 {
        let call = suspend(&daemon, json!({"path": format!("{n}.txt"), "content": "x"}));
        // Decides as soon as the request is listed.
        let id = tests::wait_for("the question", || {
            let list = control.request("control/approvals.list", &json!({}));
            list["result"]["approvals"][0]["id"].as_str().map(str::to_owned)
        });
        assert_eq!(decide(&mut control, &id, "approve")["result"]["decided"], true);
        assert_eq!(call.join().unwrap()["success"], true);
    }
    assert_eq!(completed_calls(daemon.home(), "write_file"), 20);
}

#[test]
fn denial_reports_its_message_and_nothing_runs() {
    let daemon = daemon_requiring_approval();
    let mut control = daemon.control();
    let call = suspend(&daemon, json!({"path": "a.txt", "content": "x"}));
    let id = pending_approval(&mut control);
    let denied = daemon.home().run(&["deny", &id, "--reason", "write to b.txt instead"]).must_exit(0);
    assert!(denied.stdout().contains("denied"), "{denied}");
    let refused = call.join().unwrap();
    assert_eq!(code(&refused), "approval_denied");
    assert_eq!(refused["error"], "Permission denied: Approval denied by user: write to b.txt instead");
    let plain = suspend(&daemon, json!({"path": "a.txt", "content": "y"}));
    let id = pending_approval(&mut control);
    decide(&mut control, &id, "deny");
    assert_eq!(plain.join().unwrap()["error"], "Permission denied: Approval denied by user");
    assert_eq!(written(&daemon, "a.txt"), None);
}

#[test]
fn approval_timeout_is_a_denial_with_its_own_reason() {
    let daemon = Daemon::start_in(home_requiring_approval(1));
    let refused = suspend(&daemon, json!({"path": "a.txt", "content": "x"})).join().unwrap();
    assert_eq!(code(&refused), "approval_timed_out");
    assert!(
        refused["error"].as_str().unwrap().starts_with("Permission denied: Approval timed out"),
        "{refused}"
    );
    assert_eq!(written(&daemon, "a.txt"), None);
    pending_approvals(&mut daemon.control(), 0);
    let home = daemon.stop();
    assert!(home.records().iter().any(|r| r["kind"] == "approval" && r["event"] == "expired"));
}

#[test]
fn deadline_covers_the_wait_for_approval() {
    let daemon = daemon_requiring_approval();
    let began = Instant::now();
    let arguments = json!({"path": "a.txt", "content": "x"});
    let refused = suspend_with(&daemon, arguments, json!({"deadline_ms": 5000})).join().unwrap();
    assert_eq!(code(&refused), "approval_timed_out", "{refused}");
    assert!(began.elapsed() < Duration::from_secs(150), "it did not wait for the policy's five minutes");
    pending_approvals(&mut daemon.control(), 0);
}

#[test]
fn approval_requests_are_independent() {
    let daemon = daemon_requiring_approval();
    let mut control = daemon.control();
    let calls: Vec<_> = (0..5)
        .map(|n| {
            let call = suspend(&daemon, json!({"path": format!("{n}.txt"), "content": "x"}));
            pending_approvals(&mut control, n + 1);
            call
        })
        .collect();
    let asked = pending_approvals(&mut control, 5);
    decide(&mut control, &id_of(&asked[3]), "approve");
    decide(&mut control, &id_of(&asked[1]), "deny");
    let left = pending_approvals(&mut control, 3);
    for question in &left {
        decide(&mut control, &id_of(question), "approve");
    }
    let ends: Vec<Value> = calls.into_iter().map(|call| call.join().unwrap()["success"].clone()).collect();
    assert_eq!(json!(ends), json!([true, false, true, true, true]));
}

#[test]
fn refused_call_never_requests_approval() {
    let daemon = daemon_requiring_approval();
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    let refused = agent.execute("write_file", &json!({"path": "/etc/passwd", "content": "x"}));
    assert!(code(&refused).starts_with("path_"), "{refused}");
    assert_eq!(code(&agent.execute("write_file", &json!({"path": "a.txt"}))), "invalid_arguments");
    set_mode(&mut control, "LOCKDOWN");
    let refused = agent.execute("write_file", &json!({"path": "a.txt", "content": "x"}));
    assert_eq!(refused["error"], "Permission denied: Tool not allowed in LOCKDOWN mode");
    pending_approvals(&mut control, 0);
    let home = daemon.stop();
    assert!(!home.records().iter().any(|r| r["kind"] == "approval"), "no approval was requested");
}

#[test]
fn mode_that_forbids_the_call_withdraws_its_request() {
    let daemon = daemon_requiring_approval();
    let mut control = daemon.control();
    let call = suspend(&daemon, json!({"path": "a.txt", "content": "x"}));
    let id = pending_approval(&mut control);
    set_mode(&mut control, "LOCKDOWN");
    assert_eq!(code(&call.join().unwrap()), "mode_denied");
    pending_approvals(&mut control, 0);
    let late = decide(&mut control, &id, "approve");
    assert_eq!(late["error"]["data"]["code"], "already_decided", "{late}");
    // An approval given before the mode change does not help either.
    let daemon = daemon_requiring_approval();
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    let arguments = json!({"path": "a.txt", "content": "x"});
    let id = request_approval(&mut agent, &arguments);
    decide(&mut control, &id, "approve");
    set_mode(&mut control, "LOCKDOWN");
    assert_eq!(code(&write_with_approval(&mut agent, &arguments, &id)), "mode_denied");
    assert_eq!(written(&daemon, "a.txt"), None);
}

#[test]
fn mode_without_approval_lets_the_waiting_call_run() {
    let daemon = Daemon::start();
    let mut control = daemon.control();
    set_mode(&mut control, "ALERT");
    let call = suspend(&daemon, json!({"path": "a.txt", "content": "x"}));
    pending_approval(&mut control);
    set_mode(&mut control, "NORMAL");
    assert_eq!(call.join().unwrap()["success"], true);
    pending_approvals(&mut control, 0);
}

#[test]
fn disconnected_client_keeps_its_request_and_runs_nothing() {
    let daemon = daemon_requiring_approval();
    let mut control = daemon.control();
    let arguments = json!({"path": "a.txt", "content": "x"});
    let mut agent = daemon.agent();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "sinew/execute",
        "params": {"tool_name": "write_file", "arguments": arguments}});
    agent.send(format!("{call}\n").as_bytes());
    let id = pending_approval(&mut control);
    drop(agent);
    wait_until("no caller waits for it any more", || {
        pending_approvals(&mut control, 1)[0]["waiting"] == false
    });
    assert_eq!(decide(&mut control, &id, "approve")["result"]["decided"], true);
    // The same caller may use the approval later, on another connection.
    assert_eq!(written(&daemon, "a.txt"), None, "nothing ran by itself");
    assert_eq!(write_with_approval(&mut daemon.agent(), &arguments, &id)["success"], true);
    assert_eq!(completed_calls(daemon.home(), "write_file"), 1);
}

#[test]
fn daemon_stop_ends_the_wait_and_keeps_the_request() {
    let daemon = daemon_requiring_approval();
    let arguments = json!({"path": "a.txt", "content": "x"});
    let call = suspend(&daemon, arguments);
    let id = pending_approval(&mut daemon.control());
    let began = Instant::now();
    let daemon = Daemon::start_in(daemon.stop());
    assert!(began.elapsed() < Duration::from_secs(15), "a stop does not wait for a decision");
    let ended = call.join().unwrap();
    assert_eq!((code(&ended), detail(&ended)), ("approval_pending", "shutting_down"));
    assert_eq!(pending_approval(&mut daemon.control()), id);
}

#[test]
fn cancelled_call_withdraws_its_request() {
    let daemon = daemon_requiring_approval();
    let mut control = daemon.control();
    let call = suspend(&daemon, json!({"path": "a.txt", "content": "x"}));
    pending_approval(&mut control);
    let calls = control.request("control/calls.list", &json!({}));
    let call_id = calls["result"]["calls"][0]["call_id"].clone();
    control.request("control/calls.cancel", &json!({"call_id": call_id}));
    assert_eq!(code(&call.join().unwrap()), "cancelled");
    pending_approvals(&mut control, 0);
}

#[test]
fn mcp_client_gets_progress_or_a_pending_result() {
    let daemon = daemon_requiring_approval();
    let mut control = daemon.control();
    let mut agent = daemon.agent();
    agent.request(
        "initialize",
        &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}),
    );
    let call = |meta: Value| json!({"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}, "_meta": meta});
    let pending = agent.request("tools/call", &call(json!({"sinew/approval": "async"})));
    let refusal = &pending["result"]["_meta"]["sinew/refusal"];
    assert_eq!(refusal["code"], "approval_pending", "{pending}");
    let id = refusal["approval_id"].as_str().unwrap().to_owned();
    decide(&mut control, &id, "approve");
    let done = agent.request("tools/call", &call(json!({"sinew/approval_id": id})));
    assert_eq!(done["result"]["isError"], false, "{done}");

    let message = json!({"jsonrpc": "2.0", "id": 77, "method": "tools/call",
        "params": call(json!({"progressToken": "p"}))});
    agent.send(format!("{message}\n").as_bytes());
    let reported = agent.receive().expect("progress");
    assert_eq!(
        (&reported["method"], &reported["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!("p"))
    );
    let id = pending_approval(&mut control);
    assert!(reported["params"]["message"].as_str().unwrap().contains(&id), "{reported}");
    decide(&mut control, &id, "approve");
    let end = std::iter::from_fn(|| agent.receive()).find(|message| message["id"] == 77).expect("the answer");
    assert_eq!(end["result"]["isError"], false, "{end}");
}

#[test]
fn native_client_gets_progress_with_the_approval_id() {
    let daemon = daemon_requiring_approval();
    let (mut control, mut agent) = (daemon.control(), daemon.agent());
    let params = json!({"tool_name": "write_file", "arguments": {"path": "a.txt", "content": "x"}, "progress_token": 5});
    let message = json!({"jsonrpc": "2.0", "id": 78, "method": "sinew/execute", "params": params});
    agent.send(format!("{message}\n").as_bytes());
    let reported = agent.receive().expect("progress");
    assert_eq!(
        (&reported["method"], &reported["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!(5))
    );
    let id = pending_approval(&mut control);
    assert_eq!(reported["params"]["_meta"]["sinew/data"], json!({"approval_id": id}));
    decide(&mut control, &id, "approve");
    let end = std::iter::from_fn(|| agent.receive()).find(|message| message["id"] == 78).expect("the answer");
    assert_eq!(end["result"]["success"], true, "{end}");
}

#[test]
fn without_daemon_and_terminal_approval_is_refused() {
    let home = home_requiring_approval(300);
    let refused = home.run(&["call", "write_file", "path=a.txt", "content=x"]).must_exit(4);
    assert!(refused.stderr().contains("no approver is available"), "{refused}");
    assert!(!home.workspace().join("a.txt").exists());
}

#[test]
fn too_many_requests_of_one_caller_are_refused() {
    let daemon = daemon_requiring_approval();
    let mut agent = daemon.agent();
    for n in 0..32 {
        request_approval(&mut agent, &json!({"path": format!("{n}.txt"), "content": "x"}));
    }
    let async_ = json!({"approval": "async"});
    let refused = agent.execute_with("write_file", &json!({"path": "x.txt", "content": "x"}), &async_);
    assert_eq!((code(&refused), detail(&refused)), ("busy", "too_many_approvals"));
    // Another client name is still the same process.
    let mut renamed = daemon.agent();
    let client = json!({"name": "another", "version": "1"});
    let handshake = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    renamed.request("initialize", &handshake);
    let call = json!({"name": "write_file", "arguments": {"path": "x.txt", "content": "x"},
        "_meta": {"sinew/approval": "async"}});
    let refusal = renamed.request("tools/call", &call)["result"]["_meta"]["sinew/refusal"].clone();
    assert_eq!(refusal["detail"], "too_many_approvals", "{refusal}");
    // Each command is another process, but of the same user.
    let words = ["call", "--async", "write_file", "path=x.txt", "content=x", "--json"];
    let mut pending = 32;
    let refused = loop {
        let refusal = daemon.home().run(&words).json()["metadata"]["refusal"].clone();
        if refusal["code"] != "approval_pending" {
            break refusal;
        }
        pending += 1;
        assert!(pending <= 64, "there is no end to it");
    };
    assert_eq!((pending, &refused["code"]), (64, &json!("busy")), "{refused}");
    assert!(refused["reason"].as_str().unwrap().contains("64 approval requests of this user"), "{refused}");
}

#[test]
fn command_line_exits_with_the_pending_approval_code() {
    let daemon = daemon_requiring_approval();
    let home: &Home = daemon.home();
    let pending =
        home.run(&["call", "--async", "write_file", "path=a.txt", "content=x", "--json"]).must_exit(4);
    let id = pending.json()["metadata"]["refusal"]["approval_id"].as_str().unwrap().to_owned();
    home.run(&["approve", &id]).must_exit(0);
    let words = ["call", "--approval-id", &id, "write_file", "path=a.txt", "content=x"];
    home.run(&words).must_exit(0);
    home.run(&words).must_exit(3);
}
