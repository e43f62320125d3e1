//! Agents that try to erase the ledger by floods of records without an effect, of reads and of changes. The
//! oldest records stay, growth is bounded, and an alarm is raised where young records have to be removed.

use std::io::Write;
use std::time::Instant;

use serde_json::{Value, json};
use tests::{Client, Daemon, Home};

/// Home with these lines in the ledger's settings and without a limit of calls per minute.
fn home(ledger: &str) -> Home {
    let home = Home::initialised();
    let edit = |name: &str, from: &str, to: &str| {
        let text = std::fs::read_to_string(home.root().join("config").join(name)).expect("it is shipped");
        assert!(text.contains(from), "{from}");
        home.configure(name, &text.replace(from, to));
    };
    edit(
        "sinew.yaml",
        "ledger:\n  keep_bytes: 1073741824",
        &format!("ledger:\n  keep_bytes: 16777216{ledger}"),
    );
    edit("governance/safety.yaml", "tool_calls_per_minute: 600", "tool_calls_per_minute: 100000000");
    home
}

/// Replaces the shipped size limit.
fn limited_to(max_bytes: u64) -> Home {
    let home = home("");
    let file = home.root().join("config/sinew.yaml");
    let text = std::fs::read_to_string(file).expect("it is shipped");
    home.configure("sinew.yaml", &text.replace("max_bytes: 8589934592", &format!("max_bytes: {max_bytes}")));
    home
}

/// Makes a change and returns its call id.
fn change(agent: &mut Client, name: &str) -> Value {
    let done = agent.execute("write_file", &json!({"path": name, "content": "x"}));
    assert_eq!(done["success"], true, "{done}");
    done["metadata"]["call_id"].clone()
}

fn has_decision(home: &Home, call_id: &Value) -> bool {
    home.complete_records()
        .iter()
        .any(|record| tests::holds(record, "decision") && record["call_id"] == *call_id)
}

fn ledger_bytes(home: &Home) -> u64 {
    let files = std::fs::read_dir(home.root().join("state/ledger")).expect("a ledger").flatten();
    files.filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum()
}

/// Terms with the longest allowlist a session may have; their record takes 33 kB.
fn long_terms() -> Value {
    let names: Vec<String> = (0..128).map(|number| format!("{number:0>256}")).collect();
    json!({"allowlist": names})
}

fn counted(records: &[Value], kind: &str) -> u64 {
    let of_kind = |record: &&Value| record["about"] == "grouped" && record["data"]["kind"] == kind;
    records.iter().filter(of_kind).map(|record| record["data"]["count"].as_u64().expect("a count")).sum()
}

#[test]
fn session_floods_leave_the_oldest_records_in_place() {
    let daemon = Daemon::start_in(home(""));
    let mut agent = daemon.agent();
    let first = change(&mut agent, "first.txt");
    let (before, terms) = (ledger_bytes(daemon.home()), long_terms());
    let (mut opened, mut refused, begun) = (0, 0, Instant::now());
    for _ in 0..1500 {
        let reply = agent.request("sinew/session.open", &terms);
        match reply["result"]["session_id"].as_str() {
            Some(id) => {
                opened += 1;
                agent.request("sinew/session.close", &json!({"session_id": id}));
            }
            None => {
                refused += 1;
                assert_eq!(reply["error"]["data"]["code"], "rate_limited", "{reply}");
                assert!(
                    reply["error"]["data"]["retry_after_ms"].as_u64().is_some_and(|wait| wait > 0),
                    "{reply}"
                );
            }
        }
    }
    let (grown, seconds) = (ledger_bytes(daemon.home()) - before, begun.elapsed().as_secs() + 1);
    let home = daemon.stop();
    assert!(has_decision(&home, &first), "the oldest change is still on record");
    // A burst of 64, and 20 per second after it.
    let most = 64 + 20 * seconds;
    assert!(refused > 0 && (32..=most).contains(&opened), "{opened} of 1500 opened in {seconds} s");
    assert!(grown < most * 40_000, "{opened} sessions took {grown} bytes");
    let records = home.records();
    let full = records.iter().filter(|record| record["about"] == "rate_limited").count() as u64;
    assert_eq!(full + counted(&records, "sinew/session.open"), refused, "every refusal is counted");
    assert!(full <= 2 + seconds / 10, "{full} are written in full in {seconds} s");
    let verified = home.run(&["ledger", "verify"]).must_exit(0).stdout();
    assert!(verified.contains("reaches back to") && verified.contains("nothing was removed"), "{verified}");
}

