//! Records calls that are not run: a refused call, and a repeated call with the outcome of the earlier one.

use std::sync::atomic::Ordering;

use ledger::entry::{NoteEntry, RecordedRefusal};
use ledger::{LedgerEntry, LedgerError, OutcomeStatus};
use serde_json::{Value, json};
use telemetry::{TelemetryEvent, emit, redact};
use tool::result::{RepeatedCall, ResultMetadata};
use tool::{Failure, FailureKind, Refusal, RefusalCode, ToolOutput, ToolResult};

use super::{Recorder, metadata, redacted, stages, subject};
use crate::bookkeeping::{Kind, RecordDetail, size_of};
use crate::call::PipelineCall;
use crate::idempotency::EarlierCall;

impl Recorder {
    /// Records a refusal and returns the result of the call.
    pub(crate) fn record_refusal(&self, call: &PipelineCall, refusal: Refusal) -> ToolResult {
        let kind = Kind::Refusal(refusal.code);
        self.record_as(call, refusal, kind)
    }

    /// Like `record_refusal`, for a message that is not a call. The kind is not derived from the name of the tool,
    /// which the caller chooses.
    pub(crate) fn record_malformed(&self, call: &PipelineCall, refusal: Refusal) -> ToolResult {
        self.record_as(call, refusal, Kind::Malformed)
    }

    fn record_as(&self, call: &PipelineCall, mut refusal: Refusal, kind: Kind) -> ToolResult {
        refusal.trace_id = Some(call.header.trace.trace_id.to_string());
        let entry = LedgerEntry::Refusal(RecordedRefusal {
            call: call.ledger_call(&refusal.tool),
            code: refusal.code,
            detail: refusal.detail.clone(),
            reason: recorded_reason(&refusal),
            rule: refusal.rule.clone(),
            policy_hash: Some(call.snapshot.policy.hash().to_owned()),
            arguments_digest: Some(call.arguments_digest.to_string()),
            latency_us: u64::try_from(call.started.elapsed().as_micros()).unwrap_or(u64::MAX),
            facts: facts(call),
        });
        let form = self.bookkeeping.form(&call.header.caller, kind, size_of(&entry));
        let written = match form {
            RecordDetail::Full => self.ledger.append(&entry).map(|_| true),
            RecordDetail::Counted => Ok(false),
        };
        let recorded = matches!(written, Ok(true));
        if let Err(error) = written {
            refusal = *ledger_unavailable(&call.tool_name, &error);
            refusal.trace_id = Some(call.header.trace.trace_id.to_string());
        }
        // A call that waits for the operator is not refused.
        if refusal.code != RefusalCode::ApprovalPending {
            self.tally.refused.fetch_add(1, Ordering::Relaxed);
        }
        self.mode_watch.count_refused(call, &refusal);
        announce_refusal(call, &refusal);
        ToolResult::refused(refusal, ResultMetadata { recorded, ..metadata(call) }, call.latency_ms())
    }
}

fn facts(call: &PipelineCall) -> Value {
    let mut facts = json!({"stages": stages(call)});
    if let Value::Object(facts) = &mut facts {
        facts.extend(super::curated_map_note(call).map(|word| ("curated_map".to_owned(), json!(word))));
        facts.extend(call.host_facts.iter().map(|host| ("host".to_owned(), host.clone())));
        let saw = call.denial_facts().and_then(Value::as_object).into_iter().flatten();
        facts.extend(saw.map(|(key, value)| (key.clone(), value.clone())));
    }
    facts
}

/// Reason for the ledger and the log. That of a refused command quotes its words.
fn recorded_reason(refusal: &Refusal) -> String {
    match refusal.code {
        RefusalCode::CommandNotAllowed => redact::shared().redact_command_line(&refusal.reason),
        _ => redacted(&refusal.reason),
    }
}

