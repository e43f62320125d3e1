//! `sinew policy suggest`: suggestions from real calls, applied like any other edit.

use std::fs;
use std::time::{Duration, Instant};

use ledger::{Ledger, LedgerEntry, LedgerOptions};
use serde_json::{Value, json};
use tests::{Daemon, Home};
use tool::CallId;

use super::{decide, governance};

const TOOLS: &str = "\
tools:
  # I want to see what it writes.
  write_file:
    requires_approval: true
  run_command:
    allowed_commands: {add: [cargo]}
";

/// Daemon after six approved writes in docs/, one denied write in src/ and sixty reads.
fn used_daemon() -> Daemon {
    let home = Home::initialised();
    for folder in ["docs", "src"] {
        fs::create_dir(home.workspace().join(folder)).unwrap();
    }
    home.file("a.txt", "x");
    home.configure_layer("governance/tools.yaml", TOOLS);
    let daemon = Daemon::start_in(home);
    for number in 0..6 {
        decide(&daemon, &format!("docs/{number}.md"), "approve");
    }
    decide(&daemon, "src/main.rs", "deny");
    let mut agent = daemon.agent();
    for _ in 0..60 {
        agent.execute("read_file", &json!({"path": "a.txt"}));
    }
    daemon
}

fn suggestions(home: &Home) -> Vec<Value> {
    let report = home.run(&["policy", "suggest", "--json"]).must_exit(0).json();
    report["suggestions"].as_array().unwrap().clone()
}

#[test]
fn applied_suggestion_waits_for_consent_and_then_holds() {
    let daemon = used_daemon();
    let shown = daemon.home().run(&["policy", "suggest"]).must_exit(0).stdout();
    assert!(shown.contains("67 calls since") && shown.contains("7 asked you"), "{shown}");
    assert!(shown.contains("6 fewer approvals; 1 call that you denied stays denied"), "{shown}");
    assert!(shown.contains("loosens the policy") && shown.contains("docs/*"), "{shown}");
    let found = suggestions(daemon.home());
    assert_eq!(found[0]["kind"], "always_approved", "{found:#?}");
    assert_eq!(found[0]["effect"]["questions_fewer"], 6, "{found:#?}");
    let before = fs::read_to_string(governance(daemon.home(), "tools.yaml")).unwrap();
    assert!(
        before.contains("requires_approval: true") && !before.contains("docs"),
        "nothing is applied by itself"
    );

    let applied = daemon.home().run(&["policy", "suggest", "--apply", "1"]).must_exit(0);
    assert!(applied.stderr().contains("sinew reload --accept"), "{applied}");
    let after = fs::read_to_string(governance(daemon.home(), "tools.yaml")).unwrap();
    assert!(after.contains("# I want to see") && after.contains("docs/*"), "{after}");
    let code = |command: &str, name: &str, more: &[&str]| {
        let path = format!("path={name}");
        let arguments = [&[command, "write_file", &path, "content=x"], more].concat();
        daemon.home().run(&arguments).output.status.code()
    };
    // The daemon holds the loosening back until the operator accepts it.
    assert_eq!(code("call", "docs/9.md", &["--async"]), Some(4));
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert_eq!(code("call", "docs/9.md", &["--async"]), Some(0), "the question in docs/ is gone");
    assert_eq!((code("explain", "docs/8.md", &[]), code("explain", "src/new.rs", &[])), (Some(0), Some(4)));
    assert_eq!(code("call", "src/new.rs", &["--async"]), Some(4), "the folder of the denied call still asks");
}

#[test]
fn unused_entry_is_removed_and_the_call_is_refused() {
    let home = used_daemon().stop();
    let explain = || home.run(&["explain", "run_command", "command:=[\"cargo\"]"]).output.status.code();
    let found = suggestions(&home);
    let unused =
        found.iter().find(|one| one["kind"] == "unused_rule").unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!(unused["evidence"], json!(["`cargo`: not used in the record"]), "{unused:#}");
    assert_eq!((&unused["loosens"], &unused["effect"]["calls"]), (&json!(false), &json!(67)), "{unused:#}");
    let number = unused["number"].to_string();
    home.run(&["policy", "suggest", "--apply", &number]).must_exit(0);
    assert_eq!(explain(), Some(3));
    assert!(suggestions(&home).iter().all(|one| one["kind"] != "unused_rule"));
    home.run(&["policy", "suggest", "--apply", "99"]).must_exit(2);
}

