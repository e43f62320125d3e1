//! Worker sessions end to end: an orchestrator opens a session, and a worker uses its socket within the
//! session's terms.

mod budgets;
mod endpoints;
#[cfg(target_os = "linux")]
mod handed;
mod operator;
mod refusals;

use serde_json::{Value, json};
use tests::{Client, Daemon, Home};

/// Session with these terms, as reported to its orchestrator.
fn open(orchestrator: &mut Client, terms: &Value) -> Value {
    let reply = orchestrator.request("sinew/session.open", terms);
    assert!(reply["result"]["session_id"].is_string(), "{reply}");
    reply["result"].clone()
}

/// Worker connected to the socket of a session.
fn worker(session: &Value) -> Client {
    Client::connect(session["socket"].as_str().expect("a path").as_ref())
}

/// Events of a session in the daemon's log, by name. The log is written asynchronously but in order: once a
/// later call, which fails, is in it, everything before it is too. Every line of it is one JSON object.
fn events(daemon: &Daemon, session: &Value, name: &str) -> Vec<Value> {
    let mark =
        daemon.agent().execute("read_file", &json!({"path": "missing"}))["metadata"]["trace_id"].clone();
    let mark = mark.as_str().expect("a trace");
    let log = tests::wait_for("the later call in the log", || {
        Some(daemon.home().run(&["logs", "--json"]).must_exit(0).stdout()).filter(|log| log.contains(mark))
    });
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("one JSON object a line"));
    let its = |line: &Value| line["event"] == name && line["session"] == session["session_id"];
    lines.filter(its).collect()
}

#[test]
fn invalid_call_can_be_corrected_within_the_budget() {
    let daemon = Daemon::start_in(Home::initialised().logging_all_calls());
    let mut orchestrator = daemon.agent();
    let session = open(&mut orchestrator, &json!({"allowlist": ["write_file"]}));
    assert_eq!(session["hop_budget"], 2, "as safety.yaml says: {session}");
    let mut worker = worker(&session);
    let target = daemon.home().workspace().join("report.txt");

    let refused = worker.execute("write_file", &json!({"path": "report.txt"}));
    let refusal = &refused["metadata"]["refusal"];
    assert_eq!((&refusal["refused"], &refusal["code"]), (&json!(true), &json!("invalid_arguments")));
    assert!(refusal["schema_error"].as_str().is_some_and(|error| error.contains("content")), "{refusal}");
    assert_eq!(refused["metadata"]["remaining"]["hops"], 1, "a rejected call is spent: {refused}");
    assert!(!target.exists(), "and has no effect");

    let done = worker.execute("write_file", &json!({"path": "report.txt", "content": "all is well"}));
    assert_eq!(done["success"], true, "{done}");
    assert_eq!(done["metadata"]["session"]["id"], session["session_id"]);
    assert_eq!(done["metadata"]["remaining"]["hops"], 0);
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "all is well");

    let third = worker.execute("write_file", &json!({"path": "more.txt", "content": "x"}));
    assert_eq!(third["metadata"]["refusal"]["code"], "hop_budget_exhausted", "{third}");
    orchestrator.request("sinew/session.turn", &json!({"session_id": session["session_id"]}));
    assert_eq!(worker.execute("write_file", &json!({"path": "more.txt", "content": "x"}))["success"], true);

    let records = daemon.home().records();
    let its = |kind: &str| {
        let of = |record: &&Value| {
            tests::holds(record, kind) && record["caller"]["session"] == session["session_id"]
        };
        records.iter().filter(of).count()
    };
    assert_eq!((its("decision"), its("refusal")), (2, 2), "only the valid calls reached the tool");
    assert_eq!(
        events(&daemon, &session, "worker_inner_call").len(),
        3,
        "what there was no budget for is none"
    );
    let [failed] = events(&daemon, &session, "worker_inner_validation_fail").try_into().expect("one event");
    assert_eq!(failed["missing"], json!(["content"]), "{failed}");
    assert!(events(&daemon, &session, "tool_call_started").len() == 2, "a refused call is never announced");

    let id = session["session_id"].as_str().unwrap();
    let found = daemon.home().run(&["ledger", "query", "--session", id, "--json"]).must_exit(0).stdout();
    assert_eq!(found.matches("\"kind\":\"session\"").count(), 1, "opened: {found}");
    assert!(found.contains("\"kind\":\"decision\"") && found.contains("hop_budget_exhausted"), "{found}");
}

#[test]
fn log_stays_one_object_per_line_with_parallel_workers() {
    let daemon = Daemon::start_in(Home::initialised().logging_all_calls());
    let mut orchestrator = daemon.agent();
    let session = open(&mut orchestrator, &json!({"allowlist": ["read_file"], "hop_budget": 400}));
    let hostile = "line\nbreak \"quote\" \\ {\"event\": \"forged\"}\r\n\u{2028}";
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut worker = worker(&session);
                for _ in 0..50 {
                    worker.execute("read_file", &json!({hostile: hostile, "path": 5}));
                    worker.execute(hostile, &json!({}));
                }
            });
        }
    });
    // `events` parses every line as JSON, and fails at the first that is invalid.
    assert_eq!(events(&daemon, &session, "worker_inner_validation_fail").len(), 200);
    assert_eq!(events(&daemon, &session, "worker_inner_call").len(), 400);
    assert!(events(&daemon, &session, "forged").is_empty());
}
