//! Tasks and forms, by which a client is notified of a call that waits for the operator, in revision
//! 2025-11-25 and in the stateless one. Nothing that a client sends approves a call.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Client, Daemon, Home, wait_for, wait_until};

use super::shake;

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Starts a daemon whose policy requires approval for every `write_file`.
fn daemon() -> Daemon {
    let home = Home::initialised();
    home.configure(
        "governance/tools.yaml",
        "tools:\n  write_file: {requires_approval: true, allowed_in_modes: [NORMAL, ALERT]}\n",
    );
    let settings = std::fs::read_to_string(home.root().join("config/sinew.yaml")).expect("readable");
    home.configure(
        "sinew.yaml",
        &settings.replace("approval_answer_seconds: 50", "approval_answer_seconds: 1"),
    );
    Daemon::start_in(home)
}

fn handshake_client(daemon: &Daemon, revision: &str) -> Client {
    let mut client = daemon.agent();
    shake(&mut client, revision);
    client
}

fn write_call() -> Value {
    json!({"name": "write_file", "arguments": {"path": "a.txt", "content": "x"}})
}

fn as_task(mut call: Value, ttl: u64) -> Value {
    call["task"] = json!({"ttl": ttl});
    call
}

/// Adds the `_meta` of the stateless revision with these client capabilities.
fn stateless(mut params: Value, client: &str, capabilities: &Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"},
    });
    params
}

fn with_tasks() -> Value {
    json!({"extensions": {TASKS: {}}})
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not text: {value}")).to_owned()
}

/// Waits for the only pending approval.
fn pending(daemon: &Daemon) -> String {
    wait_for("an approval is pending", || {
        let reply = daemon.control().request("control/approvals.list", &json!({}));
        let list = reply["result"]["approvals"].as_array().expect("a list").clone();
        (list.len() == 1).then(|| text(&list[0]["id"]))
    })
}

fn approve(daemon: &Daemon, id: &str) {
    let reply = daemon.control().request("control/approvals.decide", &json!({"id": id, "answer": "approve"}));
    assert!(reply.get("error").is_none(), "{reply}");
}

/// Sends a request and returns its response; notifications before it are collected.
fn request(client: &mut Client, method: &str, params: &Value, notes: &mut Vec<Value>) -> Value {
    let id = format!("{method}-{}", notes.len());
    let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    client.send(format!("{message}\n").as_bytes());
    response(client, &json!(id), notes)
}

fn response(client: &mut Client, id: &Value, notes: &mut Vec<Value>) -> Value {
    loop {
        let message = client.receive().expect("a message");
        if message["id"] == *id {
            return message;
        }
        notes.push(message);
    }
}

fn written(daemon: &Daemon) -> Option<String> {
    std::fs::read_to_string(daemon.home().workspace().join("a.txt")).ok()
}

