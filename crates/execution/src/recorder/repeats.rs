//! Answers a repeated call with the recorded outcome of the earlier call.

use ledger::entry::NoteEntry;
use ledger::{LedgerEntry, OutcomeStatus};
use serde_json::json;
use tool::result::{RepeatedCall, ResultMetadata};
use tool::{Failure, FailureKind, ToolOutput, ToolResult};

use super::{Recorder, metadata};
use crate::bookkeeping::{Form, Kind, size_of};
use crate::call::PipelineCall;
use crate::idempotency::EarlierCall;

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
            Form::Full => self.ledger.append(&entry).is_ok(),
            Form::Counted => false,
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
