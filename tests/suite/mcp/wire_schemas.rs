//! Raw messages of every kind, valid and invalid, at three revisions, over the socket and both bridges: everything
//! that is sent back validates against the official JSON Schema of the revision. The schemas are in the npm package
//! of the conformance suite; where it cannot be installed, these tests are left out.

mod wire;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;

use jsonschema::Validator;
use serde_json::{Value, json};
use tests::{Bridge, Daemon, Home, left_out};

use self::wire::{HttpWire, Wire};
use super::http::HttpBridge;

/// Number of messages to send at least over each wire, over all revisions.
const LEAST_MESSAGES: usize = 501;
const STATELESS: &str = "2026-07-28";
const REVISIONS: [&str; 3] = ["2025-06-18", "2025-11-25", STATELESS];
const SENTINEL: &str = "sentinel";

/// Methods of MCP, those of other features, and one that does not exist.
const METHODS: &[&str] = &[
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/cancel",
    "tasks/update",
    "resources/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "logging/setLevel",
    "completion/complete",
    "notifications/cancelled",
    "no/such_method",
    "control/status",
];

/// Reads the official schemas by revision.
fn schemas() -> Option<HashMap<String, Value>> {
    let Some(folder) = std::env::var_os("SINEW_NODE").map(PathBuf::from) else {
        left_out("no SINEW_NODE: the package with the MCP schemas could not be installed");
        return None;
    };
    let bundle = folder.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/mcp_schemas.mjs");
    let printed = Command::new("node").arg(script).arg(bundle).output().expect("node runs");
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    Some(serde_json::from_slice(&printed.stdout).expect("schemas"))
}

/// Official schema of a revision.
struct OfficialSchema {
    revision: &'static str,
    schema: Value,
    validators: HashMap<String, Validator>,
}

impl OfficialSchema {
    fn new(revision: &'static str, schema: Value) -> Self {
        OfficialSchema { revision, schema, validators: HashMap::new() }
    }

    /// Asserts that a value has a type of the schema.
    fn check(&mut self, kind: &str, value: &Value) {
        let schema = &self.schema;
        let validator = self.validators.entry(kind.to_owned()).or_insert_with(|| {
            let types = if schema.get("$defs").is_some() { "$defs" } else { "definitions" };
            assert!(schema[types].get(kind).is_some(), "{kind} is no type");
            let mut whole = schema.clone();
            whole["$ref"] = format!("#/{types}/{kind}").into();
            // Before draft 2019-09, `$ref` hides its neighbours.
            let whole =
                json!({"$schema": whole["$schema"], types: whole[types], "allOf": [{"$ref": whole["$ref"]}]});
            jsonschema::validator_for(&whole).expect("a valid schema")
        });
        let violations: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
        assert!(violations.is_empty(), "{} {kind}: {violations:?} in {value}", self.revision);
    }

    /// Checks a message that the server sent; `method` is that of the request it answers.
    fn check_message(&mut self, message: &Value, method: Option<&str>) {
        let is_modern = self.revision != "2025-06-18";
        match (message.get("result"), message.get("error")) {
            (Some(result), None) => {
                self.check(if is_modern { "JSONRPCResultResponse" } else { "JSONRPCResponse" }, message);
                let kind = self.result_kind(method.unwrap_or_else(|| panic!("not asked: {message}")), result);
                self.check(kind, result);
            }
            // This revision requires an id that a message without one cannot have; the later ones corrected it.
            (None, Some(_)) if !is_modern && message.get("id").is_none() => {
                let mut completed = message.clone();
                completed["id"] = json!(0);
                self.check("JSONRPCError", &completed);
            }
            (None, Some(_)) => {
                self.check(if is_modern { "JSONRPCErrorResponse" } else { "JSONRPCError" }, message);
            }
            // The extension has no official schema of its own revision.
            (None, None) if message["method"] == "notifications/tasks" => {
                self.check("JSONRPCNotification", message);
            }
            (None, None) => self.check("ServerNotification", message),
            (Some(_), Some(_)) => panic!("both a result and an error: {message}"),
        }
        self.check(
            "JSONRPCMessage",
            &match message.get("id") {
                None if !is_modern && message.get("error").is_some() => return,
                _ => message.clone(),
            },
        );
    }

