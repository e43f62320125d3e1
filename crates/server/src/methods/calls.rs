//! `sinew/execute` and `sinew/explain`: one tool call. This file only parses the request; the execution layer
//! decides and records the call.

use std::sync::Arc;
use std::time::Duration;

use approvals::ApprovalMode;
use execution::{CallRequest, ConnectionLoss, CuratedMapCheck, ExplanationAudience, ToolExecutionLayer};
use serde::Serialize;
use serde_json::{Map, Value};
use tool::{CallerEndpoint, Progress, ToolResult, TraceContext};

use crate::agent::AgentContext;
use crate::connection_state::ConnectionState;
use crate::mcp::model_text::content_blocks;
use crate::mcp::progress;
use crate::rpc::{self, Params, RpcError};
use crate::service::{MethodCall, MethodReply, MethodResult};

/// Longest tool name accepted. Real names are far shorter; a longer text is refused before it can reach the
/// ledger.
const MAX_NAME_BYTES: usize = 256;
const MAX_KEY_BYTES: usize = 255;
const KEY_FIELD: &str = "idempotency_key";
/// Longest deadline. No call may run longer, so a larger value is reduced to it.
const MAX_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs a tool call.
pub(crate) fn execute(agent: &AgentContext, session: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let brief = ApprovalMode::WaitAtMost(agent.limits.approval_answer_timeout);
    let (mut request, mut params) = parse_request(session, call, brief)?;
    let listener = parse_progress_token(&mut params)?.zip(session.notifier());
    let wants_model_content = params.optional("model_content")?.unwrap_or(false);
    params.finish()?;
    // A client that gets progress knows why it waits, and one with a deadline has said how long it will.
    if request.approval_mode == brief && (listener.is_some() || request.deadline.is_some()) {
        request.approval_mode = ApprovalMode::Wait;
    }
    let layer = Arc::clone(&agent.layer);
    Ok(MethodReply::deferred(async move {
        let execute = |request| async move { layer.execute(request).await };
        let result = progress::execute_with_progress(request, listener, execute).await;
        let model_content = wants_model_content.then(|| content_blocks(&result));
        rpc::encode_result(&ExecuteReply { result, model_content })
    }))
}

/// Result of a call, and on request the content blocks that a language model gets.
#[derive(Serialize)]
struct ExecuteReply {
    #[serde(flatten)]
    result: ToolResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_content: Option<Vec<Value>>,
}

/// Explains how a call would be decided, and by which rules. Nothing runs. An explanation that reveals the content
/// of files the call would change is recorded in the ledger.
pub(crate) fn explain(agent: &AgentContext, session: &mut ConnectionState, call: MethodCall) -> MethodResult {
    explain_to(&agent.layer, session, call, ExplanationAudience::Caller)
}

/// Explains the call that a message describes, with the detail that `audience` may see.
pub(crate) fn explain_to(
    layer: &Arc<ToolExecutionLayer>,
    session: &ConnectionState,
    call: MethodCall,
    audience: ExplanationAudience,
) -> MethodResult {
    let (request, mut params) = parse_request(session, call, ApprovalMode::Wait)?;
    let mode = params.optional("mode")?;
    params.finish()?;
    let layer = Arc::clone(layer);
    Ok(MethodReply::deferred(
        async move { rpc::encode_result(&layer.explain(request, mode, audience).await) },
    ))
}

/// Parses the call that a message describes; returns it with the parameters that remain. `approval_mode` applies if the
/// message has none.
pub(crate) fn parse_request(
    session: &ConnectionState,
    call: MethodCall,
    approval_mode: ApprovalMode,
) -> Result<(CallRequest, Params), RpcError> {
    let mut params = call.params;
    let idempotency_key = parse_idempotency_key(params.take(KEY_FIELD), KEY_FIELD)?;
    let detached = params.take("detached");
    let request = CallRequest {
        tool_name: parse_tool_name(&mut params, "tool_name")?,
        // Any type: arguments of the wrong type get a recorded refusal that shows the expected ones.
        arguments: params.take("arguments").ok_or_else(|| RpcError::missing("arguments", "an object"))?,
        caller: session.caller(CallerEndpoint::Socket),
        trace: parse_trace(&mut params)?,
        deadline: parse_deadline(&mut params)?,
        cwd: params.optional("cwd")?,
        progress: Progress::default(),
        started: call.received_at,
        curated_map: CuratedMapCheck::Applied,
        connection_loss: parse_detached(detached, ["detached", KEY_FIELD], idempotency_key.as_deref())?,
        idempotency_key,
        cancellation: call.cancellation,
        approval_mode: parse_approval_mode(
            params.optional::<String>("approval")?.as_deref(),
            "approval",
            approval_mode,
        )?,
        approval_id: params.optional("approval_id")?,
    };
    params.refuse_unsupported("dry_run")?;
    Ok((request, params))
}

