//! Every built-in tool's structured content validates against the `outputSchema` that `tools/list` announces, as
//! a validating client checks it. Debug builds of the daemon check the same in the pipeline, for every other
//! test.

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::Validator;
use serde_json::{Value, json};
use tests::{Client, Daemon, Home};

use super::shake;
use crate::code::{git, venv};
use crate::web::server::Server;
use crate::web::{OPEN, home};

const FILES: &[&str] = &[
    "create_directory",
    "delete_file",
    "edit_file",
    "list_directory",
    "read_file",
    "search_files",
    "write_file",
];
const SYSTEM: &[&str] = &[
    "check_process_health",
    "git_diff",
    "git_log",
    "git_status",
    "read_system_logs",
    "runtime_status",
    "self_check",
    "system_metrics_snapshot",
];
const COMMANDS: &[&str] = &["read_output", "run_command"];
const WEB: &[&str] = &["fetch_url", "web_search"];
const RUNNERS: &[&str] = &["run_linter", "run_tests"];

/// MCP client that validates structured content, as the official SDKs do.
struct ValidatingClient {
    client: Client,
    schemas: BTreeMap<String, Validator>,
    called: BTreeSet<String>,
}

impl ValidatingClient {
    fn connect(daemon: &Daemon) -> Self {
        let mut client = daemon.agent();
        shake(&mut client, "2025-11-25");
        let listed = client.request("tools/list", &json!({}));
        let compiled = |tool: &Value| {
            let validator = jsonschema::validator_for(&tool["outputSchema"]).expect("a valid schema");
            (tool["name"].as_str().expect("a name").to_owned(), validator)
        };
        let schemas = listed["result"]["tools"].as_array().expect("tools").iter().map(compiled).collect();
        ValidatingClient { client, schemas, called: BTreeSet::new() }
    }

    /// Calls a tool, which must succeed, and returns its structured content.
    fn check(&mut self, tool: &str, arguments: &Value) -> Value {
        let response = self.client.request("tools/call", &json!({"name": tool, "arguments": arguments}));
        let content = &response["result"]["structuredContent"];
        assert!(content.is_object(), "{tool} {arguments}: {response}");
        let violations: Vec<String> =
            self.schemas[tool].iter_errors(content).map(|error| error.to_string()).collect();
        assert!(violations.is_empty(), "{tool} {arguments}: {violations:?} in {content}");
        self.called.insert(tool.to_owned());
        content.clone()
    }

    /// Asserts that exactly these tools were called.
    fn assert_called(&self, tools: &[&str]) {
        assert!(self.called.iter().eq(tools), "{:?} instead of {tools:?}", self.called);
    }
}

#[test]
fn every_built_in_tool_has_an_output_check() {
    let client = ValidatingClient::connect(&Daemon::start());
    let checked: BTreeSet<&str> = [FILES, SYSTEM, COMMANDS, WEB, RUNNERS].concat().into_iter().collect();
    assert!(client.schemas.keys().eq(&checked), "{:?}", client.schemas.keys());
}

#[test]
fn file_tool_outputs_match_their_schemas() {
    let daemon = Daemon::start();
    let home = daemon.home();
    home.file("a.txt", "one\ntwo\nthree\n");
    std::fs::create_dir(home.workspace().join("empty")).unwrap();
    std::os::unix::fs::symlink("a.txt", home.workspace().join("link")).unwrap();
    let mut client = ValidatingClient::connect(&daemon);
    for (tool, arguments) in [
        ("read_file", json!({"path": "a.txt"})),
        ("read_file", json!({"path": "a.txt", "head": 1})),
        ("read_file", json!({"path": "a.txt", "offset": 1, "length": 2, "encoding": "base64"})),
        ("list_directory", json!({"path": "."})),
        ("list_directory", json!({"path": "empty"})),
        ("list_directory", json!({"path": ".", "depth": 3, "max_entries": 1})),
        ("search_files", json!({"query": "two"})),
        ("search_files", json!({"query": "two", "context": 1})),
        ("search_files", json!({"query": "absent"})),
        ("search_files", json!({"glob": "*.txt", "max_results": 1})),
        ("write_file", json!({"path": "b.txt", "content": "b\n", "dry_run": true})),
        ("write_file", json!({"path": "b.txt", "content": "b\n"})),
        ("write_file", json!({"path": "new/dir/c.txt", "content": "c\n", "create_dirs": true})),
        (
            "edit_file",
            json!({"path": "a.txt", "edits": [{"old_text": "two", "new_text": "2"}], "dry_run": true}),
        ),
        ("edit_file", json!({"path": "a.txt", "edits": [{"old_text": "two", "new_text": "2"}]})),
        ("create_directory", json!({"path": "made"})),
        ("create_directory", json!({"path": "made"})),
        ("create_directory", json!({"path": "far/below", "dry_run": true})),
        ("delete_file", json!({"path": "b.txt", "dry_run": true})),
        ("delete_file", json!({"path": "b.txt"})),
    ] {
        client.check(tool, &arguments);
    }
    client.assert_called(FILES);
}

