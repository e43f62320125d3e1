//! One caller cannot stop the others. Each caller here is a real process: a bridge, or the test itself.

#[cfg(target_os = "linux")]
use std::io::Write;
#[cfg(target_os = "linux")]
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Bridge, Client, Daemon, Home, wait_until};

fn refusal(result: &Value) -> &Value {
    &result["metadata"]["refusal"]
}

/// Runs a tool as the process of a bridge, and returns the result of the call.
fn execute(bridge: &mut Bridge, tool: &str, arguments: &Value) -> Value {
    bridge.request("sinew/execute", &json!({"tool_name": tool, "arguments": arguments}))["result"].clone()
}

/// Arguments of a high-risk call that the shipped policy refuses, each with an effect of its own.
fn forbidden(home: &Home, number: usize) -> Value {
    json!({"path": home.user_home().join(".ssh").join(number.to_string()), "content": "x"})
}

fn mode(daemon: &Daemon) -> Value {
    daemon.control().request("control/mode.get", &json!({}))["result"]["mode"].clone()
}

#[test]
fn refusals_of_one_client_suspend_that_client_only() {
    let daemon = Daemon::start();
    let (mut hostile, mut good) = (Bridge::start(daemon.home(), &[]), Bridge::start(daemon.home(), &[]));
    hostile.handshake();
    good.handshake();
    let write = json!({"path": "a.txt", "content": "x"});
    for number in 0..21 {
        let refused = execute(&mut hostile, "write_file", &forbidden(daemon.home(), number));
        assert_eq!(refused["success"], false, "{refused}");
        assert_eq!(execute(&mut good, "write_file", &write)["success"], true, "after {number} refusals");
    }
    let suspended =
        || daemon.home().run(&["callers", "list", "--json"]).must_exit(0).json()["suspended"].clone();
    wait_until("the suspension", || suspended()[0]["id"].is_string());
    assert_eq!(mode(&daemon), "NORMAL", "the others work on as before");
    let refused = execute(&mut hostile, "write_file", &write);
    assert_eq!(
        (&refusal(&refused)["code"], &refusal(&refused)["detail"]),
        (&json!("rate_limited"), &json!("caller_suspended")),
        "{refused}"
    );
    assert!(refusal(&refused)["retry_after_ms"].as_u64().is_some_and(|left| left > 500_000), "{refused}");
    assert_eq!(execute(&mut good, "write_file", &write)["success"], true);
    assert_eq!(daemon.agent().execute("write_file", &write)["success"], true);

    // The operator is told, and can end it.
    let status = daemon.home().run(&["status"]).must_exit(0).stdout();
    let id = suspended()[0]["id"].as_str().expect("an id").to_owned();
    for part in [&format!("{id} (host)"), "refused_high_risk_calls", &format!("sinew callers resume {id}")] {
        assert!(status.contains(part), "{part}: {status}");
    }
    let log = daemon.home().run(&["logs", "--json"]).must_exit(0).stdout();
    assert!(log.lines().any(|line| line.contains("\"caller_suspended\"")), "{log}");
    assert!(daemon.agent().request("control/callers.resume", &json!({"caller": id}))["error"].is_object());
    daemon.home().run(&["callers", "resume", &id]).must_exit(0);
    assert_eq!(execute(&mut hostile, "write_file", &write)["success"], true);
    drop((hostile, good));
    let notes = daemon.stop().records();
    let notes: Vec<&str> = notes.iter().filter_map(|record| record["about"].as_str()).collect();
    assert!(notes.contains(&"caller_suspended") && notes.contains(&"caller_resumed"), "{notes:?}");
}

#[test]
fn suspended_caller_cannot_continue_through_a_session() {
    let daemon = Daemon::start();
    let mut agent = daemon.agent();
    let terms = json!({"allowlist": ["write_file"]});
    let opened = agent.request("sinew/session.open", &terms)["result"].clone();
    let mut worker = Client::connect(opened["socket"].as_str().expect("a socket").as_ref());
    let write = json!({"path": "a.txt", "content": "x"});
    assert_eq!(worker.execute("write_file", &write)["success"], true);
    for number in 0..21 {
        agent.execute("write_file", &forbidden(daemon.home(), number));
    }
    wait_until("the suspension", || {
        refusal(&agent.execute("write_file", &write))["detail"] == "caller_suspended"
    });
    let refused = worker.execute("write_file", &write);
    assert_eq!(refusal(&refused)["detail"], "caller_suspended", "its opener is suspended: {refused}");
    let another = agent.request("sinew/session.open", &terms);
    assert_eq!(another["error"]["data"]["code"], "rate_limited", "{another}");
}

