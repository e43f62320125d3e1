//! Every end of a call, written once: to the ledger, to the events, and into the reply.
//!
//! The ledger comes first. An end that cannot be recorded is not reported as if it had been.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use governance::Permit;
use ledger::entry::{Concluded, ModeChange, Refused, Start, Stop};
use ledger::{Decision, Effect, Entry, Ledger, LedgerError, Outcome, Recovery, Status};
use registry::Order;
use serde_json::{Value, json};
use telemetry::{Event, Note, Subject, emit, metrics, redact};
use tool::{
    Caller, Category, Failure, FailureKind, Metadata, Mode, Output, Refusal, RefusalCode, ToolName,
    ToolResult, canonical,
};

use crate::call::Call;
use crate::layer::ToolExecutionLayer;
use crate::mode::ModeError;
use crate::pipeline::Ran;

/// The decision that lets a call run, as the ledger keeps it.
pub(crate) fn decision(call: &Call, permit: &Permit) -> Decision {
    let definition = permit.call().definition();
    let reads =
        *definition.category() == Category::READ_ONLY || *definition.category() == Category::SELF_CHECK;
    Decision {
        call: call.on_record(definition.name().as_str()),
        risk: definition.risk_level(),
        effect: if reads { Effect::Reads } else { Effect::Changes },
        definition_hash: definition.hash().to_owned(),
        policy_hash: call.world.policy.hash().to_owned(),
        arguments_digest: call.arguments_digest.clone(),
        idempotency_key: None,
        approval_id: None,
        rules: permit.rules().to_vec(),
        facts: redact::shared().redact_value(permit.facts()),
    }
}

/// Announces that a permitted, recorded call begins.
pub(crate) fn announce_start(call: &Call, order: &Order) {
    let arguments = Value::Object(order.value().call().arguments().clone());
    let subject = subject(call, &call.tool_name);
    emit(Event::ToolCallStarted {
        call: subject,
        arguments_digest: &call.arguments_digest,
        arguments: &arguments,
    });
}

/// The result of a call that was started.
pub(crate) fn ended(layer: &ToolExecutionLayer, call: &Call, ran: Ran) -> ToolResult {
    let Ran { order, end } = ran;
    let definition = Arc::clone(order.value().call().definition());
    let outcome = outcome(layer, call, &end);
    let end = match layer.ledger.conclude(&order, outcome) {
        Ok(_) => end,
        Err(error) => Err(unrecorded(&end, &error)),
    };
    let name = definition.name().as_str();
    let metadata = Metadata {
        definition_hash: Some(definition.hash().to_owned()),
        remaining: order.value().remaining(layer.limits.counts(definition.name())),
        ..metadata(call)
    };
    let latency_ms = call.latency_ms();
    match end {
        Ok(output) => {
            layer.tally.done.fetch_add(1, Ordering::Relaxed);
            let output_bytes = output.usage.read_bytes;
            emit(Event::ToolCallCompleted { call: subject(call, name), latency_ms, output_bytes });
            ToolResult::done(name, output, metadata, latency_ms)
        }
        Err(failure) => {
            layer.tally.failed.fetch_add(1, Ordering::Relaxed);
            let (kind, error) = (failure.kind, failure.message.as_str());
            emit(Event::ToolCallFailed { call: subject(call, name), kind, error, latency_ms });
            ToolResult::failed(name, failure, metadata, latency_ms)
        }
    }
}

fn outcome(layer: &ToolExecutionLayer, call: &Call, end: &Result<Output, Failure>) -> Outcome {
    match end {
        Ok(output) => Outcome {
            output_digest: Some(layer.ledger.keyed_digest(&canonical::bytes(&output.value))),
            files_touched: output.files_touched.clone(),
            truncated: output.truncated.clone(),
            usage: output.usage,
            facts: stages(call),
            ..Outcome::new(Status::Done, call.started.elapsed())
        },
        Err(failure) => Outcome {
            failure: Some(failure.kind),
            message: Some(redact::shared().redact_text(&failure.message).into_owned()),
            facts: stages(call),
            ..Outcome::new(Status::Failed, call.started.elapsed())
        },
    }
}