/// Parses the approval mode: wait for a decision, or return at once with an approval id. The default depends on the
/// endpoint and on the client.
pub(crate) fn parse_approval_mode(
    word: Option<&str>,
    field: &str,
    default: ApprovalMode,
) -> Result<ApprovalMode, RpcError> {
    match word {
        None => Ok(default),
        Some("wait") => Ok(ApprovalMode::Wait),
        Some("async") => Ok(ApprovalMode::Async),
        Some(_) => Err(RpcError::invalid_params(field, &format!("`{field}` must be `wait` or `async`"))),
    }
}

/// Parses the name of a tool, which need not exist.
pub(crate) fn parse_tool_name(params: &mut Params, field: &'static str) -> Result<String, RpcError> {
    let name: String = params.required(field)?;
    if name.len() <= MAX_NAME_BYTES {
        return Ok(name);
    }
    let message = format!("`{field}` has {} bytes; it must be at most {MAX_NAME_BYTES}", name.len());
    Err(RpcError::invalid_params(field, &message))
}

/// Parses the idempotency key. A key that is empty or too long is an error.
pub(crate) fn parse_idempotency_key(given: Option<Value>, field: &str) -> Result<Option<String>, RpcError> {
    match given {
        None => Ok(None),
        Some(Value::String(key)) if (1..=MAX_KEY_BYTES).contains(&key.len()) => Ok(Some(key)),
        Some(_) => {
            let message = format!("`{field}` must be a string of 1 to {MAX_KEY_BYTES} bytes");
            Err(RpcError::invalid_params(field, &message))
        }
    }
}

/// Parses `detached: true`, which lets a call outlive its connection. Such a call needs an idempotency key,
/// by which its caller fetches the result later. The names are those of both fields.
pub(crate) fn parse_detached(
    value: Option<Value>,
    [field, key_field]: [&str; 2],
    idempotency_key: Option<&str>,
) -> Result<ConnectionLoss, RpcError> {
    match value {
        None | Some(Value::Bool(false)) => Ok(ConnectionLoss::StopsCall),
        Some(Value::Bool(true)) if idempotency_key.is_some() => Ok(ConnectionLoss::LeavesCallRunning),
        Some(Value::Bool(true)) => {
            let message = format!("`{field}` needs `{key_field}`, by which the result can be fetched later");
            Err(RpcError::invalid_params(field, &message))
        }
        Some(other) => Err(RpcError::wrong_type(field, "a boolean", &other)),
    }
}

/// Parses the token that the client recognizes the progress notifications of this call by.
fn parse_progress_token(params: &mut Params) -> Result<Option<Value>, RpcError> {
    match params.take("progress_token") {
        token @ (None | Some(Value::String(_) | Value::Number(_))) => Ok(token),
        Some(other) => Err(RpcError::wrong_type("progress_token", "a string or a number", &other)),
    }
}

/// Parses the deadline of the call.
pub(crate) fn parse_deadline(params: &mut Params) -> Result<Option<Duration>, RpcError> {
    match params.optional("deadline_ms")? {
        Some(0) => Err(RpcError::invalid_params("deadline_ms", "`deadline_ms` must be at least 1")),
        given => Ok(given.map(|ms| Duration::from_millis(ms).min(MAX_DEADLINE))),
    }
}

