//! Converts a `ToolResult` to MCP's format. A problem that the model can correct is a result with `isError`,
//! never a protocol error.

use serde::Serialize;
use serde_json::{Value, json};
use tool::result::{FailureReport, ModelContent, ModelText, ResultMetadata, text_block};
use tool::{Refusal, RefusalCode, ToolResult};

use super::era::StatelessResultFields;
use super::model_text::{content_blocks, refusal_text};
use super::task_table::{AwaitedApproval, RelatedTask};
use super::task_view;
use crate::rpc::{self, RpcError, RpcReply};

/// Builds the reply to `tools/call`, or to the request for the result of a task.
pub(super) fn reply(
    result: ToolResult,
    seal: Option<StatelessResultFields>,
    related_task: Option<RelatedTask>,
) -> RpcReply {
    if let Some(refusal) = result.metadata.refusal.as_ref().filter(|it| it.code == RefusalCode::UnknownTool) {
        return Err(RpcError::unknown_tool(&refusal_text(refusal), refusal));
    }
    let mut reply = McpCallResult { seal, ..to_call_result(result) };
    reply.meta.related_task = related_task;
    rpc::encode_result(&reply)
}

/// Returns the approval that a call which did not run waits for.
pub(super) fn pending_approval(result: &ToolResult) -> Option<AwaitedApproval> {
    let refusal = result.metadata.refusal.as_ref().filter(|it| it.code == RefusalCode::ApprovalPending)?;
    let id = refusal.approval_id.clone()?;
    Some(AwaitedApproval { id, tool: result.tool_name.clone(), is_acknowledged: false })
}

/// Builds the reply that requests that the client informs its user about an approval and repeats the call.
pub(super) fn input_required(awaited: &AwaitedApproval) -> RpcReply {
    rpc::encode_result(&json!({
        "resultType": "input_required",
        "inputRequests": task_view::approval_form(awaited),
    }))
}

/// Replaces the output of a successful call by its text, if its tool has one.
pub(super) fn text_only(mut result: ToolResult) -> ToolResult {
    let text = match &result.model_content {
        ModelContent::Text(ModelText(render)) if result.success => render(&result.output),
        ModelContent::Text(_) | ModelContent::Json | ModelContent::Blocks(_) => None,
    };
    if let Some(text) = text {
        result.model_content = ModelContent::Blocks(vec![text_block(text)]);
        result.output = Value::Null;
    }
    result
}

/// Result of a call in MCP's format.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct McpCallResult {
    #[serde(flatten)]
    seal: Option<StatelessResultFields>,
    content: Vec<Value>,
    is_error: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<Value>,
    #[serde(rename = "_meta")]
    meta: CallResultMeta,
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
    #[serde(rename = "io.modelcontextprotocol/related-task", skip_serializing_if = "Option::is_none")]
    related_task: Option<RelatedTask>,
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
        meta: CallResultMeta { metadata, latency_ms, refusal, failure, related_task: None },
    }
}

#[cfg(test)]
mod tests {
    use tool::{CallId, Mode, ToolOutput, TraceContext};

    use super::*;

    fn metadata() -> ResultMetadata {
        ResultMetadata::new(CallId::fresh(), &TraceContext::root(), Mode::Normal, "policy")
    }

    fn call_reply(result: ToolResult) -> Value {
        serde_json::from_slice(reply(result, None, None).unwrap().bytes()).unwrap()
    }

    #[test]
    fn success_is_text_and_structure() {
        let output = ToolOutput { value: json!({"content": "é\n"}), ..ToolOutput::default() };
        let reported = call_reply(ToolResult::done("read_file", output, metadata(), 1.5));
        assert_eq!(reported["isError"], false);
        assert_eq!(reported["structuredContent"], json!({"content": "é\n"}));
        assert_eq!(reported["content"], json!([{"type": "text", "text": "{\"content\":\"é\\n\"}"}]));
        assert!(reported["_meta"]["sinew/metadata"]["call_id"].is_string());
        assert!(reported["_meta"].get("sinew/refusal").is_none());
    }

    #[test]
    fn a_list_is_text_only() {
        let output = ToolOutput { value: json!([1]), ..ToolOutput::default() };
        let reported = call_reply(ToolResult::done("t", output, metadata(), 0.0));
        assert_eq!(
            (&reported["content"][0]["text"], reported.get("structuredContent")),
            (&json!("[1]"), None)
        );
    }

    #[test]
    fn unknown_tool_is_a_protocol_error_with_the_refusal() {
        let refusal = Refusal::new("raed", RefusalCode::UnknownTool, "Tool raed not found").with_hint("read");
        let error = reply(ToolResult::refused(refusal, metadata(), 0.0), None, None).unwrap_err();
        assert_eq!((error.code, &error.data["code"]), (-32602, &json!("unknown_tool")));
        assert_eq!(error.message, "Tool raed not found\nread");
    }
}
