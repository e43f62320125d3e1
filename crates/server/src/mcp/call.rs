//! `tools/call`: one tool call, with its end told in MCP's words.

use std::sync::Arc;
use std::time::Instant;

use execution::{CuratedMap, Request};
use serde_json::{Map, Value, json};
use telemetry::metrics::{self, Operation};
use tool::{Progress, ToolName, ToolResult, TraceContext};

use super::era::Era;
use super::{progress, result};
use crate::agent::Agent;
use crate::methods::execute::{asking, idempotency_key, tool_name};
use crate::rpc::RpcError;
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Agent> = Method { name: "tools/call", run };

fn run(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let (era, mut meta) = Era::of(session, &mut params)?;
    let key = idempotency_key(meta.remove("sinew/idempotency_key"))?;
    refuse_unknown_wishes(&meta)?;
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
                progress::told(request, listener, |told| async move { layer.execute(told).await }).await
            }
        };
        measure(&ended, call.began);
        result::reply(ended, era.seal())
    }))
}

/// How the client goes about a human, and the answer it brings along.
const APPROVAL: &str = "sinew/approval";
const APPROVAL_ID: &str = "sinew/approval_id";

/// One of our own words in the envelope.
fn wish(meta: &Map<String, Value>, key: &str) -> Result<Option<String>, RpcError> {
    match meta.get(key) {
        None => Ok(None),
        Some(Value::String(word)) => Ok(Some(word.clone())),
        Some(other) => Err(RpcError::wrong_type(key, "a string", other)),
    }
}

/// The duration that MCP's conventions ask a server for.
fn measure(ended: &ToolResult, began: Instant) {
    let tool = ToolName::new(&ended.tool_name).ok().filter(|_| ended.metadata.definition_hash.is_some());
    let error_type = (!ended.success).then_some("tool_error");
    let operation =
        Operation { method: METHOD.name, tool: tool.as_ref(), protocol_version: None, error_type };
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

/// Whatever the client asks of Sinew itself must be honoured or refused, never passed over.
fn refuse_unknown_wishes(meta: &Map<String, Value>) -> Result<(), RpcError> {
    let known = [APPROVAL, APPROVAL_ID];
    match meta.keys().find(|key| key.starts_with("sinew/") && !known.contains(&key.as_str())) {
        Some(wish) => Err(RpcError::not_supported_yet(wish)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_is_read_leniently_except_for_our_own_words() {
        let meta = |value: Value| value.as_object().unwrap().clone();
        let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = trace(&meta(json!({"traceparent": header, "progressToken": 1})));
        assert_eq!(context.parent_span_id.as_deref(), Some("00f067aa0ba902b7"));
        let with_state = trace(&meta(json!({"traceparent": header, "tracestate": "vendor=1"})));
        assert_eq!(with_state.trace_state.as_deref(), Some("vendor=1"));
        assert_eq!(trace(&meta(json!({"traceparent": 5}))).parent_span_id, None);
        refuse_unknown_wishes(&meta(json!({"progressToken": 1, "io.example/x": {}}))).unwrap();
        refuse_unknown_wishes(&meta(json!({"sinew/approval": "async", "sinew/approval_id": "x"}))).unwrap();
        let error = refuse_unknown_wishes(&meta(json!({"sinew/wish": 1}))).unwrap_err();
        assert!(error.message.contains("`sinew/wish` is not supported yet"), "{}", error.message);
        assert!(wish(&meta(json!({"sinew/approval": 5})), APPROVAL).is_err());
    }
}