    fn result_kind(&self, method: &str, result: &Value) -> &'static str {
        match method {
            "initialize" => "InitializeResult",
            "server/discover" => "DiscoverResult",
            "tools/list" => "ListToolsResult",
            "tools/call" if result.get("task").is_some() => "CreateTaskResult",
            "tools/call" if result["resultType"] == "input_required" => "InputRequiredResult",
            "tools/call" if result["resultType"] == "task" => "Result",
            "tools/call" | "tasks/result" => "CallToolResult",
            "ping" => "EmptyResult",
            _ if self.revision == STATELESS => "Result",
            "tasks/get" => "GetTaskResult",
            "tasks/cancel" => "CancelTaskResult",
            "tasks/list" => "ListTasksResult",
            other => panic!("`{other}` must not have a result: {result}"),
        }
    }
}

/// Client that checks every message it gets.
struct CheckingClient {
    wire: Wire,
    schema: OfficialSchema,
    capabilities: Value,
    /// Method of each open request, by its id as JSON.
    open: HashMap<String, String>,
    sent: usize,
    received: usize,
}

impl CheckingClient {
    fn new(wire: Wire, schema: OfficialSchema) -> Self {
        let mut client = CheckingClient {
            wire,
            schema,
            capabilities: json!({}),
            open: HashMap::new(),
            sent: 0,
            received: 0,
        };
        if client.schema.revision != STATELESS {
            let hello = json!({"protocolVersion": client.schema.revision, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}});
            client.request(&json!("hello"), "initialize", hello);
            client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        }
        client
    }

    fn send(&mut self, line: &str) {
        self.wire.send(line);
        self.sent += 1;
    }

    /// Receives one message and checks it.
    fn receive(&mut self) -> Value {
        let message = self.wire.receive();
        self.received += 1;
        let id = message.get("id").filter(|_| message.get("method").is_none()).map(Value::to_string);
        let method = id.and_then(|id| self.open.remove(&id));
        self.schema.check_message(&message, method.as_deref());
        message
    }

    fn receive_response(&mut self, id: &Value) -> Value {
        loop {
            let message = self.receive();
            if message.get("id") == Some(id) && message.get("method").is_none() {
                return message;
            }
        }
    }

    fn with_meta(&self, mut params: Value) -> Value {
        if self.schema.revision == STATELESS && params.is_object() {
            let mut meta = params["_meta"].as_object().cloned().unwrap_or_default();
            meta.insert("io.modelcontextprotocol/protocolVersion".to_owned(), json!(STATELESS));
            meta.insert("io.modelcontextprotocol/clientCapabilities".to_owned(), self.capabilities.clone());
            meta.insert(
                "io.modelcontextprotocol/clientInfo".to_owned(),
                json!({"name": "raw", "version": "1"}),
            );
            params["_meta"] = meta.into();
        }
        params
    }

    fn start(&mut self, id: &Value, method: &str, params: Value) {
        let params = self.with_meta(params);
        self.open.insert(id.to_string(), method.to_owned());
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
    }

    fn request(&mut self, id: &Value, method: &str, params: Value) -> Value {
        self.start(id, method, params);
        self.receive_response(id)
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = json!(format!("call-{}", self.sent));
        self.request(&id, "tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Sends a line that need not be a request, and checks what arrives before the reply to the next request.
    fn send_raw(&mut self, line: &str) {
        self.send(line);
        let method = if self.schema.revision == STATELESS { "server/discover" } else { "ping" };
        self.request(&json!(SENTINEL), method, json!({}));
    }
}

/// Starts a daemon with files, without limits that would hide other replies, and with approval for `delete_file`.
fn daemon() -> Daemon {
    let home = Home::initialised().without_automatic_modes().without_rate_limits();
    home.configure_layer("governance/tools.yaml", "tools:\n  delete_file: {requires_approval: true}\n");
    home.file("a.txt", "one\ntwo\n");
    home.file("c.txt", "é");
    Daemon::start_in(home)
}

/// Every method with parameters of every type, and ids of every kind.
fn send_methods(client: &mut CheckingClient) {
    let shapes = [
        json!({}),
        json!({"cursor": "x", "taskId": "x", "name": "x"}),
        json!({"cursor": 5, "taskId": [], "name": null}),
        json!({"_meta": {}}),
    ];
    for (number, method) in METHODS.iter().enumerate() {
        for (shape, params) in shapes.iter().enumerate() {
            client.request(&json!(format!("m{number}-{shape}")), method, params.clone());
        }
    }
    for id in [
        json!(0),
        json!(-1),
        json!(9_007_199_254_740_991_u64),
        json!(""),
        json!("é\"\\"),
        json!("x".repeat(256)),
    ] {
        client.request(&id, "tools/list", json!({}));
    }
}

/// Lines that are not valid requests.
fn send_malformed(client: &mut CheckingClient) {
    let list = |fields: &str| format!("{{\"jsonrpc\":\"2.0\",{fields}}}");
    let long_id = format!("\"id\":\"{}\",\"method\":\"ping\"", "x".repeat(300));
    let lines = [
        "{".to_owned(),
        "5".to_owned(),
        "null".to_owned(),
        "\"text\"".to_owned(),
        "[]".to_owned(),
        "[{}]".to_owned(),
        "{}".to_owned(),
        "{\"id\":1}".to_owned(),
        "{\"id\":1,\"method\":\"ping\"}".to_owned(),
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}".to_owned(),
        list("\"id\":null,\"method\":\"ping\""),
        list("\"id\":1.5,\"method\":\"ping\""),
        list("\"id\":true,\"method\":\"ping\""),
        list("\"id\":{},\"method\":\"ping\""),
        list("\"id\":[1],\"method\":\"ping\""),
        list("\"id\":1,\"id\":2,\"method\":\"ping\""),
        list("\"id\":1,\"method\":5"),
        list("\"id\":1,\"method\":\"ping\",\"params\":5"),
        list("\"id\":1,\"method\":\"ping\",\"params\":[]"),
        list("\"id\":1,\"method\":\"ping\",\"more\":1"),
        list("\"id\":1,\"result\":{}"),
        list("\"id\":1,\"error\":{}"),
        list("\"method\":\"notifications/unknown\""),
        list("\"method\":\"tools/call\""),
        list(&long_id),
        list("\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"nothing\"}"),
        list("\"method\":\"notifications/cancelled\",\"params\":5"),
        list("\"method\":\"notifications/progress\",\"params\":{}"),
        list("\"id\":\"\\ud800\",\"method\":\"ping\""),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} x".to_owned(),
    ];
    for line in lines {
        // An error about a line with a readable id repeats it.
        client.open.insert("1".to_owned(), "ping".to_owned());
        client.send_raw(&line);
        client.open.remove("1");
    }
}

