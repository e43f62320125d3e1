//! Tests of the protocol reference: every method of both sockets is documented, its parameters are those that the
//! daemon knows, and its example is answered in the documented shape.
//!
//! `SINEW_PROTOCOL_EXAMPLES=FILE` writes the examples of this run to FILE, to replace
//! `crates/server/protocol-examples.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};
use tests::{Client, Daemon, Home};

const REFERENCE: &str = include_str!("../../crates/server/protocol.json");
const EXAMPLES: &str = include_str!("../../crates/server/protocol-examples.json");

/// Examples by method: the parameters that were sent, and the result.
struct Examples {
    home: String,
    collected: BTreeMap<String, (Value, Value)>,
}

impl Examples {
    /// Sends the request and collects it as an example. Before that, sends it with an unknown parameter, which is
    /// refused without an effect, to compare the known parameters with the documented ones.
    fn run(&mut self, client: &mut Client, method: &str, params: &Value) -> Value {
        if method.contains("sinew/") || method.contains("control/") {
            self.check_parameters(client, method, params);
        }
        let response = client.request(method, params);
        assert!(response["result"].is_object(), "{method}: {response}");
        let result = response["result"].clone();
        self.collect(method, params, &result);
        result
    }

    fn collect(&mut self, method: &str, params: &Value, result: &Value) {
        let example = (shorten(params, &self.home), shorten(result, &self.home));
        assert!(self.collected.insert(method.to_owned(), example).is_none(), "{method} has two examples");
    }

    fn check_parameters(&self, client: &mut Client, method: &str, params: &Value) {
        let mut unknown = params.clone();
        unknown.as_object_mut().expect("an object").insert("zzzzzzzz".to_owned(), json!(1));
        let error = client.request(method, &unknown)["error"]["message"].to_string();
        assert!(error.contains("unknown parameter"), "{method}: {error}");
        let known = error.trim_end_matches('"').split_once("; known: ").map_or("", |(_, known)| known);
        let known: BTreeSet<&str> = known.split(", ").filter(|name| !name.is_empty()).collect();
        if recording() {
            println!("PARAMS {method} {known:?}");
            return;
        }
        let described = description(method);
        let documented = names(&described["params"]);
        // The parameters of a decision depend on the answer.
        let all = method == "control/approvals.decide" || known == documented;
        assert!(all && known.is_subset(&documented), "{method} knows {known:?}, documented {documented:?}");
    }
}

fn recording() -> bool {
    std::env::var_os("SINEW_PROTOCOL_EXAMPLES").is_some()
}

fn reference() -> Value {
    serde_json::from_str(REFERENCE).expect("the reference is JSON")
}

/// Returns the description of a method.
fn description(method: &str) -> Value {
    let reference = reference();
    let mut methods = sockets(&reference).flat_map(|socket| items(&socket["methods"]));
    let found = methods.find(|described| described["name"] == method);
    found.unwrap_or_else(|| panic!("{method} is not documented")).clone()
}

fn sockets(reference: &Value) -> impl Iterator<Item = &Value> {
    items(&reference["sockets"])
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn names(fields: &Value) -> BTreeSet<&str> {
    items(fields).filter_map(|field| field["name"].as_str()).collect()
}

/// Shortens a value for the page: one element of each list of objects, no long texts, and a fixed home.
fn shorten(value: &Value, home: &str) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, field)| (key.clone(), shorten_field(key, field, home)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(list) => {
            let most = if list.iter().any(Value::is_object) { 1 } else { 4 };
            list.iter().take(most).map(|item| shorten(item, home)).collect()
        }
        Value::String(text) => {
            let text = text.replace(home, "/home/ada");
            match text.char_indices().nth(240) {
                Some((end, _)) => format!("{}…", &text[..end]).into(),
                None => text.into(),
            }
        }
        other => other.clone(),
    }
}

/// Shortens a field. The schemas of tools are on their own pages.
fn shorten_field(key: &str, field: &Value, home: &str) -> Value {
    match key {
        "inputSchema" | "outputSchema" | "parameters" => json!({"type": "object"}),
        _ => shorten(field, home),
    }
}

