//! Calls whose client is gone: they end with every process they started, unless they asked to outlive their
//! connection.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Bridge, Daemon, wait_for, wait_until};

use super::bounds::must_vanish;
use super::cancel::{running, tree};
use super::home;

/// Daemon whose commands may run for a minute.
fn daemon() -> Daemon {
    Daemon::start_in(home("    timeout_seconds: 60\n"))
}

/// Word that occurs in the command line of the processes of one test.
fn marker(test: &str) -> String {
    format!("sinew-{test}-{}", std::process::id())
}

fn request(id: u64, method: &str, params: &Value) -> String {
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
}

fn execute(id: u64, arguments: &Value) -> String {
    request(id, "sinew/execute", &json!({"tool_name": "run_command", "arguments": arguments}))
}

fn running_calls(daemon: &Daemon) -> Vec<Value> {
    let reported = daemon.control().request("control/calls.list", &json!({}))["result"]["calls"].take();
    let calls = reported.as_array().expect("a list").iter();
    calls.filter(|call| call["state"] == "running").map(|call| call["call_id"].clone()).collect()
}

/// Outcome record of the last call.
fn last_outcome(daemon: &Daemon) -> Value {
    wait_for("its end is on record", || {
        daemon.home().complete_records().into_iter().rfind(|record| tests::holds(record, "outcome"))
    })
}

/// Checks that a call that loses its client ends with its processes in about a second, and is recorded so.
fn check(daemon: &Daemon, marker: &str, lose_client: impl FnOnce()) {
    let call_id = running(daemon)["call_id"].clone();
    let began = Instant::now();
    lose_client();
    must_vanish(marker);
    // The bound is one second on an idle machine.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let end = last_outcome(daemon);
    assert_eq!((&end["call_id"], &end["failure"]), (&call_id, &json!("client_gone")), "{end}");
}

#[test]
fn closed_connection_ends_its_call() {
    let (daemon, word) = (daemon(), marker("closed"));
    let mut agent = daemon.agent();
    agent.send(execute(1, &tree(&word)).as_bytes());
    check(&daemon, &word, || drop(agent));
}

#[test]
fn half_closed_connection_ends_its_call_and_is_told() {
    let (daemon, word) = (daemon(), marker("half-closed"));
    let mut agent = daemon.agent();
    agent.send(execute(7, &tree(&word)).as_bytes());
    let stream = agent.clone_stream();
    check(&daemon, &word, || stream.shutdown(Shutdown::Write).expect("it is open"));
    let reply = agent.receive().expect("the client still reads");
    assert_eq!(
        (&reply["id"], &reply["error"]["data"]["code"]),
        (&json!(7), &json!("client_gone")),
        "{reply}"
    );
    assert!(reply["error"]["message"].as_str().unwrap().contains("`detached`"), "{reply}");
}

#[test]
fn ended_bridge_ends_its_call() {
    for how in ["killed", "input closed"] {
        let (daemon, word) = (daemon(), marker("bridge"));
        let mut bridge = Bridge::start(daemon.home(), &[]);
        bridge.handshake();
        let params = json!({"name": "run_command", "arguments": tree(&word)});
        bridge.send(request(9, "tools/call", &params).trim());
        check(&daemon, &word, || match how {
            "killed" => drop(bridge),
            _ => assert_eq!(bridge.close(), Some(0)),
        });
    }
}

#[test]
fn lost_connection_is_noticed_at_the_in_flight_limit() {
    let home = home("    timeout_seconds: 60\n");
    let path = home.root().join("config/sinew.yaml");
    let settings = std::fs::read_to_string(&path).expect("the settings");
    let tight = settings.replace("max_in_flight_per_connection: 64", "max_in_flight_per_connection: 1");
    assert_ne!(tight, settings);
    std::fs::write(path, tight).expect("the settings");
    let (daemon, word) = (Daemon::start_in(home), marker("limit"));
    let mut agent = daemon.agent();
    agent.send(execute(1, &tree(&word)).as_bytes());
    check(&daemon, &word, || drop(agent));
}

#[test]
fn detached_call_outlives_its_connection() {
    let daemon = daemon();
    let done = daemon.home().workspace().join("done");
    let arguments =
        json!({"command": ["sh", "-c", "until [ -e go ]; do sleep 0.05; done; echo kept > done"]});
    let params = json!({"tool_name": "run_command", "arguments": arguments,
        "detached": true, "idempotency_key": "nightly"});
    let mut agent = daemon.agent();
    agent.send(request(1, "sinew/execute", &params).as_bytes());
    let call_id = running(&daemon)["call_id"].clone();
    // An ordinary call of the same connection shows when the loss is noticed.
    agent.send(execute(2, &tree("sinew-attached")).as_bytes());
    wait_until("both run", || running_calls(&daemon).len() == 2);
    drop(agent);
    wait_until("the ordinary call is ended", || running_calls(&daemon) == [call_id.clone()]);
    daemon.home().file("go", "");
    wait_until("the command ends", || done.exists());
    let repeat = daemon.agent().request("sinew/execute", &params)["result"].clone();
    assert_eq!(
        (&repeat["success"], &repeat["metadata"]["repeat"]["of"]),
        (&json!(true), &call_id),
        "{repeat}"
    );
}

#[test]
fn detached_call_needs_an_idempotency_key() {
    let daemon = daemon();
    let params = json!({"tool_name": "run_command", "arguments": {"command": ["true"]}, "detached": true});
    let error = daemon.agent().request("sinew/execute", &params)["error"].clone();
    assert_eq!(error["data"]["field"], "detached", "{error}");
    assert!(error["message"].as_str().unwrap().contains("needs `idempotency_key`"), "{error}");
    let mut client = daemon.agent();
    crate::mcp::shake(&mut client, "2025-11-25");
    let params =
        json!({"name": "run_command", "arguments": {"command": ["true"]}, "_meta": {"sinew/detached": true}});
    let error = client.request("tools/call", &params)["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("needs `sinew/idempotency_key`"), "{error}");
}
