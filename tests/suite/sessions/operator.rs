//! The operator lists open sessions and closes them, independent of the client that opened them.

use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use tests::{Client, Daemon};

use super::{open, worker};

fn listed(control: &mut Client) -> Vec<Value> {
    let reply = control.request("control/sessions.list", &json!({}));
    reply["result"]["sessions"].as_array().unwrap_or_else(|| panic!("{reply}")).clone()
}

#[test]
fn operator_lists_and_closes_sessions_of_any_client() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "a");
    let (mut orchestrator, mut control) = (daemon.agent(), daemon.control());
    let passing = open(&mut orchestrator, &json!({"allowlist": ["read_file"], "hop_budget": 5}));
    let lasting = open(&mut orchestrator, &json!({"allowlist": ["read_file"], "name": "night-shift"}));
    let mut at_work = worker(&passing);
    assert_eq!(at_work.execute("read_file", &json!({"path": "a.txt"}))["success"], true);
    let all = listed(&mut control);
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(
        (&all[0]["session_id"], &all[0]["hops"], &all[0]["hops_left"]),
        (&passing["session_id"], &json!(1), &json!(4)),
        "{all:?}"
    );
    assert_eq!((&all[1]["name"], &all[1]["allowlist"]), (&json!("night-shift"), &json!(["read_file"])));
    assert!(all[0]["by"]["uid"].is_u64() && all[0].get("socket").is_none(), "no way in is told: {all:?}");

    let shown = daemon.home().run(&["sessions", "list"]).must_exit(0).stdout();
    assert!(shown.contains("night-shift") && shown.contains("read_file"), "{shown}");
    daemon.home().run(&["sessions", "close", passing["session_id"].as_str().unwrap()]).must_exit(0);
    assert_eq!(at_work.read_until_closed(), b"", "connections to its socket are closed");
    assert!(UnixStream::connect(passing["socket"].as_str().unwrap()).is_err());
    let closed = daemon.home().run(&["sessions", "close", "night-shift", "nonsense", "--json"]).must_exit(1);
    assert_eq!(closed.json()["sessions"][0]["session_id"], lasting["session_id"], "{closed}");
    assert!(listed(&mut control).is_empty());
    let gone = json!({"session_id": lasting["session_id"]});
    assert_eq!(orchestrator.request("sinew/session.turn", &gone)["error"]["data"]["code"], "not_found");
    // The name is free again, and the ledger names the operator as the cause.
    open(&mut orchestrator, &json!({"allowlist": ["read_file"], "name": "night-shift"}));
    let records = daemon.home().records();
    let why = |session: &Value| {
        let mut closed = records.iter().filter(|r| r["kind"] == "session" && r["event"] == "closed");
        closed.find(|r| r["id"] == session["session_id"]).map(|r| r["data"]["reason"].clone())
    };
    assert_eq!(why(&passing), Some(json!("closed by the operator")));
    assert_eq!(why(&lasting), Some(json!("closed by the operator")));
    // No agent and no worker has these methods.
    for method in ["control/sessions.list", "control/sessions.close"] {
        let refused = orchestrator.request(method, &gone);
        assert_eq!(refused["error"]["data"]["code"], "wrong_socket", "{refused}");
    }
}

#[test]
fn session_limit_of_a_process_ignores_client_names() {
    let daemon = Daemon::start();
    let mut opened = 0;
    let refused = loop {
        let mut client = daemon.agent();
        let info = json!({"name": format!("client {opened}"), "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
        client.request("initialize", &hello);
        let terms = json!({"allowlist": ["read_file"], "name": format!("s{opened}")});
        let answer = client.request("sinew/session.open", &terms);
        if answer.get("error").is_some() {
            break answer;
        }
        opened += 1;
        assert!(opened <= 16, "there is no end to it");
    };
    assert_eq!((opened, &refused["error"]["data"]["code"]), (16, &json!("busy")), "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("the limit for one process"), "{refused}");
    // Named sessions stay when their client is gone; the operator closes one to free a slot.
    let mut client = daemon.agent();
    open(&mut client, &json!({"allowlist": ["read_file"]}));
    daemon.home().run(&["sessions", "close", "s0"]).must_exit(0);
    open(&mut client, &json!({"allowlist": ["read_file"], "name": "another"}));
}
