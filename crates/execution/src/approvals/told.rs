//! What an agent was told of a call that a human decides about. Whether one can be asked depends on what is in the files
//! that the call would change: a right guess at it is told from a wrong one. A call that guesses leaves a refusal or a
//! question on record; so that `explain` is no quieter way to guess, what it tells is on record too, and at no other pace.

use std::sync::Arc;

use ledger::Entry;
use ledger::entry::Note;
use registry::Tool;
use serde_json::{Value, json};
use tool::Refusal;

use super::foresee::Foreseen;
use crate::call::Call;
use crate::layer::ToolExecutionLayer;
use crate::recorder;

/// Puts on record what is about to be told. What cannot be recorded is not told.
pub(super) async fn record(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    foreseen: &Result<Foreseen, Box<Refusal>>,
) -> Result<(), Box<Refusal>> {
    layer.refusals.turn().await;
    let recorded = layer.ledger.append(&Entry::Note(note(call, tool, foreseen)));
    recorded.map(drop).map_err(|error| recorder::unavailable(&call.tool_name, &error))
}

fn note(call: &Call, tool: &Tool, foreseen: &Result<Foreseen, Box<Refusal>>) -> Note {
    let (verdict, refusal) = match foreseen {
        Ok(Foreseen::Answered(_)) => ("permit", None),
        Ok(Foreseen::Asks(_)) => ("ask", None),
        Err(refusal) => ("deny", Some(refusal)),
    };
    let name = tool.definition().name().as_str();
    let on_record = call.on_record(name);
    Note {
        about: "explained".to_owned(),
        text: format!("a caller was told what would become of a call of {name}: {verdict}"),
        data: json!({
            "call_id": on_record.call_id,
            "tool": on_record.tool,
            "mode": on_record.mode,
            "caller": on_record.caller,
            "trace": on_record.trace,
            "arguments_digest": call.arguments_digest,
            "verdict": verdict,
            "code": refusal.map(|refusal| refusal.code),
            "detail": refusal.and_then(|refusal| refusal.detail.clone()),
            "facts": call.facts().unwrap_or(&Value::Null),
        }),
    }
}
