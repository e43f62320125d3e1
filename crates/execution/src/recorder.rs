//! Every end of a call, written once: to the ledger, to the events, and into the reply.
//!
//! The ledger comes first. An end that cannot be recorded is not reported as if it had been.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use governance::Permit;
use ledger::entry::{Concluded, MissingCause, ModeChange, Refused, Start, Stop};
use ledger::{Decision, Effect, Entry, Ledger, LedgerError, Outcome, Recovery, Status};
use registry::Order;
use serde_json::{Value, json};
use telemetry::{Event, Note, Subject, emit, metrics, redact};
use tool::{
    Caller, Category, Failure, FailureKind, Metadata, Mode, Output, Refusal, RefusalCode, ToolDefinition,
    ToolResult, canonical,
};

use crate::call::Call;
use crate::layer::ToolExecutionLayer;
use crate::mode::ModeError;
use crate::pipeline::{Ending, Ran};

/// The decision that lets a call run, as the ledger keeps it.
pub(crate) fn decision(call: &Call, permit: &Permit) -> Decision {
    let definition = permit.call().definition();
    Decision {
        call: call.on_record(definition.name().as_str()),
        risk: definition.risk_level(),
        effect: effect(definition),
        definition_hash: definition.hash().to_owned(),
        policy_hash: call.world.policy.hash().to_owned(),
        arguments_digest: call.arguments_digest.clone(),
        idempotency_key: None,
        approval_id: None,
        rules: permit.rules().to_vec(),
        facts: redact::shared().redact_value(permit.facts()),
    }
}

/// Only a tool of a category that promises to look is taken to change nothing.
fn effect(definition: &ToolDefinition) -> Effect {
    let looks = [Category::READ_ONLY, Category::SELF_CHECK].contains(definition.category());
    if looks { Effect::Reads } else { Effect::Changes }
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
    let (end, started) = match end {
        Ending::Ran(end) => (end, Started::Yes(effect(&definition))),
        Ending::NotStarted(failure) => (Err(failure), Started::No),
    };
    let output = end.as_ref().ok().map(|output| canonical::bytes(&output.value));
    let outcome = outcome(layer, call, started, &end, output.as_deref());
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
        Ok(done) => {
            layer.tally.done.fetch_add(1, Ordering::Relaxed);
            let output_bytes = output.map_or(0, |bytes| bytes.len() as u64);
            emit(Event::ToolCallCompleted { call: subject(call, name), latency_ms, output_bytes });
            if let Some(cut) = &done.truncated {
                metrics::truncated(definition.name(), cut.total.saturating_sub(cut.returned));
            }
            ToolResult::done(name, done, metadata, latency_ms)
        }
        Err(failure) => failed(layer, call, name, failure, metadata),
    }
}

fn failed(
    layer: &ToolExecutionLayer,
    call: &Call,
    name: &str,
    failure: Failure,
    metadata: Metadata,
) -> ToolResult {
    layer.tally.failed.fetch_add(1, Ordering::Relaxed);
    let (kind, error, latency_ms) = (failure.kind, failure.message.as_str(), call.latency_ms());
    emit(Event::ToolCallFailed { call: subject(call, name), kind, error, latency_ms });
    ToolResult::failed(name, failure, metadata, latency_ms)
}

/// Whether the tool was started, and what it could do.
#[derive(Clone, Copy)]
enum Started {
    Yes(Effect),
    No,
}

fn outcome(
    layer: &ToolExecutionLayer,
    call: &Call,
    started: Started,
    end: &Result<Output, Failure>,
    output: Option<&[u8]>,
) -> Outcome {
    match end {
        Ok(done) => Outcome {
            output_digest: output.map(|bytes| layer.ledger.keyed_digest(bytes)),
            files_touched: done.files_touched.iter().map(|name| redacted(name)).collect(),
            truncated: done.truncated.clone(),
            usage: done.usage,
            facts: stages(call),
            ..Outcome::new(Status::Done, call.started.elapsed())
        },
        Err(failure) => Outcome {
            failure: Some(failure.kind),
            message: Some(redacted(&failure.message)),
            facts: stages(call),
            ..Outcome::new(status_of(failure, started), call.started.elapsed())
        },
    }
}

/// A change that ran out of time may still happen, or be half done: nobody can say.
fn status_of(failure: &Failure, started: Started) -> Status {
    match (failure.kind, started) {
        (_, Started::No) => Status::NotStarted,
        (FailureKind::TimedOut, Started::Yes(Effect::Changes)) => Status::Unknown,
        (_, Started::Yes(_)) => Status::Failed,
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
        reason: redacted(&refusal.reason),
        rule: refusal.rule.clone(),
        policy_hash: Some(call.world.policy.hash().to_owned()),
        arguments_digest: Some(call.arguments_digest.clone()),
        latency_us: u64::try_from(call.started.elapsed().as_micros()).unwrap_or(u64::MAX),
        facts: stages(call),
    });
    if let Err(error) = layer.ledger.append(&entry) {
        refusal = *unavailable(&call.tool_name, &error);
        refusal.trace_id = Some(call.trace.trace_id.clone());
    }
    layer.tally.refused.fetch_add(1, Ordering::Relaxed);
    announce_refusal(call, &refusal);
    ToolResult::refused(refusal, metadata(call), call.latency_ms())
}