/// The tool ended, but its end is not on record: the caller must not take it for done.
fn unrecorded(end: &Result<Output, Failure>, error: &LedgerError) -> Failure {
    let what = if end.is_ok() { "ran to its end" } else { "failed" };
    Failure::new(FailureKind::Io, format!("the tool {what}, but that could not be recorded: {error}"))
        .hint("its effect may have happened; look before trying again")
}

/// The result of a call that was not run.
pub(crate) fn refused(layer: &ToolExecutionLayer, call: &Call, mut refusal: Refusal) -> ToolResult {
    refusal.trace_id = Some(call.trace.trace_id.clone());
    let entry = Entry::Refusal(Refused {
        call: call.on_record(&refusal.tool),
        code: refusal.code,
        detail: refusal.detail.clone(),
        reason: redact::shared().redact_text(&refusal.reason).into_owned(),
        rule: refusal.rule.clone(),
        policy_hash: Some(call.world.policy.hash().to_owned()),
        arguments_digest: Some(call.arguments_digest.clone()),
        latency_us: u64::try_from(call.started.elapsed().as_micros()).unwrap_or(u64::MAX),
        facts: stages(call),
    });
    if let Err(error) = layer.ledger.append(&entry) {
        refusal = *unavailable(&call.tool_name, &error);
    }
    layer.tally.refused.fetch_add(1, Ordering::Relaxed);
    announce_refusal(call, &refusal);
    ToolResult::refused(refusal, metadata(call), call.latency_ms())
}

fn announce_refusal(call: &Call, refusal: &Refusal) {
    let (code, reason, latency_ms) = (refusal.code, refusal.reason.as_str(), call.latency_ms());
    let subject = subject(call, &refusal.tool);
    if code == RefusalCode::InvalidArguments {
        let absent = refusal.problems.iter().filter(|problem| problem.got == "nothing");
        let missing: Vec<String> = absent.map(|p| p.pointer.trim_start_matches('/').to_owned()).collect();
        emit(Event::ToolValidationFailed { call: subject, code, missing: &missing, reason });
    } else {
        emit(Event::ToolCallBlocked { call: subject, code, reason, rule: refusal.rule.as_ref(), latency_ms });
    }
}

/// A stage of ours panicked. Whether the tool had started is what the ledger's open intent says.
pub(crate) fn crashed(layer: &ToolExecutionLayer, call: &Call) -> ToolResult {
    layer.tally.failed.fetch_add(1, Ordering::Relaxed);
    let failure = internal_fault();
    let outcome = Outcome {
        failure: Some(failure.kind),
        message: Some(failure.message.clone()),
        ..Outcome::new(Status::Failed, call.started.elapsed())
    };
    let concluded = Concluded { call: call.on_record(&call.tool_name), outcome };
    let recorded = layer.ledger.append(&Entry::Outcome(concluded));
    let failure =
        recorded.map_or_else(|error| unrecorded(&Err(failure.clone()), &error), |_| failure.clone());
    ToolResult::failed(&call.tool_name, failure, metadata(call), call.latency_ms())
}

/// The last resort: the recording itself panicked.
pub(crate) fn crashed_result(call: &Call) -> ToolResult {
    ToolResult::failed(&call.tool_name, internal_fault(), metadata(call), call.latency_ms())
}

fn internal_fault() -> Failure {
    Failure::new(FailureKind::Crashed, "a fault inside Sinew ended this call")
        .hint("the daemon goes on; its log has the place")
}

/// The refusal of a call whose decision could not be recorded.
pub(crate) fn unavailable(tool: &str, error: &LedgerError) -> Box<Refusal> {
    let reason = format!("Permission denied: The decision could not be recorded: {error}");
    let refusal = Refusal::new(tool, RefusalCode::LedgerUnavailable, reason);
    Box::new(refusal.hint("nothing was run; free disk space or mend the state folder, then try again"))
}

