//! `sinew policy record`: calls in one workspace without the allowlists of their tools, and the policy proposed from them.

use std::fs;

use serde_json::{Value, json};
use tests::{Daemon, Home, wait_until};

use super::governance;

const TOOLS: &str = "\
tools:
  # Only the front page.
  read_file: {allowed_paths: [$WS/README.md]}
  write_file:
    allowed_paths:
      - $WS/README.md
  run_command: {forbidden_commands: [sudo]}
";
const SECRET: &str = "KEY=top-secret-value";

fn daemon() -> Daemon {
    let home = Home::initialised().without_automatic_modes();
    for folder in ["src", "other"] {
        fs::create_dir(home.workspace().join(folder)).unwrap();
    }
    for name in ["README.md", "src/a.txt", "src/b.txt", "src/c.txt", "src/d.txt", "other/x.txt"] {
        home.file(name, "x");
    }
    home.file(".env", SECRET);
    home.file("src/.env", SECRET);
    let root = root(&home);
    home.configure_layer("governance/tools.yaml", &TOOLS.replace("$WS", &root));
    Daemon::start_in(home)
}

fn root(home: &Home) -> String {
    home.workspace().canonicalize().unwrap().display().to_string()
}

fn record(daemon: &Daemon, duration: &str) {
    let root = root(daemon.home());
    daemon.home().run(&["policy", "record", "--for", duration, "--workspace", &root, "--yes"]).must_exit(0);
}

fn code(result: &Value) -> &str {
    match result["success"] == true {
        true => "done",
        false => result["metadata"]["refusal"]["code"].as_str().unwrap_or("failed"),
    }
}

fn read(daemon: &Daemon, path: &str) -> String {
    code(&daemon.agent().execute("read_file", &json!({"path": path}))).to_owned()
}

fn write(daemon: &Daemon, path: &str) -> String {
    code(&daemon.agent().execute("write_file", &json!({"path": path, "content": "x"}))).to_owned()
}

fn run(daemon: &Daemon, words: &[&str]) -> Value {
    daemon.agent().execute("run_command", &json!({"command": words}))
}

fn recording(daemon: &Daemon) -> Value {
    daemon.control().request("control/status", &json!({}))["result"]["recording"].clone()
}

/// Reasons of the ends that the ledger has, and the number of starts.
fn notes(home: &Home) -> (usize, Vec<String>) {
    let records = home.complete_records();
    let notes: Vec<&Value> = records.iter().filter(|note| note["about"] == "recording").collect();
    let starts = notes.iter().filter(|note| note["data"]["event"] == "start").count();
    let ends = notes.iter().filter(|note| note["data"]["event"] == "end");
    (starts, ends.map(|note| note["data"]["reason"].as_str().unwrap().to_owned()).collect())
}

