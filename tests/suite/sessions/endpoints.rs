//! Socket of a session: the only endpoint of its worker, removed with the session, and without access to
//! anything else.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde_json::{Value, json};
use tests::{Bridge, Daemon, Home, wait_until};

use super::{open, worker};

fn sockets(home: &Home) -> Vec<PathBuf> {
    let run = home.socket("agent.sock").parent().unwrap().to_owned();
    let entries = std::fs::read_dir(run).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("w-")).collect()
}

fn terms() -> Value {
    json!({"allowlist": ["read_file"], "hop_budget": 9})
}

#[test]
fn worker_can_call_tools_and_nothing_else() {
    let daemon = Daemon::start();
    let mut orchestrator = daemon.agent();
    let session = open(&mut orchestrator, &terms());
    let path = PathBuf::from(session["socket"].as_str().unwrap());
    let facts = std::fs::symlink_metadata(&path).unwrap();
    assert!(facts.file_type().is_socket());
    assert_eq!(facts.permissions().mode() & 0o777, 0o600);
    assert_eq!(path.parent(), daemon.home().socket("agent.sock").parent());
    let name = path.file_stem().unwrap().to_str().unwrap();
    assert!(
        !name.contains(session["session_id"].as_str().unwrap()),
        "the session id does not reveal the socket"
    );
    let mut worker = worker(&session);
    let id = session["session_id"].clone();
    for (method, params) in [
        ("sinew/session.open", json!({"allowlist": ["write_file"]})),
        ("sinew/session.turn", json!({"session_id": id})),
        ("sinew/session.spend", json!({"session_id": id, "cost": 0})),
        ("sinew/session.close", json!({"session_id": id})),
        ("sinew/judge_host", json!({"host": "claude-code", "tool_name": "Bash", "tool_input": {}})),
        ("sinew/explain", json!({"tool_name": "read_file", "arguments": {}})),
        ("control/mode.set", json!({"mode": "LOCKDOWN", "reason": "me"})),
        ("control/calls.list", json!({})),
        ("control/shutdown", json!({})),
    ] {
        let answer = worker.request(method, &params);
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
    }
    // It cannot name another session, or none, in a call either.
    let forged = json!({"tool_name": "read_file", "arguments": {"path": "a"}, "session": null});
    assert_eq!(worker.request("sinew/execute", &forged)["error"]["code"], -32602);
}

