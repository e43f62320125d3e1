//! `tools/call`: one tool call, with its result in MCP's format.

use std::sync::Arc;
use std::time::{Duration, Instant};

use approvals::ApprovalMode;
use execution::{CallRequest, CuratedMapCheck};
use serde_json::{Map, Value, json};
use telemetry::metrics::{self, RequestOperation};
use tool::{Progress, ToolName, ToolResult, TraceContext};

use super::era::McpEra;
use super::progress::ProgressSender;
use super::task_run::{TaskCall, TaskPlace};
use super::task_view::{self, FormAnswer};
use super::{progress, result, tasks};
use crate::agent::AgentContext;
use crate::connection_state::ConnectionState;
use crate::methods::calls::{parse_approval_mode, parse_detached, parse_idempotency_key, parse_tool_name};
use crate::notify::Notifier;
use crate::rpc::{Params, RpcError};
use crate::service::{MethodCall, MethodReply, MethodResult};

const METHOD: &str = "tools/call";
/// Limits of the time for which a task is retained, and its default.
const MIN_TASK_TTL: Duration = Duration::from_secs(10);
const MAX_TASK_TTL: Duration = Duration::from_secs(24 * 60 * 60);
const DEFAULT_TASK_TTL: Duration = Duration::from_secs(60 * 60);

pub(crate) fn run(agent: &AgentContext, session: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let mut params = call.params;
    let (era, mut meta) = McpEra::from_request(session, &mut params)?;
    let key = parse_idempotency_key(meta.remove(IDEMPOTENCY_KEY), IDEMPOTENCY_KEY)?;
    let detached = meta.remove(DETACHED_KEY);
    let connection_loss = parse_detached(detached, [DETACHED_KEY, IDEMPOTENCY_KEY], key.as_deref())?;
    let word = |key: &str| meta_string(&meta, key);
    let listener = meta.get("progressToken").cloned().zip(session.notifier());
    let chosen_mode = word(APPROVAL_KEY)?;
    let form = ReplyForm::select(session, &era, &mut params, chosen_mode.is_some())?;
    let approval_mode = form.approval_mode(listener.is_some(), agent.limits.approval_answer_timeout);
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
        approval_mode: parse_approval_mode(chosen_mode.as_deref(), APPROVAL_KEY, approval_mode)?,
        approval_id: word(APPROVAL_ID_KEY)?,
        connection_loss,
    };
    form.reply(agent, session, era, request, listener)
}

/// Form of the reply to a call, which decides how its client is notified of a wait for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplyForm {
    /// The result. A client without progress notifications gets it before its timeout.
    Result,
    /// A task, as requested by a client of revision 2025-11-25, which is retained for this time.
    Task { ttl: Duration },
    /// The result, or a task if the call waits or takes long: the client of the stateless revision accepts both.
    ResultOrTask,
    /// The result, or a form that informs the user of the client about the approval. A client that has shown
    /// the form repeats the call, which then waits.
    ResultOrForm { is_shown: bool },
    /// The result at once: the user of the client has closed the form.
    ResultAtOnce,
}

impl ReplyForm {
    fn select(
        session: &ConnectionState,
        era: &McpEra,
        params: &mut Params,
        has_chosen_mode: bool,
    ) -> Result<Self, RpcError> {
        if *era == McpEra::Handshake {
            // Earlier revisions have no tasks, and ignore the parameter.
            let asked = if tasks::handshake_has_tasks(session) { params.optional("task")? } else { None };
            return asked
                .map_or(Ok(ReplyForm::Result), |task| Ok(ReplyForm::Task { ttl: parse_ttl(&task)? }));
        }
        let responses: Option<Map<String, Value>> = params.optional("inputResponses")?;
        let features = era.features();
        let answer = responses.as_ref().and_then(|given| task_view::form_answers(given).next());
        Ok(match answer.map(|(_, answer)| answer) {
            _ if features.tasks => ReplyForm::ResultOrTask,
            _ if !features.forms || has_chosen_mode => ReplyForm::Result,
            None => ReplyForm::ResultOrForm { is_shown: false },
            Some(FormAnswer::Confirmed) => ReplyForm::ResultOrForm { is_shown: true },
            Some(FormAnswer::Declined) => ReplyForm::ResultAtOnce,
        })
    }

