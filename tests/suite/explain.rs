//! `explain` predicts the result of `call` by the same rules, and leaves no trace.

use serde_json::{Value, json};
use tests::{Daemon, Home};

/// Returns calls with the expected exit code: 0 runs, 3 is refused.
fn cases(home: &Home) -> Vec<(&'static str, Value, i32)> {
    home.file("README.md", "# Hello\n");
    home.file(".env", "TOKEN=x\n");
    std::os::unix::fs::symlink("/etc", home.workspace().join("way-out")).unwrap();
    let ssh = home.user_home().join(".ssh/config").display().to_string();
    vec![
        ("read_file", json!({"path": "README.md"}), 0),
        ("READ_FILE", json!({"path": "README.md"}), 0),
        ("read_file", json!({"path": ".env"}), 3),
        ("read_file", json!({"path": "../x"}), 3),
        ("read_file", json!({"path": "way-out/hostname"}), 3),
        ("read_file", json!({"pth": "README.md"}), 3),
        ("write_file", json!({"path": ssh, "content": "x"}), 3),
        ("write_file", json!({"path": "k", "content": "-----BEGIN PRIVATE KEY-----"}), 3),
        ("no_such_tool", json!({}), 3),
        ("write_file", json!({"path": "new.txt", "content": "x"}), 0),
    ]
}

/// Returns the fields of a refusal that programs read.
fn facts(refusal: &Value) -> [&Value; 4] {
    ["code", "detail", "reason", "rule"].map(|key| &refusal[key])
}

fn explain(home: &Home, tool: &str, arguments: &Value, exit: i32) -> Value {
    let mut reported = home.run(&["explain", tool, "--json", &arguments.to_string()]).must_exit(exit).json();
    assert_eq!(reported["schema_version"], 1, "{reported}");
    if let Some(refusal) = reported["refusal"].as_object_mut() {
        refusal.remove("trace_id");
    }
    reported
}

#[test]
fn explain_agrees_with_the_call_with_and_without_a_daemon() {
    let home = Home::initialised();
    let cases = cases(&home);
    let alone: Vec<Value> =
        cases.iter().map(|(tool, arguments, exit)| explain(&home, tool, arguments, *exit)).collect();
    let daemon = Daemon::start_in(home);
    for ((tool, arguments, exit), alone) in cases.iter().zip(alone) {
        let reported = explain(daemon.home(), tool, arguments, *exit);
        assert_eq!(reported, alone, "{tool} {arguments}");
        let done =
            daemon.home().run(&["call", tool, "--json", &arguments.to_string()]).must_exit(*exit).json();
        let refusal = &done["metadata"]["refusal"];
        let explained = daemon.home().with_short_names(&reported["refusal"]);
        assert_eq!(facts(&explained), facts(refusal), "{tool} {arguments}");
        assert_eq!(
            reported["verdict"] == "permit",
            done["success"] == true,
            "{tool} {arguments}: {reported}"
        );
    }
}

#[test]
fn explain_runs_nothing_and_records_nothing() {
    let daemon = Daemon::start();
    let before = daemon.home().records().len();
    let mut client = daemon.agent();
    for (tool, arguments, _) in cases(daemon.home()) {
        client.request("sinew/explain", &json!({"tool_name": tool, "arguments": arguments}));
    }
    assert!(!daemon.home().workspace().join("new.txt").exists(), "it was written");
    let status = client.request("sinew/status", &json!({}));
    assert_eq!(status["result"]["calls"]["refused"], 0, "{status}");
    assert_eq!(daemon.home().records().len(), before);
}

#[test]
fn explain_names_the_rule_and_the_remedy() {
    let home = Home::initialised();
    let cases = [
        ("NORMAL", 0, "permit write_file would run in NORMAL mode", "write_file.allowed_in_modes", ""),
        (
            "ALERT",
            4,
            "ask write_file would need approval",
            "ALERT.require_approval_for",
            "approval is required by",
        ),
        (
            "LOCKDOWN",
            3,
            "deny write_file would be refused",
            "write_file.forbidden_in_modes",
            "it is allowed in NORMAL",
        ),
    ];
    for (mode, exit, verdict, rule, change) in cases {
        let words = ["explain", "write_file", "path=a", "content=b", "--mode", mode];
        let run = home.run(&words).must_exit(exit);
        let text = run.stdout();
        assert!(text.starts_with(verdict), "{run}");
        let line = text.lines().find(|line| line.contains(rule)).unwrap_or_else(|| panic!("{run}"));
        let place = line.split_once(".yaml:").map(|(_, rest)| rest.trim_end_matches(')').parse::<u64>());
        assert!(matches!(place, Some(Ok(1..))), "file and line: {line}");
        assert!(text.contains(change), "{run}");
    }
    assert!(!home.workspace().join("a").exists());
}

#[test]
fn explain_validates_its_parameters_as_strictly_as_a_call() {
    let daemon = Daemon::start();
    let mut client = daemon.agent();
    let mut field =
        |params: Value| client.request("sinew/explain", &params)["error"]["data"]["field"].clone();
    assert_eq!(field(json!({"arguments": {}})), "tool_name");
    assert_eq!(field(json!({"tool_name": "read_file"})), "arguments");
    assert_eq!(field(json!({"tool_name": "x", "arguments": {}, "mode": "SAFE"})), "mode");
    assert_eq!(field(json!({"tool_name": "x", "arguments": {}, "mood": "NORMAL"})), "mood");
    assert_eq!(field(json!({"tool_name": "x", "arguments": {}, "deadline_ms": 0})), "deadline_ms");
    assert_eq!(field(json!({"tool_name": "x", "arguments": {}, "dry_run": true})), "dry_run");
}
