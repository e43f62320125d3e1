//! Live events on the control socket; a slow subscriber delays no call.

use serde_json::{Value, json};
use tests::{Client, Daemon, Home};

/// Subscribes to events on a connection of its own.
fn watch(daemon: &Daemon, params: &Value) -> Client {
    let mut control = daemon.control();
    let response = control.request("control/events", params);
    assert_eq!(response["result"]["following"], true, "{response}");
    control
}

#[test]
fn events_arrive_as_they_happen() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "x");
    let (mut all, mut blocked) =
        (watch(&daemon, &json!({})), watch(&daemon, &json!({"events": ["tool_call_blocked"]})));
    let mut agent = daemon.agent();
    let done = agent.execute("read_file", &json!({"path": "a.txt"}));
    let refused = agent.execute("read_file", &json!({"path": "/etc/hostname"}));
    for (event, call) in
        [("tool_call_started", &done), ("tool_call_completed", &done), ("tool_call_blocked", &refused)]
    {
        let reported = all.receive().expect("an event");
        assert_eq!(reported["method"], "control/event", "{reported}");
        assert_eq!(
            (&reported["params"]["event"], &reported["params"]["call_id"]),
            (&json!(event), &call["metadata"]["call_id"])
        );
        assert_eq!(reported["params"]["trace_id"], call["metadata"]["trace_id"]);
    }
    let only = blocked.receive().expect("an event");
    assert_eq!(only["params"]["call_id"], refused["metadata"]["call_id"], "only what was asked for: {only}");
    // The connection still answers requests.
    let mode = all.request("control/mode.get", &json!({}));
    assert_eq!(mode["result"]["mode"], "NORMAL");
}

/// Both calls belong to one trace of the caller, and each has a span.
#[test]
fn events_of_a_call_share_its_trace_and_span() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "x");
    let (mut watching, mut agent) = (watch(&daemon, &json!({})), daemon.agent());
    let mut spans = Vec::new();
    for (path, end) in [("a.txt", "tool_call_completed"), ("missing.txt", "tool_call_failed")] {
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let params = json!({"tool_name": "read_file", "arguments": {"path": path}, "trace_ctx": trace});
        let metadata = agent.request("sinew/execute", &params)["result"]["metadata"].clone();
        assert_eq!(metadata["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736", "{metadata}");
        for event in ["tool_call_started", end] {
            let reported = watching.receive().expect("an event")["params"].clone();
            assert_eq!(reported["event"], event, "{reported}");
            for id in ["trace_id", "span_id"] {
                assert_eq!(reported[id], metadata[id], "{event}: {reported}");
            }
            assert_eq!(reported["latency_ms"].as_f64() > Some(0.0), event == end, "{reported}");
            let is_failure = event == "tool_call_failed";
            assert_eq!(reported["error"].as_str().is_some_and(|error| !error.is_empty()), is_failure);
        }
        spans.push(metadata["span_id"].clone());
    }
    assert_ne!(spans[0], spans[1]);
}

#[test]
fn slow_subscriber_gets_the_count_of_missed_events() {
    const CALLS: u64 = 3000;
    const AT_ONCE: u64 = 60;
    let home = Home::initialised();
    // The long stall timeout keeps the subscriber connected on a slow machine; another test covers
    // disconnection.
    let settings = std::fs::read_to_string(home.root().join("config/sinew.yaml")).unwrap();
    home.configure("sinew.yaml", &settings.replace("write_stall_seconds: 10 ", "write_stall_seconds: 600 "));
    let daemon = Daemon::start_in(home);
    let mut sleeper = watch(&daemon, &json!({}));
    let mut agent = daemon.agent();
    let params = json!({"tool_name": "x".repeat(250), "arguments": {}});
    let line = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "sinew/execute", "params": params});
    for _ in 0..CALLS / AT_ONCE {
        let lines: String = (0..AT_ONCE).map(|id| format!("{}\n", line(id))).collect();
        agent.send(lines.as_bytes());
        for _ in 0..AT_ONCE {
            assert_eq!(agent.receive().expect("an answer")["result"]["success"], false);
        }
    }
    // Every call was answered while the subscriber did not read; now it reads.
    let (mut seen, mut missed) = (0, 0);
    // Each event is either received or counted as missed; there is one per call.
    while seen + missed < CALLS {
        let reported = sleeper.receive().expect("more to come");
        match reported["method"].as_str() {
            Some("control/event") => seen += 1,
            Some("control/events.missed") => {
                missed += reported["params"]["count"].as_u64().unwrap();
                assert_eq!(reported["params"]["total"], missed);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(seen > 0 && missed > 0, "{seen} seen, {missed} missed");
}
