//! `sinew policy reach`: its table lists exactly the calls that can run.

use serde_json::Value;
use tests::Home;

/// Row of one tool in mode NORMAL.
fn told(home: &Home, tool: &str) -> Option<Value> {
    let found = home.run(&["policy", "reach", "--mode", "NORMAL", "--json"]).must_exit(0).json();
    found["reach"].as_array().unwrap().iter().find(|one| one["tool"] == tool).cloned()
}

#[test]
fn tool_without_program_or_host_is_not_listed() {
    let home = Home::initialised();
    let with = |tools: &str| home.configure("governance/tools.yaml", tools);
    with("tools: {run_command: {allowed_commands: []}, fetch_url: {allowed_domains: []}}\n");
    assert_eq!((told(&home, "run_command"), told(&home, "fetch_url")), (None, None));
    with("tools: {fetch_url: {allowed_domains: [example.org]}}\n");
    assert_eq!(told(&home, "fetch_url").unwrap()["hosts"], serde_json::json!(["example.org"]));
}

#[test]
fn table_shows_exceptions_and_read_only_workspaces() {
    let home = Home::initialised();
    let extra = home.user_home().join("looked-at");
    std::fs::create_dir(&extra).unwrap();
    home.run(&["workspace", "add", extra.to_str().unwrap(), "--read-only"]).must_exit(0);
    let tools = "tools:
  write_file: {requires_approval: true, unattended_paths: [/tmp/drafts/**], forbidden_paths: [/tmp/drafts/x]}
forbidden_paths: []
";
    home.configure("governance/tools.yaml", tools);
    let table = home.run(&["policy", "reach", "--verbose", "--mode", "NORMAL"]).must_exit(0).stdout();
    for part in ["/tmp/drafts/** within workspaces (1 excepted)", "looked-at (read-only)"] {
        assert!(table.contains(part), "{part}: {table}");
    }
}
