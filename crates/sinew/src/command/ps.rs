//! `sinew ps` and `sinew cancel`: list and cancel the calls in progress. The daemon holds the list of calls.

use ledger::{CallIdPrefix, LedgerReader};
use serde_json::{Value, json};
use tool::CallId;

use crate::cli::{CancelArgs, JsonArgs};
use crate::command::ledger::recorded_target;
use crate::command::{call_ids, each};
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::render::{self, text_field};
use crate::terminal::{escape_invisible_line, print_result_line, print_warning};

pub(crate) fn run(output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let reply = context.request_control("control/calls.list", json!({}))?;
    let reader = LedgerReader::new(&compose::ledger_dir(&context));
    let header = ["CALL", "STATE", "AGE", "TOOL", "TARGET", "CALLER", "SESSION"];
    render::reply(output, reply, |reply| {
        render::print_list(render::items(reply, "calls"), "no call is in progress", header, |call| {
            let caller = &call["caller"];
            [
                text_field(call, "call_id"),
                state_text(call),
                age_text(call["age_ms"].as_u64().unwrap_or_default()),
                text_field(call, "tool"),
                // The decision or the approval request names the target. A call that is still checked has neither.
                recorded_target(&reader, &text_field(call, "call_id")).unwrap_or_default(),
                caller_name(caller),
                text_field(caller, "session"),
            ]
        })
    })
}

pub(crate) fn cancel(args: &CancelArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    each(&args.ids, "calls", args.output.json, |prefix| {
        let id = active_call(&context, prefix)?;
        let reply = context.request_control("control/calls.cancel", json!({"call_id": id}))?;
        match reply.get("ended") == Some(&json!(true)) {
            _ if args.output.json => {}
            true => print_result_line(format!("{id} ended"))?,
            false => print_warning(format!("{id} was cancelled, but has not ended yet: `sinew ps` shows it")),
        }
        Ok(reply)
    })
}

/// Returns the only call in progress whose id starts with these digits.
fn active_call(context: &CommandContext, prefix: &CallIdPrefix) -> Result<CallId, CommandError> {
    if let Some(id) = prefix.whole_id() {
        return Ok(id);
    }
    let reply = context.request_control("control/calls.list", json!({}))?;
    let calls = render::items(&reply, "calls");
    let candidates: Vec<(String, String)> =
        calls.iter().map(|call| (text_field(call, "call_id"), text_field(call, "tool"))).collect();
    call_ids::only(&candidates, prefix, "`sinew ps` shows the calls in progress")
}

/// Returns the state of a call in a few words.
fn state_text(call: &Value) -> String {
    let state = text_field(call, "state");
    match (call["cancelled"] == true, text_field(call, "approval_id")) {
        (true, _) => format!("{state}, ending"),
        (false, approval) if approval.is_empty() => state,
        (false, approval) => format!("{state} ({approval})"),
    }
}

fn caller_name(caller: &Value) -> String {
    match caller["client"].as_str() {
        Some(client) => escape_invisible_line(client),
        None => caller["uid"].as_u64().map(|uid| format!("uid {uid}")).unwrap_or_default(),
    }
}

/// Formats an age in its most natural unit.
fn age_text(milliseconds: u64) -> String {
    match milliseconds / 1000 {
        0 => format!("{milliseconds} ms"),
        seconds @ 1..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_shown_in_its_natural_unit() {
        for (milliseconds, expect) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1000, "1 s"),
            (119_999, "119 s"),
            (120_000, "2 min"),
            (7_200_000, "2 h"),
        ] {
            assert_eq!(age_text(milliseconds), expect);
        }
    }
}
