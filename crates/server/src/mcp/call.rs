//! `tools/call`: one tool call, with its result in MCP's format.

use std::sync::Arc;
use std::time::Instant;

use execution::{CuratedMap, Request};
use serde_json::{Map, Value, json};
use telemetry::metrics::{self, Operation};
use tool::{Progress, ToolName, ToolResult, TraceContext};

use super::era::Era;
use super::{progress, result};
use crate::agent::Agent;
use crate::methods::calls::{asking, idempotency_key, tool_name};
use crate::rpc::RpcError;
use crate::service::{Answer, Call};
use crate::session::Session;

const METHOD: &str = "tools/call";

pub(crate) fn run(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let (era, mut meta) = Era::of(session, &mut params)?;
    let key = idempotency_key(meta.remove("sinew/idempotency_key"))?;
    let word = |key: &str| wish(&meta, key);
    let request = Request {
        tool_name: tool_name(&mut params, "name")?,
        arguments: params.take("arguments").unwrap_or_else(|| json!({})),
        caller: era.caller(session),
        trace: trace(&meta),
        deadline: None,
        cwd: None,
        progress: Progress::default(),
        started: call.began,
        curated_map: CuratedMap::Asked,
        idempotency_key: key,
        withdrawn: call.withdrawn,
        asking: asking(word(APPROVAL)?.as_deref(), APPROVAL)?,
        approval_id: word(APPROVAL_ID)?,
    };
    let layer = Arc::clone(&agent.layer);
    let listener = meta.get("progressToken").cloned().zip(session.notifier());
    Ok(Answer::shared(async move {
        let ended = match listener {
            None => layer.execute(request).await,
            Some(listener) => {
                progress::told(request, listener, |request| async move { layer.execute(request).await }).await
            }
        };
        measure(&ended, call.began);
        result::reply(ended, era.seal())
    }))
}

/// `_meta` keys for the approval mode and for the id of a decided approval.
const APPROVAL: &str = "sinew/approval";
const APPROVAL_ID: &str = "sinew/approval_id";

/// Reads a string value of a `sinew/` key in `_meta`.
fn wish(meta: &Map<String, Value>, key: &str) -> Result<Option<String>, RpcError> {
    match meta.get(key) {
        None => Ok(None),
        Some(Value::String(word)) => Ok(Some(word.clone())),
        Some(other) => Err(RpcError::wrong_type(key, "a string", other)),
    }
}

/// Records the operation duration metric of the OpenTelemetry conventions for MCP servers.
fn measure(ended: &ToolResult, began: Instant) {
    let tool = ToolName::new(&ended.tool_name).ok().filter(|_| ended.metadata.definition_hash.is_some());
    let error_type = (!ended.success).then_some("tool_error");
    let operation = Operation { method: METHOD, tool: tool.as_ref(), protocol_version: None, error_type };
    metrics::operation(&operation, began.elapsed());
}

fn trace(meta: &Map<String, Value>) -> TraceContext {
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
        let context = trace(&meta(json!({"traceparent": header, "progressToken": 1})));
        assert_eq!(context.parent_span_id.as_deref(), Some("00f067aa0ba902b7"));
        let with_state = trace(&meta(json!({"traceparent": header, "tracestate": "vendor=1"})));
        assert_eq!(with_state.trace_state.as_deref(), Some("vendor=1"));
        assert_eq!(trace(&meta(json!({"traceparent": 5}))).parent_span_id, None);
        assert!(wish(&meta(json!({"sinew/approval": 5})), APPROVAL).is_err());
        assert!(wish(&meta(json!({"sinew/approval_id": {}})), APPROVAL_ID).is_err());
    }
}