#[test]
fn task_waits_for_the_operator_and_returns_the_result() {
    let daemon = daemon();
    let mut client = daemon.agent();
    let offered = shake(&mut client, "2025-11-25");
    let expect = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    assert_eq!(offered["capabilities"]["tasks"], expect);
    let mut notes = Vec::new();
    let listed = request(&mut client, "tools/list", &json!({}), &mut notes);
    let tools = listed["result"]["tools"].as_array().expect("tools").clone();
    assert!(tools.iter().all(|tool| tool["execution"]["taskSupport"] == "optional"), "{listed}");

    let mut call = as_task(write_call(), 60_000);
    call["_meta"] = json!({"progressToken": "p"});
    let created = request(&mut client, "tools/call", &call, &mut notes);
    let task = &created["result"]["task"];
    assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &json!(60_000)), "{created}");
    let id = text(&task["taskId"]);
    assert_eq!(id.len(), 32, "128 bits");
    let approval = pending(&daemon);
    let of_task = json!({"taskId": id});
    let waiting = wait_for("the task says what it waits for", || {
        let state = request(&mut client, "tasks/get", &of_task, &mut notes)["result"].clone();
        state["statusMessage"].is_string().then_some(state)
    });
    assert_eq!(waiting["status"], "working");
    assert!(text(&waiting["statusMessage"]).contains(&format!("sinew approve {approval}")), "{waiting}");
    let listed = request(&mut client, "tasks/list", &json!({}), &mut notes);
    assert_eq!(listed["result"]["tasks"][0]["taskId"], json!(id), "{listed}");
    assert_eq!(written(&daemon), None);

    let asked = json!({"jsonrpc": "2.0", "id": "r", "method": "tasks/result", "params": of_task});
    client.send(format!("{asked}\n").as_bytes());
    approve(&daemon, &approval);
    let result = response(&mut client, &json!("r"), &mut notes)["result"].clone();
    assert_eq!(result["isError"], false, "{result}");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"], of_task);
    assert_eq!(written(&daemon).as_deref(), Some("x"));
    let state = request(&mut client, "tasks/get", &of_task, &mut notes);
    assert_eq!(state["result"]["status"], "completed", "{state}");
    let again = request(&mut client, "tasks/result", &of_task, &mut notes);
    assert_eq!(again["result"], result, "a result can be fetched again");

    let with = |method: &str| notes.iter().filter(|note| note["method"] == method).collect::<Vec<_>>();
    let progress = with("notifications/progress");
    assert!(!progress.is_empty(), "{notes:?}");
    for note in progress {
        assert_eq!(note["params"]["_meta"]["io.modelcontextprotocol/related-task"], of_task, "{note}");
    }
    let statuses: Vec<_> =
        with("notifications/tasks/status").iter().map(|note| text(&note["params"]["status"])).collect();
    assert_eq!(statuses.last().map(String::as_str), Some("completed"), "{notes:?}");
}

#[test]
fn refused_and_cancelled_tasks_keep_their_status() {
    let daemon = daemon();
    let mut client = handshake_client(&daemon, "2025-11-25");
    let mut notes = Vec::new();
    let create = |client: &mut Client, call: Value, notes: &mut Vec<Value>| {
        let created = request(client, "tools/call", &as_task(call, 0), notes);
        assert_eq!(created["result"]["task"]["ttl"], 10_000, "the shortest retention: {created}");
        json!({"taskId": created["result"]["task"]["taskId"]})
    };
    let denied =
        create(&mut client, json!({"name": "read_file", "arguments": {"path": "/etc/shadow"}}), &mut notes);
    let result = request(&mut client, "tasks/result", &denied, &mut notes);
    assert_eq!(result["result"]["isError"], true, "{result}");
    let state = request(&mut client, "tasks/get", &denied, &mut notes);
    assert_eq!(state["result"]["status"], "failed", "{state}");
    let unknown = create(&mut client, json!({"name": "no_such_tool"}), &mut notes);
    let result = request(&mut client, "tasks/result", &unknown, &mut notes);
    assert_eq!(result["error"]["code"], -32602, "the error of the call itself: {result}");

    let waiting = create(&mut client, write_call(), &mut notes);
    pending(&daemon);
    let cancelled = request(&mut client, "tasks/cancel", &waiting, &mut notes);
    assert_eq!(cancelled["result"]["status"], "cancelled", "{cancelled}");
    wait_until("the request is withdrawn", || {
        let reply = daemon.control().request("control/approvals.list", &json!({}));
        reply["result"]["approvals"].as_array().is_some_and(Vec::is_empty)
    });
    let result = request(&mut client, "tasks/result", &waiting, &mut notes);
    assert_eq!(result["result"]["isError"], true, "{result}");
    let state = request(&mut client, "tasks/get", &waiting, &mut notes);
    assert_eq!(state["result"]["status"], "cancelled", "{state}");
    for ended in [&waiting, &denied] {
        let again = request(&mut client, "tasks/cancel", ended, &mut notes);
        assert_eq!(again["error"]["code"], -32602, "{again}");
    }
    let cursor = request(&mut client, "tasks/list", &json!({"cursor": "x"}), &mut notes);
    assert_eq!(cursor["error"]["code"], -32602, "{cursor}");
}