#[test]
fn recorded_calls_run_again_under_the_proposed_policy() {
    let daemon = daemon();
    let home = daemon.home();
    assert_eq!(
        (read(&daemon, "README.md"), read(&daemon, "src/a.txt")),
        ("done".into(), "path_not_allowed".into())
    );
    let words = ["policy", "record", "--for", "10m", "--workspace", &root(home)];
    let asked = home.run(&words).must_exit(4);
    assert!(asked.stdout().contains("becomes possible: read_file: every path in"), "{asked}");
    assert_eq!(read(&daemon, "src/a.txt"), "path_not_allowed", "nothing was agreed to");

    record(&daemon, "10m");
    for name in ["src/a.txt", "src/b.txt", "src/c.txt", "other/x.txt"] {
        assert_eq!(read(&daemon, name), "done", "{name}");
    }
    assert_eq!(write(&daemon, "src/new.txt"), "done");
    let printed = run(&daemon, &["tac", "src/a.txt"]);
    assert_eq!(code(&printed), "done", "{printed:#}");
    home.run(&["explain", "read_file", "path=src/d.txt"]).must_exit(0);
    assert_eq!(recording(&daemon)["calls"], 6, "{:#}", recording(&daemon));
    assert!(home.run(&["status"]).must_exit(0).stdout().contains("6 permitted by it"));

    let shown = home.run(&["policy", "record", "--finish"]).must_exit(0).stdout();
    assert!(shown.contains("6 of 6 recorded calls are permitted") && shown.contains("src/*"), "{shown}");
    assert!(recording(&daemon).is_null());
    assert_eq!(read(&daemon, "src/a.txt"), "path_not_allowed", "the recording has ended");
    let proposal = home.run(&["policy", "record", "--finish", "--apply", "--json"]).must_exit(0).json();
    assert_eq!(proposal["still_refused"], json!([]), "{proposal:#}");
    assert!(proposal["forbidden_samples"].as_u64().unwrap() > 10, "{proposal:#}");
    let text = fs::read_to_string(governance(home, "tools.yaml")).unwrap();
    assert!(text.contains("# Only the front page.") && text.contains("# recorded: call"), "{text}");
    assert!(text.contains("{argv: [tac, src/a.txt], exact: true}"), "{text}");
    let records = home.records();
    let first = records.iter().find(|record| record["facts"]["recording"] == true).expect("a recorded call");
    assert!(text.contains(first["call_id"].as_str().unwrap()), "{text}");
    assert_eq!(first["facts"]["would_deny"]["code"], "path_not_allowed", "{first:#}");

    assert_eq!(read(&daemon, "src/a.txt"), "path_not_allowed", "a loosening waits for the operator");
    home.run(&["reload", "--accept"]).must_exit(0);
    for name in ["README.md", "src/a.txt", "src/d.txt", "other/x.txt"] {
        assert_eq!(read(&daemon, name), "done", "{name}");
    }
    assert_eq!(write(&daemon, "src/new.txt"), "done");
    assert_eq!(code(&run(&daemon, &["tac", "src/a.txt"])), "done");
    for name in [".env", "src/.env"] {
        assert_eq!(read(&daemon, name), "path_forbidden", "{name}");
    }
    assert_eq!(write(&daemon, "src/a.txt"), "path_not_allowed");
    assert_eq!(code(&run(&daemon, &["tac", "src/b.txt"])), "command_not_allowed");
    let home = daemon.stop();
    assert_eq!(notes(&home), (1, vec!["the operator ended it".to_owned()]));
}

#[test]
fn recording_opens_nothing_that_a_rule_forbids() {
    let daemon = daemon();
    let home = daemon.home();
    let elsewhere = home.user_home().canonicalize().unwrap().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("o.txt"), "from-elsewhere").unwrap();
    fs::create_dir(home.workspace().join(".git")).unwrap();
    record(&daemon, "10m");
    for name in [".env", "src/.env"] {
        assert_eq!(read(&daemon, name), "path_forbidden", "{name}");
        let printed = run(&daemon, &["tac", name]);
        assert!(!printed.to_string().contains("top-secret"), "{printed:#}");
    }
    let outside = elsewhere.join("o.txt").display().to_string();
    assert_eq!(read(&daemon, &outside), "path_not_allowed");
    let printed = run(&daemon, &["tac", &outside]);
    assert!(!printed.to_string().contains("from-elsewhere"), "it is not mounted: {printed:#}");
    assert_eq!(write(&daemon, ".git/config"), "path_forbidden");
    assert_eq!(code(&run(&daemon, &["sudo", "ls"])), "command_not_allowed");
    let parameters = json!({"workspace": root(home), "seconds": 60});
    for method in ["control/recording.start", "control/recording.stop"] {
        let reply = daemon.agent().request(method, &parameters);
        assert!(reply.get("error").is_some(), "{reply}");
    }
    assert!(recording(&daemon).is_object());
}

