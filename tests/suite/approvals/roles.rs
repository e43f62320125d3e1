//! Only the control socket accepts decisions.

use serde_json::json;

use super::*;

const METHODS: [&str; 7] = [
    "control/approvals.decide",
    "control/approvals.list",
    "control/approvals.show",
    "control/approvals.watch",
    "control/grants.revoke",
    "control/pin.set",
    "control/mode.set",
];

#[test]
fn agent_connection_cannot_decide() {
    let daemon = daemon_requiring_approval();
    let mut agent = daemon.agent();
    let id = request_approval(&mut agent, &json!({"path": "a.txt", "content": "x"}));
    for method in METHODS {
        let refused = agent.request(method, &json!({"id": id, "answer": "approve"}));
        assert_eq!(refused["error"]["data"]["code"], "wrong_socket", "{method}: {refused}");
    }
    for name in ["approvals.decide", "sinew/approvals.decide", "sinew/approve", "Control/approvals.decide"] {
        let refused = agent.request(name, &json!({"id": id, "answer": "approve"}));
        assert_eq!(refused["error"]["data"]["code"], "unknown_method", "{name}: {refused}");
    }
    // Tool names, aliases and arguments do not lead to the decision either.
    for tool in ["approve", "sinew_approve", "control/approvals.decide", "mcp__sinew__approve"] {
        let refused = agent.execute(tool, &json!({"id": id, "answer": "approve"}));
        assert_eq!(code(&refused), "unknown_tool", "{refused}");
    }
    let smuggled = agent.request(
        "sinew/execute",
        &json!({"tool_name": "write_file", "arguments": {"path": "a.txt", "content": "x"}, "approved": true}),
    );
    assert!(smuggled["error"].is_object(), "{smuggled}");
    assert_eq!(pending_approvals(&mut daemon.control(), 1)[0]["state"], "pending");
}

#[test]
#[cfg(target_os = "linux")]
fn sandboxed_child_reaches_no_socket_and_no_request() {
    let home = home_requiring_approval(300);
    let mut tools = std::fs::read_to_string(home.root().join("config/governance/tools.yaml")).unwrap();
    tools = tools.replace("extends: none\n", "");
    tools.push_str("  run_command: {allowed_commands: [python3, sinew, cat, ls]}\n");
    home.configure("governance/tools.yaml", &tools);
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    let id = request_approval(&mut agent, &json!({"path": "a.txt", "content": "x"}));
    let socket = daemon.home().socket("control.sock");
    let program = format!(
        "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect({:?})\n\
         s.sendall(b'{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"control/approvals.decide\",\"params\":{{\"id\":\"{id}\",\"answer\":\"approve\"}}}}\\n')\n\
         print(s.recv(1000))",
        socket.display().to_string()
    );
    let ran = agent.execute("run_command", &json!({"command": ["python3", "-c", program]}));
    assert_eq!(ran["output"]["exit_code"], 1, "{ran}");
    assert!(ran["output"]["stderr"].to_string().contains("PermissionError"), "it gets no socket: {ran}");
    let request = daemon.home().root().join(format!("state/approvals/{id}.json"));
    let read = agent.execute("run_command", &json!({"command": ["cat", request]}));
    assert!(read["output"]["exit_code"] == 1 || code_of(&read).is_some(), "{read}");
    let read = agent.execute("read_file", &json!({"path": request}));
    assert!(code(&read).starts_with("path_") || code(&read) == "control_plane", "{read}");
    assert_eq!(pending_approvals(&mut daemon.control(), 1)[0]["state"], "pending");
}

#[cfg(target_os = "linux")]
fn code_of(result: &Value) -> Option<&str> {
    result["metadata"]["refusal"]["code"].as_str()
}
