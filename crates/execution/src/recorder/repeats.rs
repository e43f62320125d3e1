//! Answers a repeated call with the recorded outcome of the earlier call.

use ledger::entry::Note;
use ledger::{Entry, Status};
use serde_json::json;
use tool::{Failure, FailureKind, Metadata, Output, Repeat, ToolResult};

use super::metadata;
use crate::bookkeeping::{Form, Kind, size_of};
use crate::call::Call;
use crate::layer::ToolExecutionLayer;
use crate::repeats::Earlier;

/// Returns the recorded outcome of the earlier call as the result of the repeated one, which is not run.
pub(crate) fn repeated(layer: &ToolExecutionLayer, call: &Call, earlier: Earlier) -> ToolResult {
    let Earlier { decision, outcome, at } = earlier;
    let of = decision.call.call_id;
    let status = outcome.as_ref().map_or(Status::Unknown, |outcome| outcome.status);
    let note = Note {
        about: "repeat".to_owned(),
        text: format!("a call of {} was repeated, and not run again", decision.call.tool),
        data: json!({"call_id": call.id, "repeat_of": of, "caller": call.on_record(&call.tool_name).caller}),
    };
    let entry = Entry::Note(note);
    let recorded = match layer.bookkeeping.form(&call.caller, Kind::Repeat(of), size_of(&entry)) {
        Form::Full => layer.ledger.append(&entry).is_ok(),
        Form::Counted => false,
    };
    let output_digest = outcome.as_ref().and_then(|outcome| outcome.output_digest.clone());
    let edited = decision.arguments_digest != call.arguments_digest;
    let repeat =
        Repeat { of, outcome: status.as_str().to_owned(), at: at.to_string(), output_digest, edited };
    let metadata = Metadata {
        recorded,
        cached: true,
        definition_hash: Some(decision.definition_hash.clone()),
        repeat: Some(repeat),
        ..metadata(call)
    };
    let (tool, latency_ms) = (decision.call.tool.as_str(), call.latency_ms());
    match (status, outcome) {
        (Status::Done, Some(outcome)) => {
            let (files_touched, usage) = (outcome.files_touched, outcome.usage);
            let output = Output { value: json!({}), files_touched, usage, ..Output::default() };
            ToolResult::done(tool, output, metadata, latency_ms)
        }
        (_, outcome) => {
            let (kind, message) = outcome.map_or((None, None), |outcome| (outcome.failure, outcome.message));
            let unknown = || format!("{tool} was running when the daemon stopped: its outcome is not known");
            let failure = Failure::new(kind.unwrap_or(FailureKind::Crashed), message.unwrap_or_else(unknown));
            let hint = "it was not run again; check what it did, and use a new key to try again";
            ToolResult::failed(tool, failure.hint(hint), metadata, latency_ms)
        }
    }
}
