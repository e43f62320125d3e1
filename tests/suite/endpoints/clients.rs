//! The endpoints as their clients use them, with results in one comparable form.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};
use tests::{Bridge, Client, Daemon, Home, sinew};

use super::table::{ApprovalUse, TableCase};

/// Result of a call in the same form for every endpoint.
#[derive(Debug, PartialEq)]
pub(super) struct EndpointResult {
    /// True if the call ran to its end without a failure.
    pub(super) success: bool,
    /// The output of a successful call.
    pub(super) output: Value,
    /// The refusal of a call that did not run.
    pub(super) refusal: Value,
    /// The failure of a call that ran.
    pub(super) failure: Value,
    /// Other metadata; a protocol error has none.
    pub(super) metadata: Option<Value>,
}

impl EndpointResult {
    /// Converts the tool result of the native endpoint and of the command line.
    fn from_result(mut result: Value) -> EndpointResult {
        let success = result["success"] == true;
        let mut metadata = result["metadata"].take();
        let (refusal, failure) = (metadata["refusal"].take(), metadata["failure"].take());
        let error = &result["error"];
        assert_eq!(error.is_string(), !success, "{result}");
        assert!(refusal.is_null() || *error == refusal["reason"], "{error}: {refusal}");
        // The output of a repeated call is not stored, and MCP has no empty output that fits a schema.
        let is_reported = success && metadata["repeat"].is_null();
        let output = if is_reported { result["output"].take() } else { Value::Null };
        EndpointResult { success, output, refusal, failure, metadata: Some(metadata) }
    }

    /// Converts the response of MCP, in either era.
    fn from_response(mut response: Value) -> EndpointResult {
        if response.get("error").is_some() {
            let mut error = response["error"].take();
            let reported = error["data"]["code"] == "unknown_tool";
            assert!(
                reported && error["code"] == -32602,
                "only a tool that is not there is a protocol error: {error}"
            );
            let refusal = error["data"].take();
            return EndpointResult {
                success: false,
                output: Value::Null,
                refusal,
                failure: Value::Null,
                metadata: None,
            };
        }
        let mut result = response["result"].take();
        let success = result["isError"] == false;
        let mut meta = result["_meta"].take();
        let refusal = meta["sinew/refusal"].take();
        let text = result["content"][0]["text"].as_str().expect("text for a model");
        // The problems of the arguments are listed instead of the reason, which joins them to one sentence.
        let expect = match (refusal["problems"].as_array(), refusal["tool"].as_str()) {
            (Some(_), Some(tool)) => format!("Invalid {tool} call:"),
            // Not worded as a denial: the model is to call again.
            _ if refusal["code"] == "approval_pending" => "This call needs approval".to_owned(),
            _ => refusal["reason"].as_str().unwrap_or_default().to_owned(),
        };
        assert!(text.starts_with(&expect), "{text}: {expect}");
        EndpointResult {
            success,
            output: result["structuredContent"].take(),
            refusal,
            failure: meta["sinew/failure"].take(),
            metadata: Some(meta["sinew/metadata"].take()),
        }
    }
}

/// An endpoint that executes calls.
pub(super) trait Endpoint {
    /// Executes a call, with an approval where the case uses one.
    fn call(&mut self, case: &TableCase, approval: Option<&str>) -> EndpointResult;
}

/// `sinew/execute` on the agent socket.
pub(super) struct NativeEndpoint(Client);

impl NativeEndpoint {
    pub(super) fn connect(daemon: &Daemon) -> NativeEndpoint {
        NativeEndpoint(daemon.agent())
    }
}

impl Endpoint for NativeEndpoint {
    fn call(&mut self, case: &TableCase, approval: Option<&str>) -> EndpointResult {
        let mut more = json!({"approval": "async"});
        if let Some(id) = approval.filter(|_| case.approval_use == ApprovalUse::LastRequested) {
            more["approval_id"] = json!(id);
        }
        if let Some(key) = case.key {
            more["idempotency_key"] = json!(key);
        }
        EndpointResult::from_result(self.0.execute_with(&case.tool, &case.arguments, &more))
    }
}

/// Transport of MCP messages.
pub(super) enum McpTransport {
    Socket(Client),
    Bridge(Bridge),
}

impl McpTransport {
    fn request(&mut self, method: &str, params: &Value) -> Value {
        match self {
            McpTransport::Socket(client) => client.request(method, params),
            McpTransport::Bridge(bridge) => bridge.request(method, params),
        }
    }
}