#[test]
fn git_and_system_tool_outputs_match_their_schemas() {
    let home = Home::initialised();
    let repository = git::repository(&home, "r");
    std::fs::write(repository.join("b.txt"), "changed\n").unwrap();
    git::git(&repository, &["commit", "-aqm", "No body"]);
    std::fs::write(repository.join("a.txt"), "changed\n").unwrap();
    std::fs::write(repository.join("untracked.txt"), "new\n").unwrap();
    std::fs::create_dir(home.workspace().join("logs")).unwrap();
    home.file("logs/app.log", "plain\n");
    let logs = home.workspace().join("logs");
    let rule = format!("tools:\n  read_system_logs:\n    allowed_paths: [\"{}/**\"]\n", logs.display());
    home.configure("governance/tools.yaml", &rule);
    let daemon = Daemon::start_in(home);
    let mut client = ValidatingClient::connect(&daemon);
    for (tool, arguments) in [
        ("git_status", json!({"path": "r"})),
        ("git_log", json!({"path": "r"})),
        ("git_log", json!({"path": "r", "max_count": 1})),
        ("git_diff", json!({"path": "r"})),
        ("git_diff", json!({"path": "r", "staged": true})),
        ("system_metrics_snapshot", json!({})),
        ("check_process_health", json!({"pid": std::process::id()})),
        ("check_process_health", json!({"name": "no-such-process"})),
        ("read_system_logs", json!({"file": "logs/app.log"})),
        ("runtime_status", json!({})),
        ("self_check", json!({})),
    ] {
        client.check(tool, &arguments);
    }
    client.assert_called(SYSTEM);
}

#[test]
fn command_outputs_match_their_schemas() {
    let daemon = Daemon::start_in(crate::sandbox::home(""));
    let mut client = ValidatingClient::connect(&daemon);
    let script = |script: &str| json!({"command": ["sh", "-c", script]});
    for text in
        ["true", "exit 3", "kill -9 $$", "cat /etc/shadow", "printf '\\377'", "mkdir .git; touch .git/config"]
    {
        client.check("run_command", &script(text));
    }
    let long = client.check("run_command", &script("seq 100000"));
    let id = &long["stdout_spill"]["id"];
    client.check("read_output", &json!({"id": id, "max_bytes": 1000}));
    client.check("read_output", &json!({"id": id, "offset": 588_000}));
    client.assert_called(COMMANDS);
}

#[test]
fn web_outputs_match_their_schemas() {
    let page = "<html><head><title>T</title></head><body><p>Text</p></body></html>";
    let server = Server::saying("200 OK", "Content-Type: text/html\r\n", page);
    let missing = Server::saying("404 Not Found", "Content-Type: text/plain\r\n", "nothing");
    let results = include_str!("../../../crates/web_content/pages/duckduckgo_html_results.html");
    let provider = Server::saying("200 OK", "Content-Type: text/html\r\n", results);
    let web =
        format!("{{search: {{providers: [{{name: duckduckgo_html, url: \"{}\"}}]}}}}", provider.url("/s"));
    let daemon = Daemon::start_in(crate::web::with_settings(home(OPEN), &web));
    let mut client = ValidatingClient::connect(&daemon);
    client.check("fetch_url", &json!({"url": server.url("/")}));
    client.check("fetch_url", &json!({"url": missing.url("/")}));
    client.check("web_search", &json!({"query": "herons"}));
    client.assert_called(WEB);
}

#[test]
fn runner_outputs_match_their_schemas() {
    let Some(packages) = venv::packages(&[venv::PYTEST, &["ruff"]].concat()) else { return };
    let home = Home::initialised();
    packages.install(&home, "project");
    home.file("project/test_x.py", "import os\ndef test_good(): pass\ndef test_bad(): assert False\n");
    let daemon = Daemon::start_in(home);
    let mut client = ValidatingClient::connect(&daemon);
    client.check("run_tests", &json!({"path": "project"}));
    client.check("run_tests", &json!({"path": "project", "tests": ["test_x.py::test_good"]}));
    client.check("run_linter", &json!({"path": "project"}));
    client.assert_called(RUNNERS);
}
