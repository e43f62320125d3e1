//! Definitions of the built-in tools: category, risk, sandbox and parameters as the execution specification
//! states them.

use serde_json::{Value, json};
use tests::Home;

fn definitions() -> Vec<Value> {
    let listed = Home::new().run(&["tools", "list", "--json"]).must_exit(0).json();
    listed["tools"].as_array().expect("a list").clone()
}

fn definition<'a>(definitions: &'a [Value], name: &str) -> &'a Value {
    definitions.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name} is not listed"))
}

#[test]
fn specified_tools_have_their_category_and_risk() {
    let definitions = definitions();
    for (name, category, risk) in [
        ("read_file", "read_only", "low"),
        ("list_directory", "read_only", "low"),
        ("write_file", "system_write", "high"),
        ("delete_file", "system_write", "high"),
        ("system_metrics_snapshot", "read_only", "low"),
        ("check_process_health", "read_only", "low"),
        ("read_system_logs", "read_only", "medium"),
        ("web_search", "network", "medium"),
        ("fetch_url", "network", "medium"),
        ("run_linter", "read_only", "low"),
        // 002 lists it as read_only; its sandbox may write, so it is not: decision 102.
        ("run_tests", "system_write", "medium"),
        ("git_status", "read_only", "low"),
    ] {
        let tool = definition(&definitions, name);
        assert_eq!((&tool["category"], &tool["risk_level"]), (&json!(category), &json!(risk)), "{name}");
        assert!(!tool["description"].as_str().expect("a description").is_empty(), "{name}");
    }
}

/// `web_search` and `git_status` run in a sandbox although the specification does not require it.
#[test]
fn specified_tools_run_in_a_sandbox_where_required() {
    let definitions = definitions();
    for (name, expect) in [
        ("read_file", false),
        ("list_directory", false),
        ("write_file", false),
        ("delete_file", false),
        ("system_metrics_snapshot", false),
        ("check_process_health", false),
        ("read_system_logs", false),
        ("web_search", true),
        ("fetch_url", true),
        ("run_linter", true),
        ("run_tests", true),
        ("git_status", true),
    ] {
        assert_eq!(definition(&definitions, name)["requires_sandbox"], expect, "{name}");
    }
}

#[test]
fn read_file_has_the_specified_definition() {
    let definitions = definitions();
    let tool = definition(&definitions, "read_file");
    assert_eq!(tool["allowed_modes"], json!(["NORMAL", "ALERT", "DEGRADED", "LOCKDOWN", "RECOVERY"]));
    assert_eq!((&tool["requires_approval"], &tool["timeout_seconds"]), (&json!(false), &json!(30)));
    let parameter = |name: &str| {
        let found = tool["parameters"].as_array().expect("a list").iter().find(|one| one["name"] == name);
        found.unwrap_or_else(|| panic!("{name}: {tool}"))
    };
    let path = parameter("path");
    assert_eq!((&path["type"], &path["required"]), (&json!("string"), &json!(true)), "{path}");
    let size = parameter("max_size_mb");
    assert_eq!((&size["type"], &size["required"]), (&json!("number"), &json!(false)), "{size}");
    assert_eq!(size["default"].as_f64(), Some(10.0), "{size}");
}