/// Puts a start of the daemon on record.
pub(crate) fn start(layer: &ToolExecutionLayer) -> Result<(), LedgerError> {
    let data = json!({"policy_hash": layer.world.load().policy.hash(), "mode": layer.mode()});
    let start = Start { version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id(), data };
    layer.ledger.append(&Entry::Start(start)).map(|_| ())
}

/// Puts a clean stop on record, as far as anything can be recorded any more.
pub(crate) fn stop(layer: &ToolExecutionLayer, reason: &str) {
    if let Err(error) = layer.ledger.append(&Entry::Stop(Stop { reason: reason.to_owned() })) {
        tracing::error!(%error, "the stop could not be recorded");
    }
}

/// Puts a mode change on disk and announces it.
pub(crate) async fn mode_change(
    layer: &ToolExecutionLayer,
    from: Mode,
    to: Mode,
    reason: &str,
    by: &Caller,
) -> Result<(), ModeError> {
    let by = by.display_name();
    let change = ModeChange { from, to, reason: reason.to_owned(), by: Some(by.clone()), data: Value::Null };
    let recorded = layer.ledger.append_durably(&Entry::Mode(change)).await;
    recorded.map_err(|error| ModeError::NotRecorded(error.to_string()))?;
    emit(Event::ModeTransition { from, to, reason, by: &by, sensors: None });
    Ok(())
}

/// What a previous life ran within the last hour, and how long ago.
pub(crate) fn executed(recovery: &Recovery) -> impl Iterator<Item = (ToolName, Duration)> {
    let now = SystemTime::now();
    recovery.executed.iter().flat_map(move |executed| {
        let tool = ToolName::new(&executed.tool).ok();
        executed.slots.iter().flat_map(move |(end, count)| {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(*end).unwrap_or(0));
            // A clock that was set back must not refill a window: the future counts as now.
            let ago = now.duration_since(at).unwrap_or(Duration::ZERO);
            let calls = usize::try_from(*count).unwrap_or(usize::MAX);
            tool.clone().into_iter().flat_map(move |tool| std::iter::repeat_n((tool, ago), calls))
        })
    })
}

/// The newest records as JSON.
pub(crate) fn tail(ledger: &Ledger, count: usize) -> Result<Vec<Value>, String> {
    let records = ledger.tail(count).map_err(|error| error.to_string())?;
    Ok(records.iter().map(ledger::Record::json).collect())
}

/// Hands the call's span and measurements to whoever collects them. It can neither delay nor fail the call.
pub(crate) fn export(call: Call, result: &ToolResult) {
    let outcome =
        match (&result.metadata.refusal, result.metadata.failure.as_ref().map(|failure| failure.kind)) {
            (Some(refusal), _) => {
                call.span.note(Note::Decision("deny"));
                metrics::decision(call.mode, "deny");
                if let Some(rule) = &refusal.rule {
                    call.span.note(Note::Rule(rule));
                }
                telemetry::Outcome::Refused(refusal.code)
            }
            (None, Some(kind)) => telemetry::Outcome::Failed(kind),
            (None, None) => telemetry::Outcome::Done,
        };
    if result.metadata.refusal.is_none() {
        call.span.note(Note::Decision("permit"));
        call.span.note(Note::Result(&result.output));
        metrics::decision(call.mode, "permit");
    }
    call.span.end(outcome);
}

/// The time of each stage, for `sinew trace`.
fn stages(call: &Call) -> Value {
    json!({"stages": call.span.timings()})
}

fn metadata(call: &Call) -> Metadata {
    Metadata::new(call.id, &call.trace, call.mode, call.world.policy.hash())
}

fn subject<'a>(call: &'a Call, tool: &'a str) -> Subject<'a> {
    let session = call.caller.session.as_deref();
    Subject { tool, call_id: call.id, trace: &call.trace, mode: call.mode, session }
}
