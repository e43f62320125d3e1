//! The ledger on the control socket: queried, paged, verified and exported by the daemon itself.

use std::os::unix::fs::FileExt;

use serde_json::{Value, json};
use tests::{Client, Daemon};

fn daemon_with_records() -> Daemon {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "x");
    let mut agent = daemon.agent();
    for _ in 0..5 {
        agent.execute("read_file", &json!({"path": "a.txt"}));
    }
    agent.execute("read_file", &json!({"path": "/etc/hostname"}));
    daemon
}

fn ask(control: &mut Client, method: &str, params: &Value) -> Value {
    let response = control.request(method, params);
    assert!(response["result"].is_object(), "{method} {params}: {response}");
    response["result"].clone()
}

fn seqs(page: &Value) -> Vec<u64> {
    page["records"].as_array().unwrap().iter().map(|record| record["seq"].as_u64().unwrap()).collect()
}

#[test]
fn daemon_answers_ledger_queries() {
    let daemon = daemon_with_records();
    let control = &mut daemon.control();
    let all = daemon.home().records();
    let done = ask(control, "control/ledger.query", &json!({"tool": "read_file", "outcome": "done"}));
    assert_eq!((seqs(&done).len(), &done["next_before_seq"]), (5, &Value::Null));
    let call = &done["records"][0]["call_id"];
    assert_eq!(seqs(&ask(control, "control/ledger.query", &json!({"call_id": call}))).len(), 1);
    let none = ask(control, "control/ledger.query", &json!({"since": "2999-01-01T00:00:00Z"}));
    assert_eq!(seqs(&none), [0; 0]);
    let tail = ask(control, "control/ledger.tail", &json!({"count": 3}));
    let last: Vec<u64> = all.iter().rev().take(3).rev().map(|r| r["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs(&tail), last, "the newest, oldest first");
    // Backwards page by page, every record occurs exactly once.
    let (mut found, mut before) = (Vec::new(), json!({"limit": 4}));
    loop {
        let page = ask(control, "control/ledger.query", &before);
        found.splice(0..0, seqs(&page));
        match &page["next_before_seq"] {
            Value::Null => break,
            seq => before["before_seq"] = seq.clone(),
        }
    }
    assert_eq!(found, all.iter().map(|r| r["seq"].as_u64().unwrap()).collect::<Vec<_>>());
}

#[test]
fn daemon_verifies_and_exports_its_ledger() {
    let daemon = daemon_with_records();
    let control = &mut daemon.control();
    let report = ask(control, "control/ledger.verify", &json!({}));
    assert_eq!((&report["intact"], &report["problems"]), (&json!(true), &json!([])), "{report}");
    let exported = ask(control, "control/ledger.export", &json!({"kind": "outcome", "limit": 2}));
    let rest = json!({"kind": "outcome", "after_seq": exported["next_after_seq"]});
    let rest = ask(control, "control/ledger.export", &rest);
    let text = exported["text"].as_str().unwrap().to_owned() + rest["text"].as_str().unwrap();
    let by_file = daemon.home().run(&["ledger", "export", "--kind", "outcome"]).must_exit(0).stdout();
    assert_eq!(text, by_file, "in two pages or straight from the files: the same bytes");
    assert_eq!(rest["next_after_seq"], Value::Null);
    let csv = ask(control, "control/ledger.export", &json!({"kind": "refusal", "format": "csv"}));
    assert!(csv["text"].as_str().unwrap().starts_with("seq,time,kind"), "{csv}");
    assert_eq!(csv["records"], 1);
}

#[test]
fn verification_that_finds_a_change_is_recorded() {
    let daemon = daemon_with_records();
    let notes = || {
        let records = daemon.home().complete_records().into_iter();
        records.filter(|record| record["about"] == "ledger_verify").collect::<Vec<_>>()
    };
    let control = &mut daemon.control();
    ask(control, "control/ledger.verify", &json!({}));
    assert_eq!(notes(), Vec::<Value>::new(), "an intact one has nothing to say");
    let ledger = daemon.home().root().join("state/ledger");
    let segments = std::fs::read_dir(ledger).unwrap().map(|entry| entry.unwrap().path());
    let segment = segments.filter(|path| path.extension().is_some_and(|end| end == "ndjson")).min().unwrap();
    let place = std::fs::read_to_string(&segment).unwrap().find("read_file").unwrap() as u64;
    let file = std::fs::OpenOptions::new().write(true).open(&segment).unwrap();
    file.write_all_at(b"need_file", place).unwrap();
    let report = ask(control, "control/ledger.verify", &json!({}));
    assert_eq!(report["intact"], false, "{report}");
    let [note] = notes().try_into().unwrap();
    assert_eq!(note["data"]["problems"], report["problems"], "{note}");
}

#[test]
fn mistakes_are_named_and_agents_are_refused() {
    let daemon = Daemon::start();
    let check = |method: &str, params: &Value, field: &str| {
        let error = daemon.control().request(method, params)["error"].clone();
        assert_eq!((&error["code"], &error["data"]["field"]), (&json!(-32602), &json!(field)), "{error}");
    };
    check("control/ledger.query", &json!({"limit": 0}), "limit");
    check("control/ledger.query", &json!({"limit": 1001}), "limit");
    check("control/ledger.query", &json!({"since": "yesterday"}), "since");
    check("control/ledger.query", &json!({"call_id": "x"}), "call_id");
    check("control/ledger.query", &json!({"tol": "read_file"}), "tol");
    check("control/ledger.export", &json!({"format": "xml"}), "format");
    check("control/ledger.verify", &json!({"deep": true}), "deep");
    check("control/events", &json!({"events": "all"}), "events");
    for method in ["ledger.query", "ledger.tail", "ledger.verify", "ledger.export", "events"] {
        let refused = daemon.agent().request(&format!("control/{method}"), &json!({}));
        assert_eq!(refused["error"]["code"], -32601, "{refused}");
    }
}