/// Every tool with arguments that are refused, and some that run.
fn call_tools(client: &mut CheckingClient) {
    let listed = client.request(&json!("tools"), "tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().expect("tools").clone();
    assert!(tools.len() > 20, "{}", tools.len());
    for tool in &tools {
        let name = tool["name"].as_str().expect("a name");
        for arguments in
            [json!({"no_such_argument": 1}), json!({"path": 5, "command": {}, "url": []}), json!("text")]
        {
            let answer = client.call(name, &arguments);
            assert_eq!(answer["result"]["isError"], true, "{answer}");
        }
    }
    let command = |words: Value| ("run_command", json!({"command": words}));
    for (tool, arguments) in [
        ("read_file", json!({"path": "a.txt"})),
        ("read_file", json!({"path": "no.txt"})),
        ("read_file", json!({"path": "/etc/shadow"})),
        ("list_directory", json!({"path": "."})),
        ("search_files", json!({"pattern": "two", "path": "."})),
        ("write_file", json!({"path": "new.txt", "content": "x"})),
        ("edit_file", json!({"path": "new.txt", "old_text": "x", "new_text": "y"})),
        ("create_directory", json!({"path": "d"})),
        ("runtime_status", json!({})),
        ("system_metrics_snapshot", json!({})),
        ("self_check", json!({})),
        ("git_status", json!({})),
        ("fetch_url", json!({"url": "http://127.0.0.1:1/"})),
        command(json!(["echo", "a"])),
        command(json!(["ls", "no-such-file"])),
        command(json!(["no-such-program"])),
        ("no_such_tool", json!({})),
    ] {
        client.call(tool, &arguments);
    }
}

/// Calls with progress, cancelled calls, and calls that wait for the operator.
fn call_with_progress_and_cancel(client: &mut CheckingClient) {
    for (number, token) in [json!("t"), json!(7)].into_iter().enumerate() {
        let params = json!({"name": "run_command", "arguments": {"command": ["cat", "a.txt"]}, "_meta": {"progressToken": token}});
        client.request(&json!(format!("progress-{number}")), "tools/call", params);
    }
    let delete =
        json!({"name": "delete_file", "arguments": {"path": "a.txt"}, "_meta": {"progressToken": "w"}});
    client.start(&json!("waiting"), "tools/call", delete);
    let note = client.receive();
    assert_eq!(note["method"], "notifications/progress", "{note}");
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "waiting"}});
    client.send_raw(&cancel.to_string());
    client.open.remove("\"waiting\"");
    let pending =
        json!({"name": "delete_file", "arguments": {"path": "a.txt"}, "_meta": {"sinew/approval": "async"}});
    let pending = client.request(&json!("pending"), "tools/call", pending);
    assert_eq!(pending["result"]["isError"], true, "{pending}");
}