/// Compares keys and types. `null` stands for a value that is absent.
fn assert_same_shape(documented: &Value, actual: &Value, place: &str) {
    match (documented, actual) {
        (Value::Null, _) | (_, Value::Null) => {}
        (Value::Object(documented), Value::Object(actual)) => {
            let keys = |fields: &Map<String, Value>| fields.keys().cloned().collect::<BTreeSet<_>>();
            assert_eq!(keys(documented), keys(actual), "{place}");
            for (key, field) in documented {
                assert_same_shape(field, &actual[key], &format!("{place}.{key}"));
            }
        }
        (Value::Array(documented), Value::Array(actual)) => {
            if let (Some(documented), Some(actual)) = (documented.first(), actual.first()) {
                assert_same_shape(documented, actual, &format!("{place}[0]"));
            }
        }
        (documented, actual) => assert_eq!(json_type(documented), json_type(actual), "{place}"),
    }
}

fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Validates parameters and result against the schema that the client libraries are generated from.
fn assert_valid(schema: &Value, method: &str, (params, result): &(Value, Value)) {
    for (part, value) in [("params", params), ("result", result)] {
        let expected = &schema["properties"][method]["properties"][part];
        assert!(expected.is_object(), "the schema has no {part} of {method}");
        let whole = json!({"$defs": schema["$defs"], "allOf": [expected]});
        let validator = jsonschema::validator_for(&whole).expect("the schema compiles");
        let errors: Vec<String> =
            validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{method} {part}: {errors:#?}");
    }
}

/// Compares a result with the documented fields: each is documented with its type, and the required ones are there.
fn assert_described(method: &str, result: &Value) {
    let described = description(method);
    let documented = &described["result"];
    for (name, value) in result.as_object().expect("an object") {
        let field = items(documented).find(|field| field["name"] == name.as_str());
        let field = field.unwrap_or_else(|| panic!("{method} returns `{name}`, which is not documented"));
        let kind = field["type"].as_str().unwrap_or_default();
        let fits = value.is_null() || kind == "any" || kind == json_type(value);
        assert!(fits, "{method}: `{name}` is documented as {kind}: {value}");
    }
    for field in items(documented).filter(|field| field["optional"] != true) {
        let name = field["name"].as_str().expect("a field has a name");
        assert!(result.get(name).is_some(), "{method} does not return `{name}`: {result}");
    }
}

/// Returns the schema of the protocol, as the program prints it.
fn printed_schema(daemon: &Daemon) -> Value {
    let printed = daemon.home().run(&["schema", "protocol"]).must_exit(0);
    serde_json::from_slice(&printed.output.stdout).expect("the schema is JSON")
}

fn agent_examples(examples: &mut Examples, daemon: &Daemon) -> String {
    let mut agent = daemon.agent();
    let note = daemon.home().file("note.md", "hello\n").display().to_string();
    examples.run(&mut agent, "sinew/status", &json!({}));
    examples.run(&mut agent, "sinew/tools", &json!({"format": "openai", "category": "self_check"}));
    let read = json!({"tool_name": "read_file", "arguments": {"path": note}});
    examples.run(&mut agent, "sinew/execute", &read);
    let forbidden = json!({"tool_name": "read_file", "arguments": {"path": "/etc/shadow"}});
    examples.run(&mut agent, "sinew/explain", &forbidden);
    let host = json!({"host": "claude-code", "tool_name": "Read", "tool_input": {"file_path": note}});
    examples.run(&mut agent, "sinew/judge_host", &host);
    let review =
        json!({"host": "claude-code", "tool_name": "Read", "tool_response": "AWS_KEY=AKIAIOSFODNN7EXAMPLE"});
    examples.run(&mut agent, "sinew/review_host", &review);
    let terms = json!({"name": "reviewer", "allowlist": ["read_file"], "hop_budget": 3});
    let session = examples.run(&mut agent, "sinew/session.open", &terms)["session_id"].clone();
    examples.run(&mut agent, "sinew/session.turn", &json!({"session_id": session}));
    examples.run(&mut agent, "sinew/session.spend", &json!({"session_id": session, "cost": 0.25}));
    examples.run(&mut daemon.control(), "control/console.open", &json!({"port": 43_211}));
    examples.run(&mut daemon.control(), "control/sessions.list", &json!({}));
    examples.run(&mut agent, "sinew/session.close", &json!({"session_id": session}));

    let mut client = daemon.agent();
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "my-agent", "version": "1.0.0"}});
    examples.run(&mut client, "initialize", &hello);
    examples.run(&mut client, "ping", &json!({}));
    examples.run(&mut client, "tools/list", &json!({}));
    examples.run(&mut client, "tools/call", &json!({"name": "read_file", "arguments": {"path": note}}));
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    examples.run(&mut daemon.agent(), "server/discover", &json!({"_meta": meta}));
    listen_example(examples, &mut daemon.agent(), &meta);
    note
}

