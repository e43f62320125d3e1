//! Ledger notes about explanations given to agents. Whether approval can be requested depends on the content
//! of the files that the call would change, so an explanation can confirm a guess at that content. A real
//! call leaves a refusal or a request in the ledger; explanations are recorded and rate limited too, so that
//! `explain` is not a quieter way to guess.

use ledger::LedgerEntry;
use ledger::entry::NoteEntry;
use registry::Tool;
use serde_json::{Value, json};
use tool::Refusal;

use super::charge_records;
use super::forecast::ApprovalForecast;
use crate::bookkeeping::size_of;
use crate::call::PipelineCall;
use crate::pipeline::StageContext;
use crate::recorder;
use crate::throttle::Throttle;

/// Records an explanation before it is returned. If it cannot be recorded, the caller gets a refusal instead.
pub(super) async fn record(
    cx: &StageContext<'_>,
    throttle: &Throttle,
    preview: &Result<ApprovalForecast, Box<Refusal>>,
) -> Result<(), Box<Refusal>> {
    let call = cx.call;
    throttle.check_refusal_pace(call)?;
    let entry = LedgerEntry::Note(note(call, cx.tool, preview));
    charge_records(cx, size_of(&entry))?;
    let recorded = cx.recorder.ledger.append(&entry);
    recorded.map(drop).map_err(|error| recorder::ledger_unavailable(&call.tool_name, &error))
}

fn note(call: &PipelineCall, tool: &Tool, preview: &Result<ApprovalForecast, Box<Refusal>>) -> NoteEntry {
    let (verdict, refusal) = match preview {
        Ok(ApprovalForecast::AlreadyApproved(_)) => ("permit", None),
        Ok(ApprovalForecast::ApprovalRequired(_)) => ("ask", None),
        Err(refusal) => ("deny", Some(refusal)),
    };
    let name = tool.definition().name().as_str();
    let on_record = call.ledger_call(name);
    NoteEntry {
        about: "explained".to_owned(),
        text: format!("an agent received an explanation of a call to {name}: {verdict}"),
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
            "facts": call.denial_facts().unwrap_or(&Value::Null),
        }),
    }
}
