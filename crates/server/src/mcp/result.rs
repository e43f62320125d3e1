//! Converts a `ToolResult` to MCP's format. A problem that the model can correct is a result with `isError`,
//! never a protocol error.

use serde::Serialize;
use serde_json::Value;
use tool::result::{FailureReport, ResultMetadata};
use tool::{Refusal, RefusalCode, ToolResult};

use super::era::StatelessResultFields;
use crate::rpc::{self, RpcError, RpcReply};

/// Builds the reply to `tools/call`.
pub(crate) fn reply(result: ToolResult, seal: Option<StatelessResultFields>) -> RpcReply {
    if let Some(refusal) = result.metadata.refusal.as_ref().filter(|it| it.code == RefusalCode::UnknownTool) {
        return Err(RpcError::unknown_tool(&refusal_text(refusal), refusal));
    }
    rpc::encode_result(&McpCallResult { seal, ..to_call_result(result) })
}

/// Result of a call in MCP's format.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct McpCallResult {
    #[serde(flatten)]
    seal: Option<StatelessResultFields>,
    content: Vec<ContentBlock>,
    is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<Value>,
    #[serde(rename = "_meta")]
    meta: CallResultMeta,
}

#[derive(Serialize)]
struct ContentBlock {
    r#type: &'static str,
    text: String,
}

/// Fields that a native client gets beside the output, each sent once.
#[derive(Serialize)]
struct CallResultMeta {
    #[serde(rename = "sinew/metadata")]
    metadata: ResultMetadata,
    #[serde(rename = "sinew/latency_ms")]
    latency_ms: f64,
    #[serde(rename = "sinew/refusal", skip_serializing_if = "Option::is_none")]
    refusal: Option<Refusal>,
    #[serde(rename = "sinew/failure", skip_serializing_if = "Option::is_none")]
    failure: Option<FailureReport>,
}

fn to_call_result(result: ToolResult) -> McpCallResult {
    let content = content_blocks(&result);
    let ToolResult { success, output: value, mut metadata, latency_ms, .. } = result;
    let (refusal, failure) = (metadata.refusal.take(), metadata.failure.take());
    McpCallResult {
        seal: None,
        content,
        is_error: !success,
        // A partial output may not match the output schema, which structured content must match; and in these
        // revisions structured content must be an object.
        structured_content: (success && value.is_object() && metadata.repeat.is_none()).then_some(value),
        meta: CallResultMeta { metadata, latency_ms, refusal, failure },
    }
}

