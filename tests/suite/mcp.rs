//! The Model Context Protocol on the agent socket; here with a handshake.

mod bridge;
mod sdk;
mod stateless;

use std::path::Path;

use serde_json::{Value, json};
use tests::{Client, Daemon};

fn shake(client: &mut Client, version: &str) -> Value {
    let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "suite", "version": "1"}});
    let response = client.request("initialize", &params);
    client.send(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    response["result"].clone()
}

#[test]
fn each_handshake_era_is_answered_in_kind() {
    let daemon = Daemon::start();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let answer = shake(&mut daemon.agent(), version);
        assert_eq!(answer["protocolVersion"], version, "{answer}");
        assert_eq!(answer["serverInfo"]["name"], "sinew");
        assert_eq!(answer["_meta"]["sinew/limits"]["max_line_bytes"], 4_194_304, "{answer}");
        assert!(answer["capabilities"]["tools"].is_object(), "{answer}");
    }
    let answer = shake(&mut daemon.agent(), "1999-01-01");
    assert_eq!(answer["protocolVersion"], "2025-11-25", "an unknown version gets the newest we speak");
}

#[test]
fn tools_are_listed_with_schemas_and_hints() {
    let daemon = Daemon::start();
    let mut client = daemon.agent();
    shake(&mut client, "2025-11-25");
    let listed = client.request("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.is_sorted() && names.contains(&"read_file"), "{names:?}");
    for tool in tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert!(tool["outputSchema"]["type"] == "object", "{tool}");
    }
    let read = tools.iter().find(|tool| tool["name"] == "read_file").unwrap();
    assert_eq!(read["annotations"]["readOnlyHint"], true);
    let bad = client.request("tools/list", &json!({"cursor": "nonsense"}));
    assert_eq!(bad["error"]["code"], -32602, "{bad}");
}

/// A tool comes with a manifest, and whoever spoke to the daemon before hears of it.
#[test]
fn clients_are_told_when_there_are_other_tools() {
    let daemon = Daemon::start();
    let mut client = daemon.agent();
    shake(&mut client, "2025-11-25");
    let names = |client: &mut Client| {
        let listed = client.request("tools/list", &json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = names(&mut client);
    let folder = daemon.home().root().join("tools");
    std::fs::create_dir_all(&folder).unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tools/clickup.yaml");
    std::fs::copy(shipped, folder.join("shipped.yaml")).unwrap();
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    let told = client.receive().expect("it is told");
    assert_eq!(
        (&told["method"], told.get("id")),
        (&json!("notifications/tools/list_changed"), None),
        "{told}"
    );
    assert!(names(&mut client).len() > before.len());
}

#[test]
fn a_call_has_text_and_structure() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "hello");
    let mut client = daemon.agent();
    shake(&mut client, "2025-06-18");
    let meta = json!({"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"});
    let params = json!({"name": "read_file", "arguments": {"path": "a.txt"}, "_meta": meta});
    let response = client.request("tools/call", &params);
    let result = &response["result"];
    assert_eq!(result["structuredContent"]["content"], "hello", "{response}");
    assert!(result["content"][0]["text"].as_str().unwrap().contains("hello"));
    assert_ne!(result["isError"], true);
    let records = daemon.home().records();
    let decision = records.iter().rfind(|record| record["kind"] == "decision").unwrap();
    assert!(decision.to_string().contains("4bf92f3577b34da6a3ce929d0e0e4736"), "{decision}");
    assert!(decision.to_string().contains("suite"), "the client's name is on record: {decision}");
}

#[test]
fn a_refusal_is_a_result_the_model_can_read() {
    let daemon = Daemon::start();
    let mut client = daemon.agent();
    shake(&mut client, "2025-11-25");
    let response = client.request("tools/call", &json!({"name": "write_file", "arguments": {"path": "x"}}));
    let result = &response["result"];
    assert_eq!(result["isError"], true, "{response}");
    assert!(result["content"][0]["text"].as_str().unwrap().contains("Missing required fields: content"));
    assert_eq!(result["_meta"]["sinew/refusal"]["code"], "invalid_arguments");
}

#[test]
fn an_unknown_tool_is_a_protocol_error_and_on_record() {
    let daemon = Daemon::start();
    let mut client = daemon.agent();
    shake(&mut client, "2025-11-25");
    let response = client.request("tools/call", &json!({"name": "nope", "arguments": {}}));
    assert_eq!(response["error"]["code"], -32602, "{response}");
    let records = daemon.home().records();
    assert!(records.iter().any(|record| record["kind"] == "refusal" && record["code"] == "unknown_tool"));
}

#[test]
fn calling_before_the_handshake_is_refused() {
    let daemon = Daemon::start();
    let response =
        daemon.agent().request("tools/call", &json!({"name": "read_file", "arguments": {"path": "x"}}));
    assert!(response["error"]["message"].as_str().unwrap().contains("initialize"), "{response}");
    assert!(daemon.agent().request("ping", &json!({}))["result"].is_object());
}