fn announce_refusal(call: &Call, refusal: &Refusal) {
    let (code, reason, latency_ms) = (refusal.code, refusal.reason.as_str(), call.latency_ms());
    let subject = subject(call, &refusal.tool);
    if code == RefusalCode::InvalidArguments {
        let absent = refusal.problems.iter().filter(|problem| problem.is_missing());
        let missing: Vec<String> = absent.map(|p| p.pointer.trim_start_matches('/').to_owned()).collect();
        emit(Event::ToolValidationFailed { call: subject, code, missing: &missing, reason });
    } else {
        emit(Event::ToolCallBlocked { call: subject, code, reason, rule: refusal.rule.as_ref(), latency_ms });
    }
}

/// A stage of ours panicked: before its decision was on record the call is refused, after it the call has failed.
pub(crate) fn crashed(layer: &ToolExecutionLayer, call: &Call) -> ToolResult {
    let failure = internal_fault();
    if !call.is_intended() {
        let refusal = Refusal::new(&call.tool_name, RefusalCode::ResourceExhausted, failure.message);
        return refused(
            layer,
            call,
            refusal.detail("internal_fault").hint("nothing was run; the log has the place"),
        );
    }
    let outcome = Outcome {
        failure: Some(failure.kind),
        message: Some(failure.message.clone()),
        ..Outcome::new(Status::Unknown, call.started.elapsed())
    };
    let concluded = Concluded { call: call.on_record(&call.tool_name), outcome };
    let recorded = layer.ledger.append(&Entry::Outcome(concluded));
    let failure =
        recorded.map_or_else(|error| unrecorded(&Err(failure.clone()), &error), |_| failure.clone());
    failed(layer, call, &call.tool_name, failure, metadata(call))
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

/// The mode to go on in: the last on record. Where records were taken away or changed, one of them may have said
/// LOCKDOWN, so LOCKDOWN it is, until a human says otherwise.
pub(crate) fn restored_mode(ledger: &Ledger, recovery: &Recovery) -> Mode {
    let removed = recovery.missing.as_ref().is_some_and(|missing| missing.cause == MissingCause::Removed);
    let last = recovery.mode.unwrap_or(Mode::Normal);
    if !removed && recovery.damage.is_empty() {
        return last;
    }
    let reason = "records of the ledger were removed or changed".to_owned();
    let change = ModeChange {
        from: last,
        to: Mode::Lockdown,
        reason,
        by: Some("sinew".to_owned()),
        data: Value::Null,
    };
    if let Err(error) = ledger.append(&Entry::Mode(change)) {
        tracing::error!(%error, "the change to LOCKDOWN could not be recorded");
    }
    Mode::Lockdown
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
    let (by, reason) = (redacted(&by.display_name()), redacted(reason));
    let change = ModeChange { from, to, reason: reason.clone(), by: Some(by.clone()), data: Value::Null };
    let recorded = layer.ledger.append_durably(&Entry::Mode(change)).await;
    recorded.map_err(|error| ModeError::NotRecorded(error.to_string()))?;
    emit(Event::ModeTransition { from, to, reason: &reason, by: &by, sensors: None });
    Ok(())
}

/// Hands the call's span and measurements to whoever collects them. It can neither delay nor fail the call.
pub(crate) fn export(call: Call, result: &ToolResult) {
    if let Some(word) = policy_word(result) {
        call.span.note(Note::Decision(word));
        metrics::decision(call.mode, word);
    }
    if let Some(rule) = result.metadata.refusal.as_ref().and_then(|refusal| refusal.rule.as_ref()) {
        call.span.note(Note::Rule(rule));
    }
    call.span.note(Note::Result(&result.output));
    call.span.end(match (&result.metadata.refusal, &result.metadata.failure) {
        (Some(refusal), _) => telemetry::Outcome::Refused(refusal.code),
        (None, Some(failure)) => telemetry::Outcome::Failed(failure.kind),
        (None, None) => telemetry::Outcome::Done,
    });
}

/// What the policy said, where it was asked: `permit`, `ask` or `deny`.
fn policy_word(result: &ToolResult) -> Option<&'static str> {
    let Some(refusal) = &result.metadata.refusal else { return Some("permit") };
    match refusal.code {
        RefusalCode::ApprovalDenied | RefusalCode::ApprovalTimedOut | RefusalCode::ApprovalPending => {
            Some("ask")
        }
        RefusalCode::ModeDenied
        | RefusalCode::RateLimited
        | RefusalCode::PathForbidden
        | RefusalCode::PathNotAllowed
        | RefusalCode::CommandNotAllowed
        | RefusalCode::DomainNotAllowed
        | RefusalCode::TooLarge
        | RefusalCode::SandboxUnavailable
        | RefusalCode::ControlPlane => Some("deny"),
        RefusalCode::UnknownTool
        | RefusalCode::NotInAllowlist
        | RefusalCode::InvalidArguments
        | RefusalCode::ValidatorRejected
        | RefusalCode::Busy
        | RefusalCode::HopBudgetExhausted
        | RefusalCode::CostCapExceeded
        | RefusalCode::LedgerUnavailable
        | RefusalCode::ResourceExhausted
        | RefusalCode::ShuttingDown
        | RefusalCode::Conflict => None,
    }
}

/// A text that may hold what somebody wrote, fit for a record.
fn redacted(text: &str) -> String {
    redact::shared().redact_text(text).into_owned()
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