fn announce_refusal(call: &PipelineCall, refusal: &Refusal) {
    let (code, reason, latency_ms) = (refusal.code, recorded_reason(refusal), call.latency_ms());
    let reason = reason.as_str();
    let subject = subject(call, &refusal.tool);
    if code == RefusalCode::InvalidArguments {
        let missing = guardrail::missing_fields(&refusal.problems);
        emit(TelemetryEvent::ToolValidationFailed { call: subject, code, missing: &missing, reason });
        if call.header.caller.session.is_some() {
            emit(TelemetryEvent::WorkerInnerValidationFail {
                call: subject,
                code,
                missing: &missing,
                reason,
            });
        }
    } else {
        emit(TelemetryEvent::ToolCallBlocked {
            call: subject,
            code,
            reason,
            rule: refusal.rule.as_ref(),
            latency_ms,
        });
    }
}

/// Refusal of a call whose decision could not be recorded.
pub(crate) fn ledger_unavailable(tool: &str, error: &LedgerError) -> Box<Refusal> {
    let reason = format!("Permission denied: The decision could not be recorded: {error}");
    let refusal = Refusal::new(tool, RefusalCode::LedgerUnavailable, reason);
    let hint = match error {
        LedgerError::ReadsRefused { .. } => {
            "nothing was run; raise ledger.max_bytes or lower ledger.keep_at_least_days in sinew.yaml, then restart Sinew"
        }
        _ => "nothing was run; free disk space or repair the state folder, then try again",
    };
    Box::new(refusal.with_hint(hint))
}

impl Recorder {
    /// Records the repeat, and returns the recorded outcome of the earlier call as its result. The repeated
    /// call is not run.
    pub(crate) fn record_repeat(&self, call: &PipelineCall, earlier: EarlierCall) -> ToolResult {
        let EarlierCall { decision, outcome, at } = earlier;
        let of = decision.call.call_id;
        let status = outcome.as_ref().map_or(OutcomeStatus::Unknown, |outcome| outcome.status);
        let note = NoteEntry {
            about: "repeat".to_owned(),
            text: format!("a call of {} was repeated, and not run again", decision.call.tool),
            data: json!({"call_id": call.header.call_id, "repeat_of": of, "caller": call.ledger_call(&call.tool_name).caller}),
        };
        let entry = LedgerEntry::Note(note);
        let recorded = match self.bookkeeping.form(&call.header.caller, Kind::Repeat(of), size_of(&entry)) {
            RecordDetail::Full => self.ledger.append(&entry).is_ok(),
            RecordDetail::Counted => false,
        };
        let output_digest = outcome.as_ref().and_then(|outcome| outcome.output_digest.clone());
        let edited = decision.arguments_digest != call.arguments_digest;
        let repeat = RepeatedCall {
            of,
            outcome: status.as_str().to_owned(),
            at: at.to_string(),
            output_digest,
            edited,
        };
        let metadata = ResultMetadata {
            recorded,
            cached: true,
            definition_hash: Some(decision.definition_hash.clone()),
            repeat: Some(repeat),
            ..metadata(call)
        };
        let (tool, latency_ms) = (decision.call.tool.as_str(), call.latency_ms());
        match (status, outcome) {
            (OutcomeStatus::Done, Some(outcome)) => {
                let (files_touched, usage) = (outcome.files_touched, outcome.usage);
                let output = ToolOutput { value: json!({}), files_touched, usage, ..ToolOutput::default() };
                ToolResult::done(tool, output, metadata, latency_ms)
            }
            (_, outcome) => {
                let (kind, message) =
                    outcome.map_or((None, None), |outcome| (outcome.failure, outcome.message));
                let unknown =
                    || format!("{tool} was running when the daemon stopped: its outcome is not known");
                let failure =
                    Failure::new(kind.unwrap_or(FailureKind::Crashed), message.unwrap_or_else(unknown));
                let hint = "it was not run again; check what it did, and use a new key to try again";
                ToolResult::failed(tool, failure.with_hint(hint), metadata, latency_ms)
            }
        }
    }
}
