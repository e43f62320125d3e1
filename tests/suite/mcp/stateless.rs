//! The MCP revision without a handshake: every request is self-contained, and subscribers are notified of
//! changes.

use serde_json::{Value, json};
use tests::{Client, Daemon};

fn envelope() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "alone", "version": "1"},
    })
}

fn ask(client: &mut Client, method: &str, mut params: Value) -> Value {
    params["_meta"] = envelope();
    client.request(method, &params)
}

#[test]
fn client_discovers_and_calls_tools_without_a_handshake() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "hello");
    let mut client = daemon.agent();
    let found = ask(&mut client, "server/discover", json!({}));
    let found = &found["result"];
    assert_eq!(found["supportedVersions"], json!(["2026-07-28"]), "{found}");
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "sinew");
    assert_eq!(found["_meta"]["sinew/limits"]["max_line_bytes"], 16_777_216, "{found}");
    assert_eq!((&found["resultType"], &found["cacheScope"]), (&json!("complete"), &json!("private")));
    let listed = ask(&mut client, "tools/list", json!({}));
    let listed = &listed["result"];
    assert!(listed["ttlMs"].is_u64() && listed["cacheScope"] == "private", "{listed}");
    assert_eq!(listed["resultType"], "complete");
    let called = ask(&mut client, "tools/call", json!({"name": "read_file", "arguments": {"path": "a.txt"}}));
    let called = &called["result"];
    assert_eq!((&called["resultType"], &called["isError"]), (&json!("complete"), &json!(false)), "{called}");
    assert_eq!(called["structuredContent"]["content"], "hello");
    let records = daemon.home().records();
    let decision = records.iter().rfind(|record| tests::holds(record, "decision")).unwrap();
    assert_eq!(decision["caller"]["client"], "alone", "each request names its sender: {decision}");
}

#[test]
fn unsupported_revision_is_refused_with_supported_ones() {
    let daemon = Daemon::start();
    let mut client = daemon.agent();
    let mut meta = envelope();
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    for method in ["server/discover", "tools/list", "tools/call", "subscriptions/listen"] {
        let response = client.request(method, &json!({"_meta": meta, "notifications": {}}));
        assert_eq!(response["error"]["code"], -32022, "{response}");
        assert_eq!(response["error"]["data"]["supported"], json!(["2026-07-28"]));
        assert_eq!(response["error"]["data"]["requested"], "2031-01-01");
    }
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta.as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
    let response = client.request("tools/list", &json!({"_meta": meta}));
    assert_eq!(response["error"]["code"], -32602, "{response}");
}

#[test]
fn handshake_client_gets_no_stateless_fields() {
    let daemon = Daemon::start();
    let mut client = daemon.agent();
    client.request("initialize", &json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
    let listed = client.request("tools/list", &json!({}));
    assert!(listed["result"].get("resultType").is_none() && listed["result"].get("ttlMs").is_none());
    for method in ["server/discover", "subscriptions/listen"] {
        let response = client.request(method, &json!({"notifications": {}}));
        assert_eq!(response["error"]["code"], -32601, "{response}");
    }
}

#[test]
fn subscription_is_acknowledged_until_it_is_cancelled() {
    let daemon = Daemon::start();
    let mut client = daemon.agent();
    let params =
        json!({"_meta": envelope(), "notifications": {"toolsListChanged": true, "promptsListChanged": true}});
    let message = json!({"jsonrpc": "2.0", "id": "ear", "method": "subscriptions/listen", "params": params});
    let acknowledged = client.exchange(&message.to_string());
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
    assert_eq!(acknowledged["params"]["notifications"], json!({"toolsListChanged": true}), "what can be had");
    let subscription = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(acknowledged["params"]["_meta"][subscription], "ear");
    let again = client.exchange(&message.to_string());
    assert_eq!(
        again["error"]["data"]["id"], "ear",
        "the id is in use as long as a subscription is open: {again}"
    );

    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "ear"}});
    client.send(format!("{cancel}\n").as_bytes());
    // Answers keep their order with notifications, so that the absence of one is visible.
    assert!(ask(&mut client, "server/discover", json!({}))["result"].is_object());
    let anew = client.exchange(&message.to_string());
    assert_eq!(anew["method"], "notifications/subscriptions/acknowledged", "the id is free again: {anew}");
}

/// The stateless revision has neither `ping` nor `initialize`, and its replies never have the id null.
#[test]
fn stateless_revision_has_no_ping_and_no_null_id() {
    let daemon = Daemon::start();
    let mut client = daemon.agent();
    let native = client.exchange("{");
    assert_eq!(native.get("id"), Some(&Value::Null), "plain JSON-RPC requires it: {native}");
    for method in ["ping", "initialize"] {
        let response = ask(&mut client, method, json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
        assert_eq!(response["error"]["code"], -32601, "{response}");
    }
    let invalid = client.exchange("{");
    assert_eq!((invalid["error"]["code"].as_i64(), invalid.get("id")), (Some(-32700), None), "{invalid}");
    let mut fresh = daemon.agent();
    for method in ["tools/list", "tools/call", "server/discover"] {
        let response = fresh.request(method, &json!({"name": "read_file"}));
        assert_eq!(response["error"]["code"], -32602, "{response}");
        assert_eq!(response["error"]["data"]["field"], "_meta", "{response}");
    }
    let handshake = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    assert!(fresh.request("initialize", &handshake)["result"].is_object());
    assert!(fresh.request("ping", &json!({}))["result"].is_object());
    let invalid = fresh.exchange("{");
    assert_eq!(invalid.get("id"), None, "{invalid}");
}
