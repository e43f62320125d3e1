//! Model Context Protocol on the agent socket. This file covers the revisions with a handshake.

mod bridge;
pub(crate) mod http;
mod model_text;
#[cfg(target_os = "linux")]
mod output_schemas;
mod sdk;
mod stateless;
mod tasks;
mod wire_schemas;

use std::path::Path;

use serde_json::{Value, json};
use tests::{Client, Daemon};

pub(crate) fn shake(client: &mut Client, version: &str) -> Value {
    let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "suite", "version": "1"}});
    let response = client.request("initialize", &params);
    client.send(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    response["result"].clone()
}

#[test]
fn each_handshake_revision_is_answered_in_kind() {
    let daemon = Daemon::start();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let answer = shake(&mut daemon.agent(), version);
        assert_eq!(answer["protocolVersion"], version, "{answer}");
        assert_eq!(answer["serverInfo"]["name"], "sinew");
        assert_eq!(answer["_meta"]["sinew/limits"]["max_line_bytes"], 16_777_216, "{answer}");
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

/// A new manifest adds a tool, and clients that are connected already are notified.
#[test]
fn clients_are_notified_when_the_tools_change() {
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
    let reported = client.receive().expect("it is told");
    assert_eq!(
        (&reported["method"], reported.get("id")),
        (&json!("notifications/tools/list_changed"), None),
        "{reported}"
    );
    assert!(names(&mut client).len() > before.len());
}

#[test]
fn call_returns_text_and_structured_content() {
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
    let decision = records.iter().rfind(|record| tests::holds(record, "decision")).unwrap();
    assert!(decision.to_string().contains("4bf92f3577b34da6a3ce929d0e0e4736"), "{decision}");
    assert!(decision.to_string().contains("suite"), "the client's name is on record: {decision}");
}

/// The openai-agents SDK sends the `_meta` of a tool back with every call of it.
#[test]
fn meta_of_a_listed_tool_is_accepted_in_its_calls() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "hello");
    let mut client = daemon.agent();
    shake(&mut client, "2025-11-25");
    let listed = client.request("tools/list", &json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let announced = &tools.iter().find(|tool| tool["name"] == "read_file").unwrap()["_meta"];
    assert!(announced["sinew/category"].is_string(), "{announced}");
    let mut call = |meta: &Value| {
        let params = json!({"name": "read_file", "arguments": {"path": "a.txt"}, "_meta": meta});
        client.request("tools/call", &params)
    };
    let response = call(announced);
    assert_eq!(response["result"]["structuredContent"]["content"], "hello", "{response}");
    for tool in tools {
        assert_eq!(call(&tool["_meta"])["result"]["isError"], false, "{tool}");
    }
    for malformed in [
        json!({"sinew/approval": 5}),
        json!({"sinew/approval": "someday"}),
        json!({"sinew/approval_id": {}}),
        json!({"sinew/idempotency_key": 5}),
        json!([]),
    ] {
        assert_eq!(call(&malformed)["error"]["code"], -32602, "{malformed}");
    }
}

#[test]
fn unknown_meta_keys_are_ignored_on_every_method() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "hello");
    let stateless = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for stateless in [json!({}), stateless] {
        let mut meta = json!({"sinew/category": "read_only", "sinew/unknown": {}, "com.example/key": [1]});
        meta.as_object_mut().unwrap().extend(stateless.as_object().unwrap().clone());
        let mut client = daemon.agent();
        let handshake =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "suite"}});
        let call = json!({"name": "read_file", "arguments": {"path": "a.txt"}});
        for (method, mut params) in
            [("initialize", handshake), ("ping", json!({})), ("tools/list", json!({})), ("tools/call", call)]
        {
            // The stateless revision has neither.
            if matches!(method, "initialize" | "ping") && stateless != json!({}) {
                continue;
            }
            params["_meta"] = meta.clone();
            let response = client.request(method, &params);
            assert!(response["result"].is_object(), "{method}: {response}");
        }
    }
    let meta = json!({"sinew/unknown": 1, "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let discovered = daemon.agent().request("server/discover", &json!({"_meta": meta}));
    assert!(discovered["result"].is_object(), "{discovered}");
}

#[test]
fn refusal_is_a_result_the_model_can_read() {
    let daemon = Daemon::start();
    let mut client = daemon.agent();
    shake(&mut client, "2025-11-25");
    let response = client.request("tools/call", &json!({"name": "write_file", "arguments": {"path": "x"}}));
    let result = &response["result"];
    assert_eq!(result["isError"], true, "{response}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Invalid write_file call:\n- `content` is required\n"), "{text}");
    assert_eq!(result["_meta"]["sinew/refusal"]["code"], "invalid_arguments");
}

#[test]
fn unknown_tool_is_a_protocol_error_and_recorded() {
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