#[test]
fn unnamed_session_ends_with_its_connection() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "a");
    let mut orchestrator = daemon.agent();
    let passing = open(&mut orchestrator, &terms());
    let mut named = terms();
    named["name"] = json!("night-shift");
    let lasting = open(&mut orchestrator, &named);
    let twice = orchestrator.request("sinew/session.open", &named);
    assert_eq!(twice["error"]["data"]["code"], "conflict", "{twice}");
    let (mut one, mut two) = (worker(&passing), worker(&lasting));
    // A session of another connection and an unknown one give the same error.
    let mut stranger = daemon.agent();
    let ask = |id: &Value| json!({"session_id": id});
    let other = stranger.request("sinew/session.close", &ask(&passing["session_id"]));
    let none = stranger.request("sinew/session.close", &ask(&json!("00")));
    assert_eq!((&other["error"]["data"]["code"], &other["error"]), (&json!("not_found"), &none["error"]));
    assert_eq!(sockets(daemon.home()).len(), 2);

    drop(orchestrator);
    wait_until("the session is over", || sockets(daemon.home()).len() == 1);
    assert_eq!(one.read_until_closed(), b"", "connections to its socket are closed");
    assert!(UnixStream::connect(passing["socket"].as_str().unwrap()).is_err());
    assert_eq!(two.execute("read_file", &json!({"path": "a.txt"}))["success"], true);
    let closed = stranger.request("sinew/session.close", &ask(&lasting["session_id"]));
    assert_eq!(closed["result"]["closed"], true, "a name outlives its connection: {closed}");
    assert!(sockets(daemon.home()).is_empty());
    let records = daemon.home().records();
    let life = |session: &Value| {
        let its = records
            .iter()
            .filter(|record| record["kind"] == "session" && record["id"] == session["session_id"]);
        its.map(|record| record["event"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (life(&passing), life(&lasting)),
        (vec!["opened".into(), "closed".into()], vec!["opened".into(), "closed".into()])
    );
}

#[test]
fn no_worker_socket_outlives_its_daemon() {
    let daemon = Daemon::start();
    let mut named = terms();
    named["name"] = json!("x");
    let mut orchestrator = daemon.agent();
    open(&mut orchestrator, &named);
    open(&mut orchestrator, &terms());
    let home = daemon.stop();
    assert!(sockets(&home).is_empty(), "a clean stop leaves none");

    let daemon = Daemon::start_in(home);
    open(&mut daemon.agent(), &named);
    let home = daemon.crash();
    assert_eq!(sockets(&home).len(), 1, "a crash does");
    let daemon = Daemon::start_in(home);
    assert!(sockets(daemon.home()).is_empty(), "and the next start sweeps");
}

#[test]
fn sessions_are_bounded_and_their_terms_checked() {
    let daemon = Daemon::start();
    let mut orchestrator = daemon.agent();
    for (wrong, field) in [
        (json!({}), "allowlist"),
        (json!({"allowlist": []}), "session"),
        (json!({"allowlist": "read_file"}), "allowlist"),
        (json!({"allowlist": ["a"], "hop_budget": -1}), "hop_budget"),
        (json!({"allowlist": ["a"], "hop_budget": 4_000_000_000_u32}), "session"),
        (json!({"allowlist": ["a"], "name": ""}), "name"),
        (json!({"allowlist": ["a"], "hops": 5}), "hops"),
        (json!({"allowlist": ["a"], "cost_cap": {"amount": "much"}}), "amount"),
    ] {
        let answer = orchestrator.request("sinew/session.open", &wrong);
        assert_eq!(answer["error"]["data"]["field"], field, "{wrong}: {answer}");
    }
    let mut opened = 0;
    let refused = loop {
        let answer = orchestrator.request("sinew/session.open", &terms());
        if answer.get("error").is_some() {
            break answer;
        }
        opened += 1;
        assert!(opened <= 64, "there is no end to it");
    };
    assert_eq!(refused["error"]["data"]["code"], "busy", "{refused}");
    assert_eq!(sockets(daemon.home()).len(), opened);
    drop(orchestrator);
    wait_until("all of them are over", || sockets(daemon.home()).is_empty());
    open(&mut daemon.agent(), &terms());
}

#[test]
fn named_session_belongs_to_its_opener_only() {
    let daemon = Daemon::start();
    let client = |name: &str| {
        let mut agent = daemon.agent();
        let info = json!({"name": name, "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
        agent.request("initialize", &hello);
        agent
    };
    let long = "x".repeat(200);
    let (mut owner, mut twin) = (client(&format!("{long}a")), client(&format!("{long}b")));
    let mut named = terms();
    named["name"] = json!("night-shift");
    let session = open(&mut owner, &named);
    let id = &session["session_id"];
    for other in [&mut twin, &mut client("other"), &mut daemon.agent()] {
        let taken = other.request("sinew/session.open", &named);
        assert_eq!(taken["error"]["data"]["code"], "conflict", "{taken}");
        assert!(!taken.to_string().contains(id.as_str().unwrap()), "{taken}");
        for (method, params) in [
            ("sinew/session.spend", json!({"session_id": id, "cost": 1})),
            ("sinew/session.turn", json!({"session_id": id})),
            ("sinew/session.close", json!({"session_id": id})),
        ] {
            let refused = other.request(method, &params);
            assert_eq!(refused["error"]["data"]["code"], "not_found", "{method}: {refused}");
        }
    }
    // On another connection of its opener the session is still accessible.
    let mut again = client(&format!("{long}a"));
    let taken = again.request("sinew/session.open", &named);
    assert_eq!(taken["error"]["data"]["session_id"], *id, "{taken}");
    for cost in [json!(1e308), json!(-1)] {
        let refused = again.request("sinew/session.spend", &json!({"session_id": id, "cost": cost}));
        assert_eq!(refused["error"]["data"]["field"], "cost", "{refused}");
    }
    let spent = again.request("sinew/session.spend", &json!({"session_id": id, "cost": 2}));
    assert_eq!(spent["result"]["cost"], 2.0, "{spent}");
    assert_eq!(again.request("sinew/session.close", &json!({"session_id": id}))["result"]["closed"], true);
}

#[test]
fn copied_client_name_gives_no_access_to_a_named_session() {
    let daemon = Daemon::start();
    let start = || {
        let mut bridge = Bridge::start(daemon.home(), &[]);
        bridge.handshake();
        bridge
    };
    let (mut opener, mut copy) = (start(), start());
    let terms = json!({"name": "n", "allowlist": ["read_file"]});
    let opened = opener.request("sinew/session.open", &terms)["result"].clone();
    let id = json!({"session_id": opened["session_id"]});
    assert_eq!(opener.request("sinew/session.turn", &id)["result"]["turn"], 2, "{opened}");
    let refused = copy.request("sinew/session.turn", &id);
    assert_eq!(
        refused["error"]["data"]["code"], "not_found",
        "a worker must not reset its budgets: {refused}"
    );
    let conflict = copy.request("sinew/session.open", &terms);
    assert_eq!(conflict["error"]["data"]["code"], "conflict", "{conflict}");
    assert!(conflict["error"]["data"]["session_id"].is_null(), "{conflict}");
    // The opener is started again, and continues with its session.
    drop(opener);
    assert_eq!(copy.request("sinew/session.turn", &id)["result"]["turn"], 3);
}
