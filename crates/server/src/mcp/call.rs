//! `tools/call`: one tool call, with its result in MCP's format.

use std::sync::Arc;
use std::time::Instant;

use approvals::ApprovalMode;
use execution::{CallRequest, CuratedMapCheck};
use serde_json::{Map, Value, json};
use telemetry::metrics::{self, RequestOperation};
use tool::{Progress, ToolName, ToolResult, TraceContext};

use super::era::McpEra;
use super::{progress, result};
use crate::agent::AgentContext;
use crate::connection_state::ConnectionState;
use crate::methods::calls::{parse_approval_mode, parse_detached, parse_idempotency_key, parse_tool_name};
use crate::rpc::RpcError;
use crate::service::{MethodCall, MethodReply, MethodResult};

const METHOD: &str = "tools/call";

pub(crate) fn run(agent: &AgentContext, session: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let mut params = call.params;
    let (era, mut meta) = McpEra::from_request(session, &mut params)?;
    let key = parse_idempotency_key(meta.remove("sinew/idempotency_key"))?;
    let connection_loss = parse_detached(meta.remove(DETACHED_KEY), DETACHED_KEY, key.as_deref())?;
    let word = |key: &str| meta_string(&meta, key);
    let listener = meta.get("progressToken").cloned().zip(session.notifier());
    // A client that gets progress knows why it waits; another one would give up without a reply.
    let approval_mode = match listener {
        Some(_) => ApprovalMode::Wait,
        None => ApprovalMode::WaitAtMost(agent.limits.approval_answer_timeout),
    };
    let request = CallRequest {
        tool_name: parse_tool_name(&mut params, "name")?,
        arguments: params.take("arguments").unwrap_or_else(|| json!({})),
        caller: era.caller(session),
        trace: trace_context(&meta),
        deadline: None,
        cwd: None,
        progress: Progress::default(),
        started: call.received_at,
        curated_map: CuratedMapCheck::Applied,
        idempotency_key: key,
        cancellation: call.cancellation,
        approval_mode: parse_approval_mode(word(APPROVAL_KEY)?.as_deref(), APPROVAL_KEY, approval_mode)?,
        approval_id: word(APPROVAL_ID_KEY)?,
        connection_loss,
    };
    let layer = Arc::clone(&agent.layer);
    Ok(MethodReply::deferred_unordered(async move {
        let execute = |request| async move { layer.execute(request).await };
        let ended = progress::execute_with_progress(request, listener, execute).await;
        record_duration(&ended, call.received_at);
        result::reply(ended, era.result_fields())
    }))
}

/// `_meta` keys for the approval mode, for the id of a decided approval, and for a call that outlives its
/// connection.
const APPROVAL_KEY: &str = "sinew/approval";
const APPROVAL_ID_KEY: &str = "sinew/approval_id";
const DETACHED_KEY: &str = "sinew/detached";

/// Reads a string value of a `sinew/` key in `_meta`.
fn meta_string(meta: &Map<String, Value>, key: &str) -> Result<Option<String>, RpcError> {
    match meta.get(key) {
        None => Ok(None),
        Some(Value::String(word)) => Ok(Some(word.clone())),
        Some(other) => Err(RpcError::wrong_type(key, "a string", other)),
    }
}

/// Records the operation duration metric of the OpenTelemetry conventions for MCP servers.
fn record_duration(ended: &ToolResult, began: Instant) {
    let tool = ToolName::new(&ended.tool_name).ok().filter(|_| ended.metadata.definition_hash.is_some());
    let error_type = (!ended.success).then_some("tool_error");
    let operation =
        RequestOperation { method: METHOD, tool: tool.as_ref(), protocol_version: None, error_type };
    metrics::record_operation(&operation, began.elapsed());
}

fn trace_context(meta: &Map<String, Value>) -> TraceContext {
    let text = |key: &str| meta.get(key).and_then(Value::as_str);
    let trace = text("traceparent").map_or_else(TraceContext::root, TraceContext::from_traceparent);
    match text("tracestate") {
        Some(state) => trace.with_tracestate(state),
        None => trace,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_values_of_known_meta_keys_are_refused() {
        let meta = |value: Value| value.as_object().unwrap().clone();
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = trace_context(&meta(json!({"traceparent": header, "progressToken": 1})));
        assert_eq!(context.parent_span_id.as_deref(), Some("00f067aa0ba902b7"));
        let with_state = trace_context(&meta(json!({"traceparent": header, "tracestate": "vendor=1"})));
        assert_eq!(with_state.trace_state.as_deref(), Some("vendor=1"));
        assert_eq!(trace_context(&meta(json!({"traceparent": 5}))).parent_span_id, None);
        assert!(meta_string(&meta(json!({"sinew/approval": 5})), APPROVAL_KEY).is_err());
        assert!(meta_string(&meta(json!({"sinew/approval_id": {}})), APPROVAL_ID_KEY).is_err());
    }
}