fn content_blocks(result: &ToolResult) -> Vec<ContentBlock> {
    let text = |text: String| ContentBlock { r#type: "text", text };
    // Tool output for a worker is wrapped in markers that the output cannot contain.
    let reported = |content: String| match &result.metadata.session {
        Some(session) => text(session.untrusted.wrap(&content)),
        None => text(content),
    };
    if let Some(repeat) = result.metadata.repeat.as_ref().filter(|_| result.success) {
        let ran = format!("This call already ran to completion as call {}.", repeat.of);
        return vec![text(format!("{ran} It was not run again, and its earlier output is not stored."))];
    }
    if result.success {
        let edited = result.metadata.edited_arguments.iter().map(|arguments| {
            let arguments = Value::Object(arguments.clone());
            text(format!("The user edited the arguments before approving; the call ran with: {arguments}"))
        });
        return [reported(result.output.to_string())].into_iter().chain(edited).collect();
    }
    let mut blocks = vec![match &result.metadata.refusal {
        Some(refusal) => text(refusal_text(refusal)),
        None => reported(failure_text(result)),
    }];
    if result.output.as_object().is_some_and(|output| !output.is_empty()) {
        blocks.push(reported(format!("Output so far: {}", result.output)));
    }
    blocks
}

/// Formats a refusal for the model: reason, problems, hint, example, repair, rule, and whether a retry can
/// succeed.
fn refusal_text(refusal: &Refusal) -> String {
    let mut lines = vec![refusal.reason.clone()];
    // The reason and the hint may already contain some of the rest.
    let reported =
        |text: &str| refusal.reason.contains(text) || refusal.hint.iter().any(|hint| hint.contains(text));
    let problems = refusal.problems.iter().filter(|problem| !reported(&problem.message));
    lines.extend(problems.map(|problem| format!("- {}: {}", problem.pointer, problem.message)));
    lines.extend(refusal.hint.iter().map(|hint| format!("Hint: {hint}")));
    let example = refusal.example.iter().map(Value::to_string).filter(|example| !reported(example));
    lines.extend(example.map(|example| format!("Example arguments: {example}")));
    if let Some(repair) = &refusal.repair {
        let arguments = Value::Object(repair.arguments.clone());
        lines.push(format!("These arguments would pass ({}): {arguments}", repair.note));
    }
    let rule = refusal.rule.iter().filter(|rule| !reported(&rule.id));
    lines.extend(rule.map(|rule| format!("Rule: {} ({}:{})", rule.id, rule.file, rule.line)));
    lines.push(match (refusal.retryable, refusal.retry_after_ms) {
        (true, Some(wait)) => format!("Try again after {wait} ms."),
        (true, None) => "A corrected or later call can succeed.".to_owned(),
        (false, _) => "Retrying the same call will not help.".to_owned(),
    });
    lines.join("\n")
}

fn failure_text(result: &ToolResult) -> String {
    let mut lines = vec![result.error.clone().unwrap_or_else(|| "The tool failed.".to_owned())];
    let failure = result.metadata.failure.as_ref();
    let hint = failure.and_then(|failure| failure.hint.as_deref());
    lines.extend(hint.map(|hint| format!("Hint: {hint}")));
    if failure.is_some_and(|failure| failure.retryable) {
        lines.push("The same call may succeed later.".to_owned());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::refusal::{ArgumentProblem, Repair};
    use tool::{CallId, Failure, FailureKind, Mode, RuleRef, ToolOutput, TraceContext};

    use super::*;

    fn metadata() -> ResultMetadata {
        ResultMetadata::new(CallId::fresh(), &TraceContext::root(), Mode::Normal, "policy")
    }

    fn told(result: ToolResult) -> Value {
        serde_json::from_slice(reply(result, None).unwrap().bytes()).unwrap()
    }

    #[test]
    fn success_is_text_and_structure() {
        let output = ToolOutput { value: json!({"content": "é\n"}), ..ToolOutput::default() };
        let reported = told(ToolResult::done("read_file", output, metadata(), 1.5));
        assert_eq!(reported["isError"], false);
        assert_eq!(reported["structuredContent"], json!({"content": "é\n"}));
        assert_eq!(reported["content"], json!([{"type": "text", "text": "{\"content\":\"é\\n\"}"}]));
        assert!(reported["_meta"]["sinew/metadata"]["call_id"].is_string());
        assert!(reported["_meta"].get("sinew/refusal").is_none());
    }

    #[test]
    fn a_list_is_text_only() {
        let output = ToolOutput { value: json!([1]), ..ToolOutput::default() };
        let reported = told(ToolResult::done("t", output, metadata(), 0.0));
        assert_eq!(
            (&reported["content"][0]["text"], reported.get("structuredContent")),
            (&json!("[1]"), None)
        );
    }

    #[test]
    fn refusal_text_lists_problems_hint_and_repair() {
        let mut refusal = Refusal::new("write_file", RefusalCode::InvalidArguments, "two things are wrong")
            .with_hint("give both")
            .with_rule(RuleRef { file: "tools.yaml".into(), line: 4, id: "write_file.x".into() });
        refusal.problems = vec![ArgumentProblem {
            pointer: "/path".into(),
            expected: "string".into(),
            got: "number".into(),
            message: "`path` must be a string".into(),
        }];
        refusal.example = Some(json!({"path": "a"}));
        let arguments = json!({"path": "5"}).as_object().unwrap().clone();
        refusal.repair = Some(Repair { arguments, note: "5 as text".into() });
        let reported = told(ToolResult::refused(refusal, metadata(), 0.0));
        assert_eq!(reported["isError"], true);
        assert!(reported.get("structuredContent").is_none());
        let text = reported["content"][0]["text"].as_str().unwrap();
        let expect = "two things are wrong\n- /path: `path` must be a string\nHint: give both\n\
            Example arguments: {\"path\":\"a\"}\nThese arguments would pass (5 as text): {\"path\":\"5\"}\n\
            Rule: write_file.x (tools.yaml:4)\nA corrected or later call can succeed.";
        assert_eq!(text, expect);
        assert_eq!(reported["_meta"]["sinew/refusal"]["code"], "invalid_arguments");
        assert!(reported["_meta"]["sinew/metadata"].get("refusal").is_none(), "sent once");
    }

    #[test]
    fn refusal_text_repeats_nothing() {
        let reason = "Invalid call. /path must be string. Example: {\"path\":\"a\"}";
        let mut refusal = Refusal::new("t", RefusalCode::InvalidArguments, reason)
            .with_hint("`t.allowed` decides")
            .with_rule(RuleRef { file: "tools.yaml".into(), line: 4, id: "t.allowed".into() });
        refusal.example = Some(json!({"path": "a"}));
        let text = format!("{reason}\nHint: `t.allowed` decides\nA corrected or later call can succeed.");
        assert_eq!(told(ToolResult::refused(refusal, metadata(), 0.0))["content"][0]["text"], text);
    }

    #[test]
    fn denial_says_that_a_retry_will_not_help() {
        let refusal = Refusal::new("t", RefusalCode::PathForbidden, "Permission denied: no");
        let reported = told(ToolResult::refused(refusal, metadata(), 0.0));
        let text = reported["content"][0]["text"].as_str().unwrap();
        assert_eq!(text, "Permission denied: no\nRetrying the same call will not help.");
    }

    #[test]
    fn failure_keeps_the_partial_output() {
        let mut failure = Failure::new(FailureKind::TimedOut, "Command timed out").with_hint("ask for less");
        failure.output = Some(json!({"stdout": "half"}));
        let reported = told(ToolResult::failed("t", failure, metadata(), 0.0));
        assert_eq!(reported["isError"], true);
        let text = "Command timed out\nHint: ask for less\nThe same call may succeed later.";
        assert_eq!(reported["content"][0]["text"], text);
        assert_eq!(reported["content"][1]["text"], "Output so far: {\"stdout\":\"half\"}");
        assert_eq!(reported["_meta"]["sinew/failure"]["kind"], "timed_out");
    }

    #[test]
    fn unknown_tool_is_a_protocol_error_with_the_refusal() {
        let refusal = Refusal::new("raed", RefusalCode::UnknownTool, "Tool raed not found").with_hint("read");
        let error = reply(ToolResult::refused(refusal, metadata(), 0.0), None).unwrap_err();
        assert_eq!((error.code, &error.data["code"]), (-32602, &json!("unknown_tool")));
        assert!(error.message.contains("Tool raed not found\nHint: read"), "{}", error.message);
    }
}