/// A subscription has no reply: its example is the first notification.
fn listen_example(examples: &mut Examples, client: &mut Client, meta: &Value) {
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
    let acknowledged = client.exchange(&request.to_string());
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    examples.collect("subscriptions/listen", &params, &acknowledged["params"]);
}

fn approval_examples(examples: &mut Examples, daemon: &Daemon, note: &str) {
    let mut control = daemon.control();
    let recorded = json!({"workspace": daemon.home().workspace().canonicalize().unwrap(), "seconds": 600});
    let preview = examples.run(&mut control, "control/recording.start", &recorded);
    assert!(preview["candidate"].is_string(), "{preview}");
    examples.run(&mut control, "control/recording.stop", &json!({}));
    examples.run(&mut control, "control/mode.get", &json!({}));
    let alert = json!({"mode": "ALERT", "reason": "unusual calls tonight"});
    examples.run(&mut control, "control/mode.set", &alert);
    let mut waiting = daemon.agent();
    let write = json!({"tool_name": "write_file", "arguments": {"path": note, "content": "bye\n"}});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "sinew/execute", "params": write});
    waiting.send(format!("{request}\n").as_bytes());
    let pending =
        || daemon.control().request("control/approvals.list", &json!({}))["result"]["approvals"].clone();
    let id = tests::wait_for("the request", || pending()[0]["id"].as_str().map(str::to_owned));
    examples.run(&mut control, "control/approvals.list", &json!({}));
    examples.run(&mut control, "control/approvals.show", &json!({"id": id}));
    let mut decision = json!({"id": id, "answer": "approve", "for_seconds": 600});
    let displayed = control.request("control/approvals.decide", &decision)["error"]["data"]["rule"].clone();
    decision["rule"] = displayed;
    examples.run(&mut control, "control/approvals.decide", &decision);
    waiting.receive().expect("the approved call ends");
    let grants = examples.run(&mut control, "control/grants.list", &json!({}));
    let grant = grants["grants"][0]["id"].clone();
    examples.run(&mut control, "control/grants.revoke", &json!({"id": grant}));
    examples.run(&mut daemon.control(), "control/approvals.watch", &json!({}));

    waiting.send(format!("{request}\n").as_bytes());
    tests::wait_for("the request", || pending()[0]["id"].as_str().map(str::to_owned));
    let calls = examples.run(&mut control, "control/calls.list", &json!({}));
    let call = calls["calls"][0]["call_id"].clone();
    examples.run(&mut control, "control/calls.cancel", &json!({"call_id": call}));
    task_examples(examples, daemon, note);
    control.request("control/mode.set", &json!({"mode": "NORMAL", "reason": "all is well"}));
}

/// Tasks of both revisions: a call that waits for the operator, and one that has ended.
fn task_examples(examples: &mut Examples, daemon: &Daemon, note: &str) {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let mut client = daemon.agent();
    let write =
        json!({"name": "write_file", "arguments": {"path": note, "content": "later\n"}, "_meta": meta});
    let task = client.request("tools/call", &write)["result"]["taskId"].clone();
    assert!(task.is_string(), "a waiting call is a task");
    examples.run(&mut client, "tasks/get", &json!({"taskId": task, "_meta": meta}));
    let answer = json!({"taskId": task, "inputResponses": {}, "_meta": meta});
    examples.run(&mut client, "tasks/update", &answer);
    examples.run(&mut client, "tasks/cancel", &json!({"taskId": task, "_meta": meta}));

    let mut client = daemon.agent();
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "my-agent", "version": "1.0.0"}});
    client.request("initialize", &hello);
    let read = json!({"name": "read_file", "arguments": {"path": note}, "task": {"ttl": 60_000}});
    let created = request_past_notifications(&mut client, "tools/call", &read);
    let result = json!({"taskId": created["task"]["taskId"]});
    for (method, params) in [("tasks/result", result), ("tasks/list", json!({}))] {
        let answered = request_past_notifications(&mut client, method, &params);
        examples.collect(method, &params, &answered);
    }
}