/// Parses the trace context: a `traceparent` header, alone or in an object, or an object with `trace_id` and
/// `span_id`. An object may also have a `tracestate`. Invalid ids start a new trace.
fn parse_trace(params: &mut Params) -> Result<TraceContext, RpcError> {
    match params.take("trace_ctx") {
        None => Ok(TraceContext::root()),
        Some(Value::String(header)) => Ok(TraceContext::from_traceparent(&header)),
        Some(Value::Object(ids)) => trace_from_object(ids),
        Some(other) => {
            let expected =
                "a traceparent string, or an object with `traceparent`, or `trace_id` and `span_id`";
            Err(RpcError::wrong_type("trace_ctx", expected, &other))
        }
    }
}

fn trace_from_object(ids: Map<String, Value>) -> Result<TraceContext, RpcError> {
    let mut ids = Params::read(Some(Value::Object(ids)))?;
    let state: Option<String> = ids.optional("tracestate")?;
    let header = match ids.optional::<String>("traceparent")? {
        Some(header) => header,
        None => {
            let (trace, span): (String, String) = (ids.required("trace_id")?, ids.required("span_id")?);
            format!("00-{trace}-{span}-01")
        }
    };
    ids.finish()?;
    let trace = TraceContext::from_traceparent(&header);
    Ok(match state {
        Some(state) => trace.with_tracestate(&state),
        None => trace,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn params(value: Value) -> Params {
        Params::read(Some(value)).unwrap()
    }

    #[test]
    fn deadlines_are_bounded_on_both_sides() {
        let read = |value: Value| parse_deadline(&mut params(json!({"deadline_ms": value})));
        assert_eq!(read(json!(1)).unwrap(), Some(Duration::from_millis(1)));
        assert_eq!(read(json!(u64::MAX)).unwrap(), Some(MAX_DEADLINE));
        assert_eq!(parse_deadline(&mut params(json!({}))).unwrap(), None);
        for wrong in [json!(0), json!(-1), json!(1.5), json!("5"), json!(null)] {
            assert_eq!(read(wrong.clone()).unwrap_err().data["field"], "deadline_ms", "{wrong}");
        }
    }

    #[test]
    fn trace_context_is_accepted_in_three_forms() {
        let (trace_id, span_id) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let read = |value: Value| parse_trace(&mut params(json!({"trace_ctx": value})));
        let header = format!("00-{trace_id}-{span_id}-01");
        let ids = json!({"trace_id": trace_id, "span_id": span_id});
        for good in [json!(header), json!({"traceparent": header}), ids] {
            let context = read(good.clone()).unwrap();
            assert_eq!(context.trace_id, trace_id, "{good}");
            assert_eq!(context.parent_span_id.as_deref(), Some(span_id), "{good}");
        }
        let with_state = read(json!({"traceparent": header, "tracestate": "vendor=1"})).unwrap();
        assert_eq!(with_state.trace_state.as_deref(), Some("vendor=1"));
        assert_eq!(read(json!("nonsense")).unwrap().parent_span_id, None, "telemetry never fails a call");
        for wrong in [json!(5), json!({"trace_id": trace_id}), json!({"trace_id": 1, "span_id": "a"})] {
            assert_eq!(read(wrong.clone()).unwrap_err().code, -32602, "{wrong}");
        }
    }

    #[test]
    fn progress_token_is_a_string_or_a_number() {
        let read = |value: Value| parse_progress_token(&mut params(json!({"progress_token": value})));
        for good in [json!("a"), json!(7)] {
            assert_eq!(read(good.clone()).unwrap(), Some(good));
        }
        assert_eq!(parse_progress_token(&mut params(json!({}))).unwrap(), None);
        for wrong in [json!({}), json!([1]), json!(true)] {
            assert_eq!(read(wrong.clone()).unwrap_err().data["field"], "progress_token", "{wrong}");
        }
    }

    #[test]
    fn tool_name_over_256_bytes_is_refused() {
        let read = |length: usize| {
            parse_tool_name(&mut params(json!({"tool_name": "x".repeat(length)})), "tool_name")
        };
        assert!(read(256).is_ok());
        assert!(read(257).unwrap_err().message.contains("257 bytes"));
    }
}