#[test]
fn recording_ends_by_itself() {
    let daemon = daemon();
    record(&daemon, "1s");
    wait_until("the deadline", || {
        recording(&daemon).is_null() && read(&daemon, "src/a.txt") == "path_not_allowed"
    });
    wait_until("its note", || notes(daemon.home()).1 == ["its time is over"]);
    record(&daemon, "10m");
    assert_eq!(read(&daemon, "src/a.txt"), "done");
    daemon.home().run(&["mode", "set", "ALERT"]).must_exit(0);
    assert!(recording(&daemon).is_null());
    let refused =
        daemon.home().run(&["policy", "record", "--for", "1m", "--workspace", &root(daemon.home()), "--yes"]);
    assert!(refused.stderr().contains("in mode NORMAL only"), "{refused}");
    daemon.home().run(&["mode", "set", "NORMAL"]).must_exit(0);
    assert_eq!(read(&daemon, "src/a.txt"), "path_not_allowed");
    record(&daemon, "10m");
    let daemon = Daemon::start_in(daemon.stop());
    assert!(recording(&daemon).is_null());
    assert_eq!(read(&daemon, "src/a.txt"), "path_not_allowed");
    record(&daemon, "10m");
    daemon.home().run(&["policy", "record", "--stop"]).must_exit(0);
    assert_eq!(read(&daemon, "src/a.txt"), "path_not_allowed");
    let expect =
        ["its time is over", "the mode changed to ALERT", "the daemon stops", "the operator ended it"];
    assert_eq!(notes(&daemon.stop()), (4, expect.map(str::to_owned).to_vec()));
}

#[test]
fn recording_needs_the_pin_and_the_consent_that_was_shown() {
    let daemon = daemon();
    let mut control = daemon.control();
    control.request("control/pin.set", &json!({"new": "correct-horse"}));
    let root = root(daemon.home());
    let mut start = |more: Value| {
        let mut parameters = json!({"workspace": root, "seconds": 60});
        parameters.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        control.request("control/recording.start", &parameters)
    };
    let shown = start(json!({}))["result"]["candidate"].clone();
    assert_eq!(start(json!({"accept": shown}))["error"]["data"]["code"], "pin_needed");
    assert_eq!(
        start(json!({"accept": "x", "pin": "correct-horse"}))["error"]["data"]["code"],
        "not_as_shown"
    );
    let other = start(json!({"accept": shown, "pin": "correct-horse", "seconds": 61}));
    assert_eq!(other["error"]["data"]["code"], "not_as_shown", "{other}");
    assert!(recording(&daemon).is_null());
    let started = start(json!({"accept": shown, "pin": "correct-horse"}));
    assert!(started["result"]["recording"]["until"].is_string(), "{started}");
    assert_eq!(start(json!({}))["error"]["data"]["code"], "already_recording");
}

/// A host is learned from calls that reached it, and a name with `*` is no host.
#[test]
fn hosts_of_failed_calls_are_not_learned() {
    let daemon = daemon();
    let home = daemon.home();
    let tools = "tools:\n  fetch_url: {allowed_domains: [docs.python.org]}\n";
    home.configure_layer("governance/tools.yaml", tools);
    home.run(&["reload", "--accept"]).must_exit(0);
    record(&daemon, "10m");
    let fetch = |url: &str| daemon.agent().execute("fetch_url", &json!({"url": url}));
    assert_eq!(code(&fetch("https://*.invalid/x")), "invalid_arguments");
    let failed = fetch("https://host.invalid/x");
    assert_eq!(code(&failed), "failed", "{failed:#}");
    assert_eq!(recording(&daemon)["calls"], 1, "the recording permitted it");
    let finished = home.run(&["policy", "record", "--finish"]).must_exit(0);
    assert!(!finished.stdout().contains(".invalid"), "{finished}");
    assert!(finished.stderr().contains("no call that completed"), "{finished}");
}

#[test]
fn tool_without_a_command_list_stays_closed_in_a_recording() {
    let daemon = daemon();
    let home = daemon.home();
    let tools = "tools:\n  read_file: {allowed_paths: []}\n  run_command: {forbidden_commands: [sudo]}\n";
    home.configure("governance/tools.yaml", tools);
    home.run(&["reload", "--accept"]).must_exit(0);
    let asked = home.run(&["policy", "record", "--for", "10m", "--workspace", &root(home)]).must_exit(4);
    assert!(!asked.stdout().contains("run_command"), "{asked}");
    record(&daemon, "10m");
    let printed = run(&daemon, &["id"]);
    assert_eq!(code(&printed), "command_not_allowed", "{printed:#}");
}
