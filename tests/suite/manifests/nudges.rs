//! Advice after a failure that blames the arguments: for a script that reports it on standard error, and for
//! an MCP server that reports it as `isError`.

use serde_json::{Value, json};
use tests::{Client, Daemon, Home};

use super::run::put;

const SCRIPT: &str = "import json, sys\n\
    call = json.load(sys.stdin)['arguments']\n\
    sys.stderr.write('Traceback (most recent call last):\\n' + call['why'] + '\\n\\n')\n\
    sys.exit(1)\n";

/// Manifest of a script with these parameters.
fn script(id: &str, parameters: &str) -> String {
    format!(
        "tool:\n  schema_version: 2.0\n  id: {id}\n  type: local\n  name: Complainer\n  version: 1.0.0\n  \
         description: Complains\n  knowledge_strategy: executable\n  \
         local_specific: {{entry_point: complain.py, runtime: python}}\n  commands:\n    \
         - {{name: {id}, category: read_only, risk_level: low, timeout_seconds: 15{parameters}}}\n"
    )
}

/// Events of the next call, up to its end.
fn events_until_failed(events: &mut Client) -> Vec<Value> {
    let mut received = Vec::new();
    while received.last().is_none_or(|event: &Value| event["event"] != "tool_call_failed") {
        received.push(events.receive().expect("an event")["params"].clone());
    }
    received
}

/// Calls a tool that fails. Returns its result and the error of the event `tool_validation_nudge`, if any.
fn fail(daemon: &Daemon, tool: &str, arguments: &Value) -> (Value, Option<Value>) {
    let mut events = daemon.control();
    let response = events.request("control/events", &json!({}));
    assert_eq!(response["result"]["following"], true, "{response}");
    let result = daemon.agent().execute(tool, arguments);
    assert_eq!(result["success"], false, "{result}");
    let events = events_until_failed(&mut events);
    let nudge = events.iter().find(|event| event["event"] == "tool_validation_nudge");
    (result, nudge.map(|event| event["error"].clone()))
}

fn hint(result: &Value) -> &str {
    result["metadata"]["failure"]["hint"].as_str().unwrap_or_default()
}

#[test]
fn complaint_on_standard_error_gets_an_example() {
    let home = Home::initialised().without_automatic_modes();
    put(&home, "complain.py", SCRIPT);
    put(&home, "complain.yaml", &script("complain", ", parameters: [{name: why, type: string}]"));
    put(&home, "bare.yaml", &script("bare", ""));
    let daemon = Daemon::start_in(home);
    let complaint = "1 validation error for Mail: subject Field required";
    let (result, nudge) = fail(&daemon, "complain", &json!({"why": complaint}));
    assert!(hint(&result).contains("Example: {\"why\":"), "{result}");
    assert!(
        nudge.is_some_and(|error| error.as_str().is_some_and(|error| error.contains("code 1"))),
        "{result}"
    );
    assert!(result["error"].as_str().is_some_and(|error| error.contains(complaint)), "the cause: {result}");
    let (other, nudge) = fail(&daemon, "complain", &json!({"why": "the disk is full"}));
    assert_eq!((hint(&other).contains("Example"), nudge), (false, None), "{other}");
    let (bare, nudge) = fail(&daemon, "bare", &json!({"why": complaint}));
    assert_eq!((hint(&bare).contains("Example"), nudge), (false, None), "an empty example: {bare}");
}

#[test]
fn upstream_error_about_arguments_gets_an_example() {
    let home = Home::initialised().without_automatic_modes();
    let server = home.file("server.py", include_str!("server.py")).display().to_string();
    let manifest = format!(
        "tool:\n  id: fake\n  type: mcp\n  name: Fake\n  version: 1.0.0\n  description: A server for tests\n  \
         mcp_specific:\n    server_command: python3 {server}\n    transport: stdio\n  commands:\n    \
         - {{name: complain, category: read_only, risk_level: low, timeout_seconds: 15, \
         parameters: [{{name: text, type: string}}]}}\n"
    );
    put(&home, "fake.yaml", &manifest);
    let daemon = Daemon::start_in(home);
    let complaint = "Input validation error: 'subject' is a required property";
    let (result, nudge) = fail(&daemon, "fake.complain", &json!({"text": complaint}));
    assert!(hint(&result).contains("Example: {\"text\":"), "{result}");
    let told = nudge.unwrap_or_default();
    assert!(told.as_str().is_some_and(|error| error.contains(complaint)), "{told}");
    let (other, nudge) = fail(&daemon, "fake.complain", &json!({"text": "no such task"}));
    assert_eq!((hint(&other).contains("Example"), nudge), (false, None), "{other}");
}
