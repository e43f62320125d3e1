//! Calls with an idempotency key: a repeated call runs once, on any connection and after a restart.

use serde_json::{Value, json};
use tests::{Bridge, Client, Daemon, Home};

/// Home whose rules allow any command.
fn home() -> Home {
    let home = Home::initialised();
    let rules = "tools:\n  run_command:\n    allowed_in_modes: [NORMAL]\n    allowed_commands: [\"*\"]\n";
    home.configure("governance/tools.yaml", rules);
    home
}

fn marked(key: &str, pause: f32) -> Value {
    let line = format!("sleep {pause}; echo ran >> runs.txt");
    json!({"tool_name": "run_command", "arguments": {"command": ["sh", "-c", line]}, "idempotency_key": key})
}

fn execute(client: &mut Client, params: &Value) -> Value {
    let response = client.request("sinew/execute", params);
    assert!(response["result"].is_object(), "{response}");
    response["result"].clone()
}

fn runs(home: &Home) -> usize {
    std::fs::read_to_string(home.workspace().join("runs.txt")).unwrap_or_default().lines().count()
}

#[test]
fn idempotency_key_runs_once_over_connections_and_restart() {
    let daemon = Daemon::start_in(home());
    let call = marked("k", 0.3);
    let ends: Vec<Value> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..2).map(|_| scope.spawn(|| execute(&mut daemon.agent(), &call))).collect();
        started.into_iter().map(|one| one.join().expect("an end")).collect()
    });
    assert_eq!(runs(daemon.home()), 1);
    let (first, second): (Vec<&Value>, Vec<&Value>) =
        ends.iter().partition(|end| end["metadata"]["repeat"].is_null());
    let ([first], [second]) = (first.as_slice(), second.as_slice()) else { panic!("{ends:?}") };
    assert_eq!(first["output"]["exit_code"], 0, "{first}");
    assert_eq!((&second["success"], &second["metadata"]["cached"]), (&json!(true), &json!(true)), "{second}");
    assert_eq!(second["metadata"]["repeat"]["of"], first["metadata"]["call_id"]);
    assert_eq!(second["output"], json!({}), "what the tool answered is kept nowhere");

    let mut agent = daemon.agent();
    let other = execute(&mut agent, &marked("k", 0.4));
    assert_eq!(
        (&other["metadata"]["refusal"]["code"], &other["metadata"]["refusal"]["detail"]),
        (&json!("conflict"), &json!("duplicate_id")),
        "{other}"
    );
    for (wrong, field) in [(json!(""), "idempotency_key"), (json!(5), "idempotency_key")] {
        let call = json!({"tool_name": "run_command", "arguments": {}, "idempotency_key": wrong});
        assert_eq!(agent.request("sinew/execute", &call)["error"]["data"]["field"], field);
    }

    let daemon = Daemon::start_in(daemon.stop());
    let later = execute(&mut daemon.agent(), &call);
    assert_eq!(later["metadata"]["repeat"]["of"], first["metadata"]["call_id"], "{later}");
    assert_eq!(runs(daemon.home()), 1);
}

#[test]
fn call_cut_short_by_a_crash_is_not_run_again() {
    let daemon = Daemon::start_in(home());
    let call = marked("k", 30.0);
    let mut agent = daemon.agent();
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "sinew/execute", "params": call});
    agent.send(format!("{line}\n").as_bytes());
    let mut control = daemon.control();
    let running = |control: &mut Client| {
        let reported = control.request("control/calls.list", &json!({}));
        reported["result"]["calls"].as_array().unwrap().iter().any(|call| call["state"] == "running")
    };
    while !running(&mut control) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let daemon = Daemon::start_in(daemon.crash());
    let again = execute(&mut daemon.agent(), &call);
    assert_eq!(
        (&again["success"], &again["metadata"]["repeat"]["outcome"]),
        (&json!(false), &json!("unknown"))
    );
    assert!(again["metadata"]["failure"]["hint"].as_str().unwrap().contains("new key"), "{again}");
    assert_eq!(runs(daemon.home()), 0);
}