#[test]
fn task_of_another_connection_does_not_exist() {
    let daemon = daemon();
    let mut client = handshake_client(&daemon, "2025-11-25");
    let mut notes = Vec::new();
    let created = request(&mut client, "tools/call", &as_task(write_call(), 60_000), &mut notes);
    let of_task = json!({"taskId": created["result"]["task"]["taskId"]});
    let mut stranger = handshake_client(&daemon, "2025-11-25");
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let known = request(&mut stranger, method, &of_task, &mut notes);
        let unknown = request(&mut stranger, method, &json!({"taskId": "0"}), &mut notes);
        assert_eq!(known["error"]["code"], -32602, "{method}: {known}");
        assert_eq!(known["error"], unknown["error"], "{method}: no difference is visible");
    }
    let listed = request(&mut stranger, "tasks/list", &json!({}), &mut notes);
    assert_eq!(listed["result"]["tasks"], json!([]));
    let mut other = stateless(of_task.clone(), "suite", &with_tasks());
    assert_eq!(stranger.request("tasks/get", &other)["error"]["code"], -32602);
    other["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let refused = stranger.request("tasks/get", &other);
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    assert_eq!(refused["error"]["data"]["requiredCapabilities"], with_tasks());
    let mut old = handshake_client(&daemon, "2025-06-18");
    for method in ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update"] {
        assert_eq!(old.request(method, &of_task)["error"]["code"], -32601, "{method}");
    }
    let plain = json!({"name": "runtime_status", "arguments": {}, "task": {"ttl": 1}});
    assert!(old.request("tools/call", &plain)["result"]["content"].is_array(), "the parameter is ignored");
}