#[test]
fn an_ordinary_orchestrator_is_not_limited() {
    let daemon = Daemon::start();
    let mut orchestrator = daemon.agent();
    for _ in 0..50 {
        let opened = orchestrator.request("sinew/session.open", &json!({"allowlist": ["read_file"]}));
        let id = opened["result"]["session_id"].clone();
        assert!(id.is_string(), "{opened}");
        orchestrator.request("sinew/session.close", &json!({"session_id": id}));
    }
}

#[test]
fn repeats_of_one_key_are_counted_exactly() {
    let daemon = Daemon::start_in(home(""));
    let mut agent = daemon.agent();
    let call = json!({"tool_name": "write_file", "arguments": {"path": "a", "content": "x"}, "idempotency_key": "k"});
    agent.request("sinew/execute", &call);
    let before = daemon.home().records().len();
    for _ in 0..300 {
        let repeated = agent.request("sinew/execute", &call);
        assert_eq!(repeated["result"]["metadata"]["cached"], true, "{repeated}");
    }
    let grown = daemon.home().records().len() - before;
    let records = daemon.stop().records();
    let full = records.iter().filter(|record| record["about"] == "repeat").count() as u64;
    assert_eq!(full + counted(&records, "repeat"), 300);
    assert!(grown <= 200, "300 repeats took {grown} records");
}

#[test]
fn removal_under_pressure_raises_an_alarm() {
    let home = limited_to(16 << 20);
    let rules =
        "tools:\n  run_command:\n    allowed_in_modes: [NORMAL, ALERT]\n    allowed_commands: [\"*\"]\n";
    home.configure("governance/tools.yaml", rules);
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    let first = change(&mut agent, "first.txt");
    // The ledger records the words of a command, so that few calls fill it.
    let word = "x".repeat(100_000);
    let status = |daemon: &Daemon| daemon.control().request("control/status", &json!({}))["result"].clone();
    for _ in 0..300 {
        agent.request(
            "sinew/execute",
            &json!({"tool_name": "run_command", "arguments": {"command": ["true", word]}}),
        );
        if status(&daemon)["mode"] == "ALERT" {
            break;
        }
    }
    let report_text = status(&daemon);
    assert_eq!(report_text["mode"], "ALERT", "{report_text}");
    assert!(
        report_text["ledger"]["removed_under_pressure"].as_u64().is_some_and(|count| count > 0),
        "{report_text}"
    );
    let shown = daemon.home().run(&["status"]).must_exit(0).stdout();
    assert!(shown.contains("ledger.max_bytes was exceeded"), "{shown}");
    tests::wait_for("the event in the log", || {
        let log = daemon.home().run(&["logs", "--json"]).must_exit(0).stdout();
        log.lines().any(|line| line.contains("\"ledger_pressure\"")).then_some(())
    });
    let home = daemon.stop();
    let records = home.records();
    let change = records.iter().find(|record| record["kind"] == "mode").expect("a change of mode");
    assert!(change["reason"].as_str().is_some_and(|reason| reason.contains("ledger_pressure")), "{change}");
    let removal = |record: &&Value| record["kind"] == "retention" && record["under_pressure"].is_u64();
    assert!(records.iter().any(|record| removal(&record)), "the removal is on record");
    assert!(!has_decision(&home, &first), "what was removed is what is reported");
    let verified = home.run(&["ledger", "verify"]).must_exit(0).stdout();
    assert!(verified.contains("under pressure"), "{verified}");
    let report = super::verify(&home);
    assert!(report["intact"] == true && report["removed"]["under_pressure"].as_u64() > Some(0), "{report}");
}