#[test]
fn refusals_of_several_clients_still_raise_the_alarm() {
    let daemon = Daemon::start();
    let mut clients: Vec<Bridge> = (0..3).map(|_| Bridge::start(daemon.home(), &[])).collect();
    clients.iter_mut().for_each(Bridge::handshake);
    for number in 0..10 {
        execute(&mut clients[number % 3], "write_file", &forbidden(daemon.home(), number));
    }
    wait_until("the alarm", || mode(&daemon) == "ALERT");
    let suspended = daemon.home().run(&["callers", "list"]).must_exit(0);
    assert!(suspended.stderr().contains("no caller is suspended"), "{suspended}");
}

#[test]
fn rate_limit_of_one_caller_leaves_calls_to_another() {
    let home = Home::initialised();
    home.file("a.txt", "x");
    let tools = "tools:\n  read_file:\n    allowed_in_modes: [NORMAL]\n    rate_limit_per_hour: 5\n";
    home.configure("governance/tools.yaml", tools);
    let daemon = Daemon::start_in(home);
    let read = json!({"path": "a.txt"});
    let done = |result: &Value| result["success"] == true;
    let mut own = 0;
    // Another connection is the same caller.
    while own < 10 && done(&daemon.agent().execute("read_file", &read)) {
        own += 1;
    }
    assert_eq!(own, 5);
    let all: Vec<usize> = (0..8)
        .map(|_| {
            let mut other = Bridge::start(daemon.home(), &[]);
            other.handshake();
            (0..10).take_while(|_| done(&execute(&mut other, "read_file", &read))).count()
        })
        .collect();
    assert_eq!(all[..2], [5, 5], "{all:?}");
    assert_eq!(own + all.iter().sum::<usize>(), 20, "all callers together: {all:?}");
}

#[test]
fn refusals_are_paced_per_caller_and_never_held_back() {
    let daemon = Daemon::start();
    let mut agent = daemon.agent();
    let ask = |id: usize| {
        let params = json!({"tool_name": "no_such_tool", "arguments": {}});
        format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "sinew/execute", "params": params}))
    };
    let (mut paced, mut slowest) = (0, Duration::ZERO);
    for round in 0..180 {
        let begun = Instant::now();
        agent.send((0..100).map(|n| ask(round * 100 + n)).collect::<String>().as_bytes());
        for _ in 0..100 {
            let reply = agent.receive().expect("an answer")["result"].clone();
            match refusal(&reply)["code"].as_str() {
                Some("unknown_tool") => {}
                Some("rate_limited") => {
                    paced += 1;
                    assert!(refusal(&reply)["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{reply}");
                    let hint = refusal(&reply)["hint"].as_str().expect("a hint");
                    assert!(hint.contains("unknown_tool"), "the cause is not lost: {hint}");
                }
                _ => panic!("{reply}"),
            }
        }
        slowest = slowest.max(begun.elapsed());
    }
    assert!(paced > 500, "{paced} of 18,000");
    assert!(slowest < Duration::from_secs(10), "a hundred took {slowest:?}; unpaced ones would take minutes");
    let mut other = Bridge::start(daemon.home(), &[]);
    other.handshake();
    let refused = execute(&mut other, "no_such_tool", &json!({}));
    assert_eq!(refusal(&refused)["code"], "unknown_tool", "another caller is not affected: {refused}");
}

#[test]
fn idle_connections_do_not_lock_others_out() {
    let home = Home::initialised();
    let settings = std::fs::read_to_string(home.root().join("config/sinew.yaml")).expect("readable");
    home.configure("sinew.yaml", &settings.replace("max_connections: 256", "max_connections: 12"));
    let daemon = Daemon::start_in(home);
    let connect = || {
        let mut client = daemon.agent();
        let reply = client.request("sinew/status", &json!({}));
        (client, reply)
    };
    let held: Vec<(Client, Value)> = (0..12).map(|_| connect()).collect();
    assert!(held.iter().all(|(_, reply)| reply["result"].is_object()));
    let busy = daemon.agent().receive().expect("an answer");
    assert_eq!(busy["error"]["data"]["code"], "busy", "{busy}");
    // A caller that has no connection finds one, at once.
    let mut other = Bridge::start(daemon.home(), &["--no-start"]);
    other.handshake();
    // And the connections that are only kept open make room.
    wait_until("an idle connection is closed", || {
        let mut client = daemon.agent();
        let reply = client.try_execute("runtime_status", &json!({}));
        reply.is_some_and(|reply| reply["result"]["success"] == true)
    });
}

