//! Environment variables of a started server: it gets those that its manifest names, and its output does not
//! reveal their values.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::public::CORE;
use super::run::put;
use crate::telemetry::collector::{Collector, capture_content};

/// Value that no secret detector recognises.
const VALUE: &str = "plainword-7f3a9";
/// Parts of the value that must not be revealed either.
const PARTS: [&str; 2] = ["plainw", "-7f3a9"];

/// Home with a server that needs the variable `FAKE_KEY`.
fn home_with_variable() -> Home {
    let home = Home::initialised().without_automatic_modes();
    let server = home.file("server.py", include_str!("server.py")).display().to_string();
    let manifest = format!(
        "{}  mcp_specific:\n    server_command: python3\n    server_args: [{server:?}]\n    environment_variables: [FAKE_KEY]\n  \
         commands:\n    - {{name: look, category: read_only, risk_level: low, parameters: []}}\n    \
         - {{name: leak, category: read_only, risk_level: low, parameters: [{{name: how, type: string, required: true}}]}}\n",
        CORE.replace("id: a", "id: fake").replace("type: cli", "type: mcp")
    );
    put(&home, "fake.yaml", &manifest);
    home
}

/// Home in which the variable has its value.
fn home_with_value() -> Home {
    home_with_value_for("manifest: fake")
}

/// Home in which the value of the variable is for this receiver.
fn home_with_value_for(recipient: &str) -> Home {
    let home = home_with_variable();
    let file = home.user_home().join("fake.key");
    std::fs::write(&file, format!("{VALUE}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let text = std::fs::read_to_string(home.root().join("config/sinew.yaml")).unwrap();
    let entry =
        format!("\nkeys: {{fake_key: {{{recipient}, key_file: {:?}}}}}\n", file.display().to_string());
    home.configure("sinew.yaml", &text.replace("\nkeys: {}\n", &entry));
    home
}

/// A started server gets the variables that its manifest names, and no others, from the key store.
#[test]
fn started_server_gets_only_its_named_variables() {
    let daemon = Daemon::start_in(home_with_variable());
    let missing = daemon.agent().execute("fake.look", &json!({}));
    assert_eq!(missing["success"], false, "{missing}");
    assert!(missing.to_string().contains("keys: {fake_key: {manifest: fake"), "{missing}");
    let daemon = Daemon::start_in(home_with_value());
    let looked = daemon.agent().execute("fake.look", &json!({}));
    let variables = looked["output"]["variables"].as_array().unwrap_or_else(|| panic!("{looked}"));
    assert!(variables.contains(&json!("FAKE_KEY")) && !variables.contains(&json!("SINEW_HOME")), "{looked}");
}

/// A host and a manifest may have the same name.
#[test]
fn key_of_a_host_is_not_a_variable_of_a_manifest() {
    for recipient in ["host: fake", "manifest: other"] {
        let daemon = Daemon::start_in(home_with_value_for(recipient));
        let refused = daemon.agent().execute("fake.look", &json!({}));
        assert_eq!(refused["success"], false, "{recipient}: {refused}");
        assert!(refused.to_string().contains("not for this manifest"), "{recipient}: {refused}");
    }
}

#[test]
fn output_of_a_server_reveals_no_value_of_its_variables() {
    let collector = Collector::start();
    let home = home_with_value();
    capture_content(&home);
    let daemon = Daemon::start_with(home, &[("SINEW_LOG", "trace"), collector.variable()]);
    let mut reported = Vec::new();
    for how in ["text", "structured", "error", "rpc", "progress", "crash"] {
        let mut agent = daemon.agent();
        let params = json!({"tool_name": "fake.leak", "arguments": {"how": how}, "progress_token": "p"});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "sinew/execute", "params": params});
        agent.send(format!("{request}\n").as_bytes());
        let mut lines = Vec::new();
        while lines.last().is_none_or(|line: &Value| line["id"] != 1) {
            lines.push(agent.receive().expect("a message"));
        }
        let told = Value::from(lines).to_string();
        assert!(told.contains("[key]"), "{how}: the masked value was reported: {told}");
        reported.push(told);
    }
    reported.push(daemon.home().run(&["ledger", "tail", "-n", "1000", "--json"]).to_string());
    reported.push(daemon.log());
    reported.push(crate::web::everything_kept(&daemon.stop()));
    let exported = collector.received();
    assert!(exported.has("/v1/traces", b"fake.leak"), "spans really arrived");
    reported.push(String::from_utf8_lossy(&exported.everything()).into_owned());
    for text in &reported {
        let line = text.lines().find(|line| PARTS.iter().any(|part| line.contains(part)));
        assert_eq!(line, None, "the value was revealed");
    }
}