#[test]
fn reads_are_refused_before_they_displace_changes() {
    // Refused reads move the mode to DEGRADED, whose rate limit would hide what is tested here.
    let daemon = Daemon::start_in(limited_to(16 << 20).without_automatic_modes());
    // A long path makes a large record.
    let folder: std::path::PathBuf = (0..12).map(|_| "d".repeat(200)).collect();
    std::fs::create_dir_all(daemon.home().workspace().join(&folder)).expect("a deep folder");
    let path = folder.join("a.txt");
    std::fs::write(daemon.home().workspace().join(&path), "x").expect("a file");
    let mut agent = daemon.agent();
    let first = change(&mut agent, "first.txt");
    let read = json!({"path": path});
    let mut refused = None;
    for _ in 0..6000 {
        let result = agent.execute("read_file", &read);
        if result["success"] == false {
            refused = Some(result);
            break;
        }
    }
    let refused = refused.expect("reads are refused at three quarters of the limit");
    let refusal = &refused["metadata"]["refusal"];
    assert_eq!(refusal["code"], "ledger_unavailable", "{refused}");
    assert!(refusal["hint"].as_str().is_some_and(|hint| hint.contains("ledger.max_bytes")), "{refused}");
    for _ in 0..200 {
        agent.execute("read_file", &read);
    }
    let shown = daemon.home().run(&["status"]).must_exit(0).stdout();
    assert!(shown.contains("reads are refused"), "{shown}");
    let looked = json!({"tool_name": "read_file", "arguments": {"path": "first.txt"}});
    let looked = daemon.control().request("control/execute", &looked);
    assert_eq!(looked["result"]["success"], true, "the operator can still look: {looked}");
    let home = daemon.stop();
    assert!(has_decision(&home, &first), "the change is still on record");
    let report = super::verify(&home);
    assert_eq!((&report["first"], &report["removed"]["segments"]), (&json!(1), &json!(0)), "{report}");
}

/// Requests per method in a flood.
const FLOOD: usize = 400;

/// Parameters of a flood for a method of the agent socket. Those of calls are refused, or repeat one key.
fn flood_params(method: &str) -> Vec<Value> {
    let refused = json!({"path": "/etc/shadow"});
    match method {
        "sinew/execute" => {
            let call = |arguments: Value| json!({"tool_name": "read_file", "arguments": arguments});
            let mut repeated = json!({"tool_name": "write_file", "arguments": {"path": "k", "content": "x"}});
            repeated["idempotency_key"] = json!("k");
            vec![call(refused), call(json!({})), repeated]
        }
        "sinew/explain" => vec![json!({"tool_name": "read_file", "arguments": refused})],
        "sinew/judge_host" => vec![json!({"host": "claude-code", "tool_name": "Read", "arguments": refused})],
        "tools/call" => vec![json!({"name": "read_file", "arguments": refused}), json!({"name": "none"})],
        "sinew/session.open" => vec![long_terms()],
        "initialize" => {
            vec![
                json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x".repeat(99)}}),
            ]
        }
        _ => vec![json!({})],
    }
}

/// Whatever method an agent floods the daemon with, it cannot write more records than its budget holds: a 64th of the
/// ledger's size limit.
#[test]
fn floods_of_every_agent_method_write_bounded_records() {
    const MAX_BYTES: u64 = 64 << 20;
    let daemon = Daemon::start_in(limited_to(MAX_BYTES));
    let first = change(&mut daemon.agent(), "first.txt");
    let reference: Value =
        serde_json::from_str(include_str!("../../../crates/server/protocol.json")).expect("JSON");
    let sockets = reference["sockets"].as_array().expect("a list");
    let agent = sockets.iter().find(|socket| socket["socket"] == "agent.sock").expect("the agent socket");
    let methods: Vec<&str> = agent["methods"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|method| method["name"].as_str())
        .collect();
    assert!(methods.len() > 12, "{methods:?}");
    // Calls that only read, and an approval request, are what agents may do; all else is a record without an effect.
    let before = ledger_bytes(daemon.home());
    for method in methods.into_iter().filter(|method| *method != "subscriptions/listen") {
        for params in flood_params(method) {
            let mut client = daemon.agent();
            let ask = |id: usize| {
                format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            };
            let (mut sender, grown_from) = (client.clone_stream(), ledger_bytes(daemon.home()));
            std::thread::scope(|scope| {
                scope.spawn(|| (0..FLOOD).for_each(|id| drop(sender.write_all(ask(id).as_bytes()))));
                (0..FLOOD).for_each(|_| assert!(client.receive().is_some(), "{method}"));
            });
            let grown = ledger_bytes(daemon.home()) - grown_from;
            assert!(grown < MAX_BYTES / 40, "{FLOOD} requests of {method} took {grown} bytes");
        }
    }
    let grown = ledger_bytes(daemon.home()) - before;
    assert!(grown < MAX_BYTES / 32, "all floods took {grown} bytes");
    let home = daemon.stop();
    assert!(has_decision(&home, &first), "the oldest change is still on record");
}