#[test]
fn initialized_connections_do_not_lock_others_out() {
    let home = Home::initialised();
    let settings = std::fs::read_to_string(home.root().join("config/sinew.yaml")).expect("readable");
    home.configure("sinew.yaml", &settings.replace("max_connections: 256", "max_connections: 12"));
    let daemon = Daemon::start_in(home);
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "holder"}});
    let held: Vec<Client> = (0..12)
        .map(|_| {
            let mut client = daemon.agent();
            assert!(client.request("initialize", &params)["result"].is_object());
            client
        })
        .collect();
    // Callers without a connection find one at once, with a subscription.
    let mut others: Vec<Bridge> = (0..16).map(|_| Bridge::start(daemon.home(), &["--no-start"])).collect();
    others.iter_mut().for_each(Bridge::handshake);
    // And for further callers, connections that are only kept open make room.
    wait_until("an idle connection is closed", || {
        daemon.home().run(&["tools", "list"]).output.status.success()
    });
    drop(held);
}

#[cfg(target_os = "linux")]
#[test]
fn read_does_not_wait_for_long_runs_of_others() {
    let home =
        crate::sandbox::home("    timeout_seconds: 120\n  read_file:\n    allowed_in_modes: [NORMAL]\n");
    home.file("a.txt", "x");
    let daemon = Daemon::start_in(home);
    let states = || {
        let calls = daemon.control().request("control/calls.list", &json!({}))["result"]["calls"].clone();
        let of = |state: &str| {
            calls.as_array().into_iter().flatten().filter(|call| call["state"] == state).count()
        };
        (of("running"), of("queued"))
    };
    let mut long: Vec<Bridge> = (0..4).map(|_| Bridge::start(daemon.home(), &[])).collect();
    for (number, bridge) in long.iter_mut().enumerate() {
        bridge.handshake();
        let params = json!({"tool_name": "run_command", "arguments": {"command": ["sleep", "60"]}});
        for id in 100..164 {
            let run = json!({"jsonrpc": "2.0", "id": id, "method": "sinew/execute", "params": params});
            bridge.send(&run.to_string());
        }
        // One caller after the other: callers that arrive together all leave the last slots free for another one.
        wait_until("all calls of the caller run or wait", || {
            let (running, queued) = states();
            running + queued == (number + 1) * 64
        });
    }
    // 56 slots are for long calls, and the last of them only for a caller with fewer than three.
    wait_until("the slots for long calls are taken, and the rest waits", || {
        states().0 >= 55 && states().1 > 100
    });
    let mut reader = daemon.agent();
    let mut waits = Vec::new();
    for _ in 0..20 {
        let read = reader.execute("read_file", &json!({"path": "a.txt"}));
        assert_eq!(read["success"], true, "{read}");
        let id = read["metadata"]["call_id"].clone();
        let records = daemon.home().complete_records();
        let outcome =
            records.iter().rfind(|record| tests::holds(record, "outcome") && record["call_id"] == id);
        let stages = outcome.expect("a record")["run"]["stages"].as_array().expect("stages").clone();
        let reserve = stages.iter().find(|stage| stage["stage"] == "reserve").expect("a stage");
        waits.push(reserve["duration_us"].as_u64().expect("a time"));
    }
    assert!(states().0 >= 55, "the runs are still there");
    assert!(waits.iter().all(|wait| *wait < 200_000), "microseconds: {waits:?}");
}

#[test]
fn sessions_do_not_multiply_a_rate_limit() {
    let home = Home::initialised();
    home.file("a.txt", "x");
    let tools = "tools:\n  read_file:\n    allowed_in_modes: [NORMAL]\n    rate_limit_per_hour: 5\n";
    home.configure("governance/tools.yaml", tools);
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    let read = json!({"path": "a.txt"});
    let mut done = 0;
    for _ in 0..4 {
        let terms = json!({"allowlist": ["read_file"], "hop_budget": 9});
        let opened = agent.request("sinew/session.open", &terms)["result"].clone();
        let mut worker = Client::connect(opened["socket"].as_str().expect("a socket").as_ref());
        done += (0..4).filter(|_| worker.execute("read_file", &read)["success"] == true).count();
    }
    assert_eq!(done, 5, "four sessions and their opener are one caller");
    let refused = agent.execute("read_file", &read);
    assert_eq!(refusal(&refused)["detail"], "tool_per_hour", "{refused}");
}