#[test]
fn report_fits_a_terminal_of_80_columns() {
    let home = used_daemon().stop();
    let shown = home.run(&["policy", "suggest"]).must_exit(0).stdout();
    // A diff shows the lines of the file and its path as they are.
    let own = shown.lines().filter(|line| !line.starts_with(['+', '-', ' ', '@']) || line.starts_with("   "));
    let root = home.workspace().canonicalize().unwrap().display().to_string();
    own.for_each(|line| assert!(line.replace(&root, "").chars().count() <= 80, "{line}\n{shown}"));
}

/// Rules that a week of work does not need, beside `requires_approval` for documents.
const WASTEFUL_TOOLS: &str = "\
tools:
  read_file: {rate_limit_per_hour: 100000}
  write_file: {requires_approval: true}
  run_command: {allowed_commands: {add: [cargo]}}
  fetch_url: {allowed_domains: [\"*\"]}
";
/// Most records that a week of work leaves.
const WEEK_OF_CALLS: usize = 50_000;

/// Appends records to the ledger of a stopped daemon: copies of a recorded call with other tools and targets.
fn append_calls(home: &Home, template: &Value, count: usize) {
    let state = home.root().join("state");
    let options = LedgerOptions::default()
        .with_key_file(state.join("ledger.key"))
        .with_second_anchor(state.join("anchor"));
    let (ledger, _) = Ledger::open(&state.join("ledger"), &options).unwrap();
    let hosts = ["docs.rs", "crates.io", "www.rust-lang.org"];
    for number in 0..count {
        let mut call = template.clone();
        let fields = call.as_object_mut().unwrap();
        ["seq", "time", "prev", "hash"].iter().for_each(|field| drop(fields.remove(*field)));
        call["call_id"] = json!(CallId::fresh().to_string());
        match number % 4 {
            0 => {
                call["tool"] = json!("fetch_url");
                (call["facts"]["paths"], call["facts"]["hosts"]) = (json!([]), json!([hosts[number % 3]]));
            }
            _ => call["facts"]["counts"]["tool_last_hour"] = json!(number % 40),
        }
        let entry: LedgerEntry = serde_json::from_value(call).unwrap();
        ledger.append(&entry).unwrap();
    }
    ledger.close();
}

/// Waste that real calls planted among 50,000 records is found, and the command is done in under five seconds.
#[test]
fn waste_in_a_week_of_fifty_thousand_calls_is_found() {
    let home = Home::initialised();
    fs::create_dir(home.workspace().join("docs")).unwrap();
    home.file("a.txt", "x");
    home.configure_layer("governance/tools.yaml", WASTEFUL_TOOLS);
    let daemon = Daemon::start_in(home);
    for number in 0..6 {
        decide(&daemon, &format!("docs/{number}.md"), "approve");
    }
    let mut agent = daemon.agent();
    assert_eq!(agent.execute("read_file", &json!({"path": "a.txt"}))["success"], true);
    for _ in 0..4 {
        for program in ["pip", "ls"] {
            let result = agent.execute("run_command", &json!({"command": [program]}));
            assert_eq!(result["success"], program == "ls", "{result}");
        }
    }
    let home = daemon.stop();
    let recorded = home.records();
    let template = recorded.iter().find(|record| record["kind"] == "call" && record["tool"] == "read_file");
    append_calls(&home, template.expect("a read has one record"), WEEK_OF_CALLS);
    let began = Instant::now();
    let report = home.run(&["policy", "suggest", "--json"]).must_exit(0).json();
    let took = began.elapsed();
    println!("{} calls: {took:?}", report["calls"]);
    assert!(report["calls"].as_u64().unwrap() > 50_000, "{}", report["calls"]);
    let found: Vec<String> = report["suggestions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{} {}", one["kind"].as_str().unwrap(), one["tool"].as_str().unwrap()))
        .collect();
    let planted = [
        "always_approved write_file",
        "wildcard fetch_url",
        "unused_rule run_command",
        "rate read_file",
        "repaired_refusal run_command",
    ];
    assert_eq!(found, planted, "{report:#}");
    // Five seconds are promised; builds for tests are slow, and so are machines that run many tests.
    let limit = if std::env::var_os("SINEW_STRICT_TIMES").is_some() { 5 } else { 60 };
    assert!(took < Duration::from_secs(limit), "{took:?}");
}
