//! Cancelled calls: they end at once with every process they started, and only an authorised client can
//! cancel them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Client, Daemon, wait_for};

use super::bounds::must_vanish;
use super::home;

/// Command that starts several processes, also in another session, and would run for a minute.
pub(super) fn tree(word: &str) -> Value {
    let code = format!(
        "'{word}'\nimport os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  time.sleep(60)\n time.sleep(60)\ntime.sleep(60)"
    );
    json!({"command": ["python3", "-c", code]})
}

/// Waits until a call runs, and returns it as `control/calls.list` shows it.
pub(super) fn running(daemon: &Daemon) -> Value {
    let (mut control, deadline) = (daemon.control(), Instant::now() + Duration::from_secs(20));
    loop {
        let reported = control.request("control/calls.list", &json!({}))["result"].clone();
        let calls = reported["calls"].as_array().expect("a list");
        if let Some(call) = calls.iter().find(|call| call["state"] == "running") {
            return call.clone();
        }
        assert!(Instant::now() < deadline, "nothing runs: {reported}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn shake_hands(agent: &mut Client) {
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "Marvin"}});
    assert!(agent.request("initialize", &params)["result"].is_object());
}

#[test]
fn operator_sees_and_cancels_a_running_call() {
    let daemon = Daemon::start_in(home("    timeout_seconds: 60\n"));
    let word = format!("sinew-cancel-{}", std::process::id());
    let mut agent = daemon.agent();
    shake_hands(&mut agent);
    let arguments = tree(&word);
    let asked = std::thread::spawn(move || {
        let params = json!({"name": "run_command", "arguments": arguments});
        agent.request("tools/call", &params)
    });
    let call = running(&daemon);
    let id = call["call_id"].as_str().expect("an id").to_owned();
    let shown = daemon.home().run(&["ps"]).must_exit(0).stdout();
    // The list shows the first digits of an id.
    for part in [id.get(..13).expect("digits"), "running", "run_command", "Marvin"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let reported = daemon.home().run(&["ps", "--json"]).must_exit(0).json();
    assert_eq!((&reported["schema_version"], &reported["calls"][0]["call_id"]), (&json!(1), &json!(id)));

    let mut control = daemon.control();
    let ended = control.request("control/calls.cancel", &json!({"call_id": id}));
    assert_eq!(ended["result"]["ended"], true, "{ended}");
    must_vanish(&word);
    let result = asked.join().expect("an answer")["result"].clone();
    assert_eq!(result["_meta"]["sinew/failure"]["kind"], "cancelled", "{result}");
    assert_eq!(daemon.home().run(&["ps"]).must_exit(0).stdout(), "");
    let again = daemon.home().run(&["cancel", &id]).must_exit(1);
    assert!(again.stderr().contains(&format!("no call `{id}` is in progress")), "{again}");
    let end = daemon.home().records().into_iter().rfind(|record| tests::holds(record, "outcome")).unwrap();
    assert_eq!((&end["call_id"], &end["failure"]), (&json!(id), &json!("cancelled")));
}

#[test]
fn client_cancels_its_own_call_and_gets_no_answer() {
    let daemon = Daemon::start_in(home("    timeout_seconds: 60\n"));
    let word = format!("sinew-withdraw-{}", std::process::id());
    let (mut agent, mut other) = (daemon.agent(), daemon.agent());
    shake_hands(&mut agent);
    shake_hands(&mut other);
    let call = json!({"jsonrpc": "2.0", "id": "mine", "method": "tools/call",
        "params": {"name": "run_command", "arguments": tree(&word)}});
    agent.send(format!("{call}\n").as_bytes());
    let id = running(&daemon)["call_id"].clone();
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "mine"}});
    // A request id is local to its connection, and only the control socket accepts call ids.
    other.send(format!("{cancel}\n").as_bytes());
    assert_eq!(other.request("ping", &json!({}))["result"], json!({}));
    let elsewhere = other.request("control/calls.cancel", &json!({"call_id": id}));
    assert_eq!(elsewhere["error"]["code"], -32601, "{elsewhere}");
    assert_eq!(running(&daemon)["call_id"], id, "no other request ended it");

    agent.send(format!("{cancel}\n").as_bytes());
    must_vanish(&word);
    let next = agent.request("ping", &json!({}));
    assert_eq!(next["result"], json!({}), "the next line is the next answer: {next}");
    let end = wait_for("its end is on record", || {
        daemon.home().complete_records().into_iter().rfind(|record| tests::holds(record, "outcome"))
    });
    assert_eq!((&end["call_id"], &end["failure"]), (&id, &json!("cancelled")));
    assert!(end["message"].as_str().unwrap().ends_with("by its caller"), "{end}");
}