/// Tasks of the revisions that have them.
fn use_tasks(client: &mut CheckingClient) {
    let call = |tool: &str| json!({"name": tool, "arguments": {"path": "a.txt"}, "task": {"ttl": 60_000}});
    if client.schema.revision == "2025-11-25" {
        for (number, tool) in ["read_file", "delete_file", "no_such_tool"].into_iter().enumerate() {
            let created = client.request(&json!(format!("task-{number}")), "tools/call", call(tool));
            let of_task = json!({"taskId": created["result"]["task"]["taskId"]});
            let methods: &[&str] = match tool {
                "delete_file" => {
                    &["tasks/get", "tasks/list", "tasks/cancel", "tasks/get", "tasks/result", "tasks/cancel"]
                }
                _ => &["tasks/get", "tasks/result", "tasks/get", "tasks/list", "tasks/cancel"],
            };
            for (step, method) in methods.iter().enumerate() {
                client.request(&json!(format!("task-{number}-{step}")), method, of_task.clone());
            }
        }
    }
    if client.schema.revision == STATELESS {
        client.capabilities = json!({"elicitation": {}});
        let asked = client.request(&json!("form"), "tools/call", call("delete_file"));
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        client.capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}});
        let created = client.request(&json!("task"), "tools/call", call("delete_file"));
        assert_eq!(created["result"]["resultType"], "task", "{created}");
        let of_task = json!({"taskId": created["result"]["taskId"], "inputResponses": {}});
        let listen = json!({"notifications": {"taskIds": [of_task["taskId"]], "toolsListChanged": true}});
        client.start(&json!("listen"), "subscriptions/listen", listen);
        assert_eq!(client.receive()["method"], "notifications/subscriptions/acknowledged");
        for (step, method) in ["tasks/get", "tasks/update", "tasks/cancel", "tasks/get"].iter().enumerate() {
            client.request(&json!(format!("task-{step}")), method, of_task.clone());
        }
        client.capabilities = json!({});
        client.request(&json!("undeclared"), "tasks/get", of_task);
    }
}

/// Sends everything at each revision, over a new connection each.
fn check_revisions(connect: impl Fn(&Daemon, &'static str) -> Wire) {
    let Some(mut schemas) = schemas() else { return };
    let daemon = daemon();
    let (mut sent, mut received) = (0, 0);
    for revision in REVISIONS {
        let schema = OfficialSchema::new(revision, schemas.remove(revision).expect("a schema"));
        let mut client = CheckingClient::new(connect(&daemon, revision), schema);
        send_methods(&mut client);
        send_malformed(&mut client);
        call_tools(&mut client);
        call_with_progress_and_cancel(&mut client);
        use_tasks(&mut client);
        println!("{revision}: {} messages sent, {} checked", client.sent, client.received);
        sent += client.sent;
        received += client.received;
    }
    assert!(sent >= LEAST_MESSAGES && received >= LEAST_MESSAGES, "{sent} sent, {received} checked");
}

#[test]
fn messages_on_the_socket_match_the_official_schemas() {
    check_revisions(|daemon, _| Wire::Socket(daemon.agent()));
}

#[test]
fn messages_of_the_bridge_match_the_official_schemas() {
    check_revisions(|daemon, _| Wire::Bridge(Bridge::start(daemon.home(), &["--no-start"])));
}

#[test]
fn messages_over_http_match_the_official_schemas() {
    check_revisions(|daemon, revision| Wire::Http(HttpWire::new(HttpBridge::start(daemon.home()), revision)));
}