    /// Returns the approval mode of a call whose client has chosen none.
    fn approval_mode(self, has_listener: bool, answer_timeout: Duration) -> ApprovalMode {
        match self {
            // A client that gets progress is informed of the wait; another one would time out without a
            // reply.
            ReplyForm::Result if has_listener => ApprovalMode::Wait,
            ReplyForm::Result | ReplyForm::ResultOrForm { is_shown: true } => {
                ApprovalMode::WaitAtMost(answer_timeout)
            }
            ReplyForm::Task { .. } | ReplyForm::ResultOrTask => ApprovalMode::Wait,
            ReplyForm::ResultOrForm { is_shown: false } | ReplyForm::ResultAtOnce => ApprovalMode::Async,
        }
    }

    /// Runs the call and replies in this form.
    fn reply(
        self,
        agent: &AgentContext,
        session: &mut ConnectionState,
        era: McpEra,
        mut request: CallRequest,
        listener: Option<(Value, Notifier)>,
    ) -> MethodResult {
        let (layer, started) = (Arc::clone(&agent.layer), request.started);
        let is_text_only = super::is_text_only(request.caller.client.as_deref());
        let execute = move |request| async move {
            let ended = layer.execute(request).await;
            record_duration(&ended, started);
            if is_text_only { result::text_only(ended) } else { ended }
        };
        if matches!(self, ReplyForm::Task { .. } | ReplyForm::ResultOrTask) {
            let call = TaskCall {
                tool: request.tool_name.clone(),
                cancellation: request.cancellation.clone(),
                notes: progress::listen(&mut request),
                progress: listener.map(ProgressSender::new),
                running: Box::pin(execute(request)),
                era: era.clone(),
            };
            let owner = tasks::owner(session, &era);
            let place = TaskPlace {
                table: agent.tasks.clone(),
                owner,
                caller: session.account,
                request_slots: agent.layer.request_slots().clone(),
            };
            let ReplyForm::Task { ttl } = self else {
                return Ok(MethodReply::deferred(call.wait_or_become_task(place)));
            };
            let number = session.connection;
            session.tasks.get_or_insert_with(|| agent.tasks.attach_connection(number));
            return Ok(MethodReply::Immediate(call.start(place, ttl, session.notifier())));
        }
        let may_ask = matches!(self, ReplyForm::ResultOrForm { .. });
        Ok(MethodReply::deferred(async move {
            let ended = progress::execute_with_progress(request, listener, execute).await;
            match result::pending_approval(&ended).filter(|_| may_ask) {
                Some(awaited) => result::input_required(&awaited),
                None => result::reply(ended, era.result_fields(), None),
            }
        }))
    }
}

/// Parses the time for which a client wants a task to be retained, and limits it.
fn parse_ttl(task: &Map<String, Value>) -> Result<Duration, RpcError> {
    match task.get("ttl") {
        None => Ok(DEFAULT_TASK_TTL),
        Some(ttl) => match ttl.as_f64() {
            Some(ms) if ms >= 0.0 => {
                let wanted = Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(MAX_TASK_TTL);
                Ok(wanted.clamp(MIN_TASK_TTL, MAX_TASK_TTL))
            }
            _ => Err(RpcError::wrong_type("ttl", "a number of milliseconds", ttl)),
        },
    }
}

/// `_meta` keys for the approval mode, for the id of a decided approval, for a call that runs once, and for one that
/// outlives its connection.
const APPROVAL_KEY: &str = "sinew/approval";
const APPROVAL_ID_KEY: &str = "sinew/approval_id";
const IDEMPOTENCY_KEY: &str = "sinew/idempotency_key";
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
    fn retention_of_a_task_is_limited() {
        let read = |task: Value| parse_ttl(task.as_object().unwrap());
        assert_eq!(read(json!({})).unwrap(), DEFAULT_TASK_TTL);
        assert_eq!(read(json!({"ttl": 60_000})).unwrap(), Duration::from_secs(60));
        assert_eq!(read(json!({"ttl": 0})).unwrap(), MIN_TASK_TTL);
        for long in [json!(u64::MAX), json!(1e300)] {
            assert_eq!(read(json!({"ttl": long})).unwrap(), MAX_TASK_TTL, "{long}");
        }
        for wrong in [json!(-1), json!("5"), json!(null)] {
            assert!(read(json!({"ttl": wrong})).is_err(), "{wrong}");
        }
    }

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