/// A task of revision 2025-11-25 ends with its connection, like any call.
#[test]
fn call_of_a_task_ends_with_its_connection() {
    let daemon = Daemon::start();
    let fifo = daemon.home().workspace().join("gate");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let mut client = handshake_client(&daemon, "2025-11-25");
    let call = json!({"name": "run_command", "arguments": {"command": ["cat", "gate"]}});
    client.request("tools/call", &as_task(call, 60_000));
    let running = || daemon.home().run(&["status", "--json"]).json()["calls"]["running"].as_u64();
    wait_until("the call runs", || running() == Some(1));
    let begun = Instant::now();
    drop(client);
    wait_until("the call ends", || running() == Some(0));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[test]
fn stateless_call_becomes_a_task_when_it_waits() {
    let daemon = daemon();
    let capabilities = with_tasks();
    let found = daemon.agent().request("server/discover", &stateless(json!({}), "one", &capabilities));
    assert_eq!(found["result"]["capabilities"]["extensions"], capabilities["extensions"]);
    let quick = json!({"name": "runtime_status", "arguments": {}});
    let quick = daemon.agent().request("tools/call", &stateless(quick, "one", &capabilities));
    assert_eq!(quick["result"]["resultType"], "complete", "a result needs no task: {quick}");

    let created = daemon.agent().request("tools/call", &stateless(write_call(), "one", &capabilities));
    let task = &created["result"];
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{created}");
    let of_task = json!({"taskId": task["taskId"]});
    let approval = pending(&daemon);
    // Each request has a connection of its own, as over HTTP.
    let get = |client: &str, capabilities: &Value| {
        daemon.agent().request("tasks/get", &stateless(of_task.clone(), client, capabilities))
    };
    assert_eq!(get("two", &capabilities)["error"]["code"], -32602, "another client");
    assert_eq!(get("one", &json!({}))["error"]["code"], -32021, "without the extension");
    let working = get("one", &capabilities)["result"].clone();
    assert_eq!((&working["resultType"], &working["status"]), (&json!("complete"), &json!("working")));
    assert!(text(&working["statusMessage"]).contains(&approval), "{working}");

    let mut listener = daemon.agent();
    let wanted = json!({"notifications": {"taskIds": [task["taskId"], "unknown"]}});
    let listen = stateless(wanted, "one", &capabilities);
    let listen = json!({"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": listen});
    let acknowledged = listener.exchange(&listen.to_string());
    assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([task["taskId"]]), "{acknowledged}");
    approve(&daemon, &approval);
    let completed = std::iter::from_fn(|| listener.receive())
        .find(|note| note["params"]["status"] == "completed")
        .expect("a notification");
    assert_eq!(completed["method"], "notifications/tasks", "{completed}");
    assert_eq!(completed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    let done = get("one", &capabilities)["result"].clone();
    assert_eq!((&done["status"], &done["result"]["isError"]), (&json!("completed"), &json!(false)), "{done}");
    assert_eq!(written(&daemon).as_deref(), Some("x"));
    let of_ended = stateless(of_task.clone(), "one", &capabilities);
    let cancelled = daemon.agent().request("tasks/cancel", &of_ended);
    assert_eq!(cancelled["result"], json!({"resultType": "complete"}), "an acknowledgement");
}

/// A form informs the user of the client about the approval. Its answer is no approval.
#[test]
fn answer_to_a_form_approves_nothing() {
    let daemon = daemon();
    let capabilities = json!({"elicitation": {}});
    let call = |more: Value| {
        let mut params = write_call();
        params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        daemon.agent().request("tools/call", &stateless(params, "one", &capabilities))["result"].clone()
    };
    let asked = call(json!({}));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let approval = pending(&daemon);
    let key = format!("approval-{approval}");
    let form = &asked["inputRequests"][&key];
    assert_eq!(form["method"], "elicitation/create", "{asked}");
    assert_eq!(form["params"]["requestedSchema"]["properties"], json!({}), "a form without fields");
    assert!(text(&form["params"]["message"]).contains(&format!("sinew approve {approval}")), "{form}");
    for content in
        [json!({}), json!({"approve": true, "approved": "yes", "answer": "approve", "pin": "0000"})]
    {
        let answer = json!({"inputResponses": {&key: {"action": "accept", "content": content}}});
        let still = call(answer);
        assert_eq!(still["resultType"], "input_required", "{still}");
    }
    assert_eq!((pending(&daemon), written(&daemon)), (approval.clone(), None), "asked once, and not run");
    let declined = call(json!({"inputResponses": {&key: {"action": "decline"}}}));
    assert_eq!((&declined["resultType"], &declined["isError"]), (&json!("complete"), &json!(true)));
    assert_eq!(declined["_meta"]["sinew/refusal"]["code"], "approval_pending", "{declined}");
    approve(&daemon, &approval);
    let done = call(json!({"inputResponses": {&key: {"action": "accept", "content": {}}}}));
    assert_eq!((&done["resultType"], &done["isError"]), (&json!("complete"), &json!(false)), "{done}");
    assert_eq!(written(&daemon).as_deref(), Some("x"));
    let malformed = stateless(json!({"name": "read_file", "inputResponses": []}), "one", &capabilities);
    assert_eq!(daemon.agent().request("tools/call", &malformed)["error"]["code"], -32602);
}

#[test]
fn task_shows_its_form_until_it_is_answered() {
    let daemon = daemon();
    let capabilities = json!({"extensions": {TASKS: {}}, "elicitation": {"form": {}}});
    let ask = |method: &str, params: Value| {
        daemon.agent().request(method, &stateless(params, "one", &capabilities))["result"].clone()
    };
    let created = ask("tools/call", write_call());
    let id = created["taskId"].clone();
    let approval = pending(&daemon);
    let key = format!("approval-{approval}");
    let state = ask("tasks/get", json!({"taskId": id}));
    assert_eq!(state["status"], "input_required", "{state}");
    assert!(state["inputRequests"][&key].is_object(), "{state}");
    let answers =
        json!({&key: {"action": "accept", "content": {"approve": true}}, "other": {"action": "accept"}});
    let update = json!({"taskId": id, "inputResponses": answers});
    assert_eq!(ask("tasks/update", update), json!({"resultType": "complete"}));
    let state = ask("tasks/get", json!({"taskId": id}));
    assert_eq!((&state["status"], written(&daemon)), (&json!("working"), None), "{state}");
    ask("tasks/cancel", json!({"taskId": id}));
    let state = ask("tasks/get", json!({"taskId": id}));
    assert_eq!(state["status"], "cancelled", "{state}");
}