/// MCP era: the client identifies itself once (handshake) or in each request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum McpEra {
    Handshake,
    Stateless,
}

pub(super) struct McpEndpoint {
    wire: McpTransport,
    era: McpEra,
}

impl McpEndpoint {
    pub(super) fn connect(mut wire: McpTransport, era: McpEra) -> McpEndpoint {
        if era == McpEra::Handshake {
            let client = json!({"name": "suite", "version": "1"});
            let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
            assert!(wire.request("initialize", &params)["result"].is_object());
        }
        McpEndpoint { wire, era }
    }
}

impl Endpoint for McpEndpoint {
    fn call(&mut self, case: &TableCase, approval: Option<&str>) -> EndpointResult {
        let mut meta = json!({"sinew/approval": "async"});
        if let Some(id) = approval.filter(|_| case.approval_use == ApprovalUse::LastRequested) {
            meta["sinew/approval_id"] = json!(id);
        }
        if let Some(key) = case.key {
            meta["sinew/idempotency_key"] = json!(key);
        }
        if self.era == McpEra::Stateless {
            meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "suite", "version": "1"});
        }
        let params = json!({"name": case.tool, "arguments": case.arguments, "_meta": meta});
        let response = self.wire.request("tools/call", &params);
        let sealed = response["result"]["resultType"] == "complete" || response.get("error").is_some();
        assert_eq!(sealed, self.era == McpEra::Stateless || response.get("error").is_some(), "{response}");
        EndpointResult::from_response(response)
    }
}

/// `sinew call`, one process per call.
pub(super) struct CliEndpoint<'a>(pub(super) &'a Home);

impl Endpoint for CliEndpoint<'_> {
    fn call(&mut self, case: &TableCase, approval: Option<&str>) -> EndpointResult {
        let mut command = sinew();
        command.args(["call", "--async", "--json", "-"]);
        if let Some(id) = approval.filter(|_| case.approval_use == ApprovalUse::LastRequested) {
            command.args(["--approval-id", id]);
        }
        if let Some(key) = case.key {
            command.args(["--idempotency-key", key]);
        }
        command.args(["--", &case.tool]).current_dir(self.0.workspace());
        command.env("SINEW_HOME", self.0.root()).env("HOME", self.0.user_home());
        let (code, stdout, stderr) = run(command, &case.arguments);
        let result: Value = serde_json::from_slice(&stdout)
            .unwrap_or_else(|error| panic!("{} {}: {error}: {stderr}", case.tool, case.arguments));
        let answer = EndpointResult::from_result(result);
        let expected = match answer.refusal["code"].as_str() {
            Some("approval_pending") => 4,
            Some(_) => 3,
            None if answer.success => 0,
            None => 1,
        };
        assert_eq!(code, Some(expected), "{} {}: {stderr}", case.tool, case.arguments);
        answer
    }
}

/// Returns the decision of `sinew hook` about a host tool (`allow`, `ask` or `deny`) and its reason.
pub(super) fn ask_hook(home: &Home, tool: &str, input: &Value) -> (String, String) {
    let event = json!({"cwd": home.workspace(), "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input});
    let mut command = sinew();
    command.args(["hook", "pre-tool-use"]).current_dir("/");
    command.env("SINEW_HOME", home.root()).env("HOME", home.user_home());
    let (code, stdout, stderr) = run(command, &event);
    assert_eq!(code, Some(0), "{tool} {input}: {stderr}");
    let reported: Value = serde_json::from_slice(&stdout).expect("one JSON object");
    let word = |key: &str| reported["hookSpecificOutput"][key].as_str().unwrap_or_default().to_owned();
    (word("permissionDecision"), word("permissionDecisionReason"))
}

/// Runs a command with this input; returns its exit code and output.
fn run(mut command: std::process::Command, input: &Value) -> (Option<i32>, Vec<u8>, String) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("start sinew");
    let mut pipe = child.stdin.take().expect("its input");
    let text = input.to_string();
    // The command may answer before it has read all of its input, so a failed write is no error.
    let writer = std::thread::spawn(move || drop(pipe.write_all(text.as_bytes())));
    let output = child.wait_with_output().expect("wait for sinew");
    writer.join().expect("the writer");
    (output.status.code(), output.stdout, String::from_utf8_lossy(&output.stderr).into_owned())
}
