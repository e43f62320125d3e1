//! A call that waits for approval: its client is notified, or gets a reply before its timeout, and an
//! identical call continues with the decision.

use serde_json::json;

use super::callers::named_client;
use super::*;

/// Daemon that answers a waiting call without progress after a second.
fn briefly_waiting_daemon() -> Daemon {
    let home = home_requiring_approval(300);
    let settings = std::fs::read_to_string(home.root().join("config/sinew.yaml")).expect("readable");
    let brief = settings.replace("approval_answer_seconds: 50", "approval_answer_seconds: 1");
    assert_ne!(brief, settings);
    home.configure("sinew.yaml", &brief);
    Daemon::start_in(home)
}

#[test]
fn client_with_a_progress_token_hears_of_the_approval_at_once() {
    let daemon = briefly_waiting_daemon();
    let mut agent = daemon.agent();
    let write = json!({"path": "a.txt", "content": "x"});
    let params = json!({"tool_name": "write_file", "arguments": write, "progress_token": "t"});
    let begun = Instant::now();
    agent.send(
        format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": "sinew/execute", "params": params}))
            .as_bytes(),
    );
    let mut messages = Vec::new();
    for _ in 0..2 {
        let note = agent.receive().expect("progress");
        assert_eq!(
            (&note["method"], &note["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!("t"))
        );
        messages.push(note["params"]["message"].as_str().expect("a message").to_owned());
        assert!(messages.len() > 1 || begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }
    let id = pending_approval(&mut daemon.control());
    for message in &messages {
        assert!(message.starts_with(&format!("waiting for approval {id}")), "{message}");
        assert!(message.contains(&format!("sinew approve {id}")), "{message}");
    }
    decide(&mut daemon.control(), &id, "approve");
    let done = std::iter::from_fn(|| agent.receive()).find(|line| line["id"] == 1).expect("a reply");
    assert_eq!(done["result"]["success"], true, "it still waits after the limit for others: {done}");
}

#[test]
fn pending_call_is_answered_and_continued_exactly_once() {
    let daemon = briefly_waiting_daemon();
    let mut agent = named_client(&daemon, "one");
    let write = json!({"path": "a.txt", "content": "x", "mode": "append"});
    let call = |client: &mut Client| {
        client.request("tools/call", &json!({"name": "write_file", "arguments": write}))
    };
    let pending = |reply: &Value| {
        let text = reply["result"].to_string();
        assert!(reply["result"]["isError"] == true && text.contains("approval_pending"), "{reply}");
        assert!(text.contains("call again with the same arguments to continue"), "{reply}");
    };
    let begun = Instant::now();
    pending(&call(&mut agent));
    assert!((1..30).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    let id = pending_approval(&mut daemon.control());
    // The same call waits for the same decision: the operator is not asked twice.
    pending(&call(&mut agent));
    assert_eq!(pending_approval(&mut daemon.control()), id);
    decide(&mut daemon.control(), &id, "approve");
    // Neither another caller nor other arguments get the approval.
    let other = named_client(&daemon, "two")
        .request("tools/call", &json!({"name": "write_file", "arguments": write}));
    pending(&other);
    let differs =
        json!({"name": "write_file", "arguments": {"path": "a.txt", "content": "y", "mode": "append"}});
    pending(&agent.request("tools/call", &differs));
    let done = call(&mut agent);
    assert_ne!(done["result"]["isError"], true, "{done}");
    pending(&call(&mut agent));
    assert_eq!(completed_calls(daemon.home(), "write_file"), 1, "exactly once");
    assert_eq!(std::fs::read_to_string(daemon.home().workspace().join("a.txt")).expect("written"), "x");
}

#[test]
fn identical_calls_at_the_same_time_need_an_approval_each() {
    let daemon = daemon_requiring_approval();
    let write = json!({"path": "a.txt", "content": "x", "mode": "append"});
    let (one, two) = (suspend(&daemon, write.clone()), suspend(&daemon, write));
    let mut control = daemon.control();
    for question in pending_approvals(&mut control, 2) {
        decide(&mut control, &id_of(&question), "deny");
    }
    for call in [one, two] {
        assert_eq!(code(&call.join().expect("it ends")), "approval_denied");
    }
}

#[test]
fn same_call_is_answered_by_the_earlier_denial() {
    let daemon = daemon_requiring_approval();
    let mut control = daemon.control();
    let write = json!({"path": "a.txt", "content": "x"});
    let call = suspend(&daemon, write.clone());
    let id = pending_approval(&mut control);
    control.request("control/approvals.decide", &json!({"id": id, "answer": "deny", "message": "not today"}));
    assert_eq!(code(&call.join().expect("it ends")), "approval_denied");
    for _ in 0..3 {
        let again = daemon.agent().execute("write_file", &write);
        assert_eq!((code(&again), detail(&again)), ("approval_denied", "denied_before"), "{again}");
        assert!(again["error"].as_str().expect("a reason").contains("not today"), "{again}");
    }
    pending_approvals(&mut daemon.control(), 0);
    let explained =
        daemon.agent().request("sinew/explain", &json!({"tool_name": "write_file", "arguments": write}));
    assert_eq!(explained["result"]["verdict"], "deny", "explain agrees: {explained}");
    request_approval(&mut daemon.agent(), &json!({"path": "b.txt", "content": "x"}));
    let renamed = named_client(&daemon, "another").execute("write_file", &write);
    assert_eq!(detail(&renamed), "denied_before", "the same process under another name: {renamed}");
    let mut other = tests::Bridge::start(daemon.home(), &[]);
    other.handshake_as("another");
    let params = json!({"tool_name": "write_file", "arguments": write, "approval": "async"});
    let asked = other.request("sinew/execute", &params)["result"].clone();
    assert_eq!(code(&asked), "approval_pending", "another process with another name: {asked}");
}

#[test]
fn approval_ids_are_unguessable() {
    let daemon = daemon_requiring_approval();
    let (mut agent, mut other) = (daemon.agent(), named_client(&daemon, "other"));
    let write = json!({"path": "a.txt", "content": "x"});
    let id = request_approval(&mut agent, &write);
    assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "128 bits: {id}");
    let refused = |result: Value| {
        let mut refusal = result["metadata"]["refusal"].clone();
        for field in ["trace_id", "approval_id"] {
            refusal[field].take();
        }
        refusal
    };
    let foreign = refused(write_with_approval(&mut other, &write, &id));
    let unknown = refused(write_with_approval(&mut other, &write, &"0".repeat(32)));
    assert_eq!(foreign, unknown, "one answer for both");
    let prefix = write_with_approval(&mut agent, &write, &id[..10]);
    assert_eq!(detail(&prefix), "approval_unknown", "a prefix is not the id: {prefix}");
}