#[test]
fn repeat_in_mcp_is_marked_as_one() {
    let daemon = Daemon::start();
    let mut agent = daemon.agent();
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "m"}});
    agent.request("initialize", &hello);
    let params = json!({"name": "write_file", "arguments": {"path": "a.txt", "content": "once"},
        "_meta": {"sinew/idempotency_key": "k"}});
    let first = agent.request("tools/call", &params)["result"].clone();
    assert!(first["structuredContent"].is_object(), "{first}");
    std::fs::write(daemon.home().workspace().join("a.txt"), "changed since").unwrap();
    let again = agent.request("tools/call", &params)["result"].clone();
    assert_eq!((&again["isError"], again.get("structuredContent")), (&json!(false), None), "{again}");
    assert!(again["content"][0]["text"].as_str().unwrap().contains("was not run again"), "{again}");
    assert_eq!(std::fs::read_to_string(daemon.home().workspace().join("a.txt")).unwrap(), "changed since");
    let shown = daemon.home().run(&["call", "write_file", "path=b", "content=x", "--idempotency-key", "c"]);
    shown.must_exit(0);
    let shown = daemon.home().run(&["call", "write_file", "path=b", "content=x", "--idempotency-key", "c"]);
    assert!(shown.must_exit(0).stderr().contains("not run again"));
}

#[test]
fn edited_call_is_matched_by_its_original_arguments() {
    let home = Home::initialised();
    home.configure("governance/tools.yaml", "tools:\n  write_file: {requires_approval: true}\n");
    let daemon = Daemon::start_in(home);
    let sent = json!({"tool_name": "write_file", "idempotency_key": "k", "cwd": daemon.home().workspace(),
        "arguments": {"path": "a.txt", "content": "x"}});
    let mut agent = daemon.agent();
    let call = sent.clone();
    let mut waits = daemon.agent();
    let waiting = std::thread::spawn(move || execute(&mut waits, &sent));
    let mut control = daemon.control();
    let question = |control: &mut Client| loop {
        let list = control.request("control/approvals.list", &json!({}));
        if let Some(id) = list["result"]["approvals"][0]["id"].as_str() {
            break id.to_owned();
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let first = question(&mut control);
    let changed = json!({"id": first, "answer": "edit", "arguments": {"path": "b.txt", "content": "x"}});
    let next = control.request("control/approvals.decide", &changed)["result"]["new_request_id"].clone();
    control.request("control/approvals.decide", &json!({"id": next, "answer": "approve"}));
    let done = waiting.join().unwrap();
    assert_eq!(done["success"], true, "{done}");
    let again = execute(&mut agent, &call);
    assert_eq!(again["metadata"]["repeat"]["of"], done["metadata"]["call_id"], "a fair repeat: {again}");
    assert_eq!(again["metadata"]["repeat"]["edited"], true, "and told what became of it: {again}");
    // The edited call counts as another call, and so do the same arguments in another folder.
    let mut other = call.clone();
    other["arguments"]["path"] = json!("b.txt");
    let mut elsewhere = call;
    std::fs::create_dir(daemon.home().workspace().join("sub")).unwrap();
    elsewhere["cwd"] = json!(daemon.home().workspace().join("sub"));
    for another in [other, elsewhere] {
        let refused = execute(&mut agent, &another);
        assert_eq!(refused["metadata"]["refusal"]["detail"], "duplicate_id", "{refused}");
    }
}

/// A restarted orchestrator is another process with the same name. It fetches the outcome, and the output stays where it
/// was sent.
#[test]
fn restarted_client_gets_the_outcome_under_its_key() {
    let daemon = Daemon::start_in(home());
    let start = |name: &str| {
        let mut bridge = Bridge::start(daemon.home(), &[]);
        bridge.handshake_as(name);
        bridge
    };
    let call = json!({"tool_name": "run_command", "idempotency_key": "k",
        "arguments": {"command": ["sh", "-c", "echo ran >> runs.txt; seq 100000"]}});
    let mut first = start("orchestrator");
    let done = first.request("sinew/execute", &call)["result"].clone();
    let spill =
        json!({"tool_name": "read_output", "arguments": {"id": done["output"]["stdout_spill"]["id"]}});
    drop(first);
    let mut restarted = start("orchestrator");
    let repeat = restarted.request("sinew/execute", &call)["result"].clone();
    assert_eq!(repeat["metadata"]["repeat"]["of"], done["metadata"]["call_id"], "{repeat}");
    assert_eq!((&repeat["output"], runs(daemon.home())), (&json!({}), 1), "no output, and no second run");
    // The id of the stored output is random: only a process that received it can send it.
    assert_eq!(restarted.request("sinew/execute", &spill)["result"]["success"], true);

    let mut other = start("other");
    let unknown = other.request("sinew/execute", &spill)["result"].clone();
    assert_eq!(unknown["metadata"]["failure"]["kind"], "not_found", "{unknown}");
    let ran = other.request("sinew/execute", &call)["result"].clone();
    assert_eq!(
        (&ran["metadata"]["repeat"], runs(daemon.home())),
        (&json!(null), 2),
        "a key of its own: {ran}"
    );
}