#[test]
fn open_sessions_of_one_process_leave_room_for_another() {
    let daemon = Daemon::start();
    let (mut first, mut second) = (daemon.agent(), daemon.agent());
    let client = json!({"name": "renamed", "version": "1"});
    second.request(
        "initialize",
        &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}),
    );
    let terms = json!({"allowlist": ["read_file"]});
    let mut open = |name: &str| {
        // Another client name on another connection is the same process.
        let client = if name == "first" { &mut first } else { &mut second };
        client.request("sinew/session.open", &terms)["error"]["data"]["code"].clone()
    };
    let opened = (0..64).take_while(|n| open(if n % 2 == 0 { "first" } else { "second" }).is_null()).count();
    assert_eq!(opened, 32);
    assert_eq!(open("first"), "busy");
    let mut other = Bridge::start(daemon.home(), &[]);
    other.handshake();
    for _ in 0..8 {
        let reply = other.request("sinew/session.open", &terms);
        assert!(reply["result"]["session_id"].is_string(), "{reply}");
    }
}

#[test]
fn host_session_id_in_a_message_is_not_an_identity() {
    let daemon = Daemon::start();
    let judged = |session: &str, number: usize| {
        let input = json!({"file_path": daemon.home().user_home().join(".ssh").join(number.to_string()), "content": "x"});
        json!({"host": "claude-code", "tool_name": "Write", "tool_input": input, "session_id": session,
            "cwd": daemon.home().workspace()})
    };
    let mut hostile = daemon.agent();
    for number in 0..21 {
        let verdict = hostile.request("sinew/judge_host", &judged("victim", number))["result"].clone();
        assert_eq!(verdict["verdict"], "deny", "{verdict}");
    }
    let is_suspended = |verdict: &Value| verdict["refusal"]["detail"] == "caller_suspended";
    wait_until("the suspension", || {
        is_suspended(&hostile.request("sinew/judge_host", &judged("victim", 99))["result"])
    });
    let other_id = hostile.request("sinew/judge_host", &judged("another", 98))["result"].clone();
    assert!(is_suspended(&other_id), "another id is no way out: {other_id}");
    let suspended =
        daemon.home().run(&["callers", "list", "--json"]).must_exit(0).json()["suspended"].clone();
    let ids: Vec<&str> =
        suspended.as_array().expect("a list").iter().filter_map(|one| one["id"].as_str()).collect();
    assert!(
        ids.len() == 1 && ids[0].starts_with("process:"),
        "a process, and not the session it named: {ids:?}"
    );
}

/// Runs `sinew hook` for a call that the shipped policy refuses, as a child of the test, and returns its reason.
#[cfg(target_os = "linux")]
fn hook_reason(home: &Home, number: usize) -> String {
    let mut command = tests::sinew();
    command.args(["hook", "pre-tool-use"]).env("SINEW_HOME", home.root()).env("HOME", home.user_home());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("start the hook");
    let path = home.user_home().join(".ssh").join(number.to_string());
    let event = json!({"session_id": "s", "cwd": home.workspace(), "hook_event_name": "PreToolUse",
        "tool_name": "Write", "tool_input": {"file_path": path, "content": "x"}, "tool_use_id": "t"});
    let mut input = child.stdin.take().expect("its input");
    input.write_all(event.to_string().as_bytes()).expect("the hook reads");
    drop(input);
    let output = child.wait_with_output().expect("wait for the hook").stdout;
    let reply: Value = serde_json::from_slice(&output).expect("JSON");
    assert_eq!(reply["hookSpecificOutput"]["permissionDecision"], "deny", "{reply}");
    reply["hookSpecificOutput"]["permissionDecisionReason"].as_str().expect("a reason").to_owned()
}

#[cfg(target_os = "linux")]
#[test]
fn child_of_a_host_is_not_taken_for_its_hook() {
    let daemon = Daemon::start();
    let home = daemon.home();
    // A bridge is a child of the test as well, and forwards what others send.
    let mut child = Bridge::start(home, &[]);
    child.handshake();
    let mut judged = |number: usize| {
        let params = json!({"host": "claude-code", "tool_name": "Write", "cwd": home.workspace(),
            "tool_input": {"file_path": home.user_home().join(".ssh").join(number.to_string()), "content": "x"}});
        child.request("sinew/judge_host", &params)["result"]["refusal"]["detail"].clone()
    };
    for number in 0..21 {
        judged(number);
    }
    wait_until("the suspension of the child", || judged(99) == "caller_suspended");
    let reason = hook_reason(home, 100);
    assert!(!reason.contains("suspended"), "its parent is not: {reason}");
    // Hooks are processes of their own, and count as one host.
    for number in 101..122 {
        hook_reason(home, number);
    }
    wait_until("the suspension of the host", || hook_reason(home, 101).contains("suspended"));
}