/// Returns the result of a request. Notifications of a task may arrive before it.
fn request_past_notifications(client: &mut Client, method: &str, params: &Value) -> Value {
    let mut message = client
        .exchange(&json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params}).to_string());
    while message["id"] != method {
        message = client.receive().expect("a response");
    }
    assert!(message["result"].is_object(), "{method}: {message}");
    message["result"].clone()
}

fn control_examples(examples: &mut Examples, daemon: &Daemon, note: &str) {
    let mut control = daemon.control();
    examples.run(&mut control, "control/status", &json!({}));
    let write = json!({"tool_name": "write_file", "arguments": {"path": note, "content": "good night\n"}});
    let written = examples.run(&mut control, "control/execute", &write);
    examples.run(&mut control, "control/explain", &write);
    let call = written["metadata"]["call_id"].clone();
    examples.run(&mut control, "control/undo", &json!({"call_id": call, "dry_run": true}));
    let filter = json!({"tool": "write_file", "kind": "decision", "limit": 1});
    examples.run(&mut control, "control/ledger.query", &filter);
    examples.run(&mut control, "control/ledger.tail", &json!({"count": 1}));
    examples.run(&mut control, "control/ledger.verify", &json!({}));
    examples.run(&mut control, "control/ledger.export", &json!({"format": "csv", "limit": 1}));
    let events = json!({"events": ["tool_call_blocked", "mode_transition"]});
    examples.run(&mut daemon.control(), "control/events", &events);
    let mut opener = daemon.agent();
    for name in 0..10 {
        let path = daemon.home().user_home().join(".ssh").join(name.to_string());
        opener.execute("write_file", &json!({"path": path, "content": "x"}));
    }
    let suspended =
        || daemon.control().request("control/callers.list", &json!({}))["result"]["suspended"].clone();
    tests::wait_until("the suspension", || suspended()[0]["id"].is_string());
    let suspended = examples.run(&mut control, "control/callers.list", &json!({}));
    let caller = suspended["suspended"][0]["id"].clone();
    examples.run(&mut control, "control/callers.resume", &json!({"caller": caller}));
    let terms = json!({"allowlist": ["read_file"]});
    let session = opener.request("sinew/session.open", &terms)["result"]["session_id"].clone();
    examples.run(&mut control, "control/sessions.close", &json!({"session_id": session}));
    examples.run(&mut control, "control/reload", &json!({}));
    examples.run(&mut control, "control/pin.set", &json!({"new": "correct-horse"}));
    examples.run(&mut control, "control/restart", &json!({}));
    // The restarted daemon accepts this connection.
    examples.run(&mut daemon.control(), "control/shutdown", &json!({}));
}

#[test]
fn documented_examples_are_answered_as_documented() {
    let daemon = Daemon::start_in(Home::initialised());
    let home = daemon.home().user_home().canonicalize().expect("the home exists").display().to_string();
    let mut examples = Examples { home, collected: BTreeMap::new() };
    let note = agent_examples(&mut examples, &daemon);
    approval_examples(&mut examples, &daemon, &note);
    control_examples(&mut examples, &daemon, &note);

    if let Some(file) = std::env::var_os("SINEW_PROTOCOL_EXAMPLES") {
        let all: Map<String, Value> = examples
            .collected
            .iter()
            .map(|(method, (params, result))| (method.clone(), json!({"params": params, "result": result})))
            .collect();
        let text = serde_json::to_string_pretty(&all).expect("JSON") + "\n";
        std::fs::write(Path::new(&file), text).expect("the file can be written");
        return;
    }
    let documented: Map<String, Value> = serde_json::from_str(EXAMPLES).expect("the examples are JSON");
    let reference = reference();
    let methods: BTreeSet<&str> = sockets(&reference).flat_map(|socket| names(&socket["methods"])).collect();
    assert_eq!(methods, documented.keys().map(String::as_str).collect(), "every method has an example");
    assert_eq!(methods, examples.collected.keys().map(String::as_str).collect(), "every example was sent");
    let schema = printed_schema(&daemon);
    for (method, example) in &examples.collected {
        assert_valid(&schema, method, example);
    }
    for (method, (params, result)) in &examples.collected {
        assert_same_shape(&documented[method]["params"], params, &format!("{method} params"));
        assert_same_shape(&documented[method]["result"], result, &format!("{method} result"));
        assert_described(method, result);
    }
}
