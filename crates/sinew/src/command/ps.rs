//! `sinew ps` and `sinew cancel`: list and cancel the calls in progress. The daemon holds the list of calls.

use ledger::{CallIdPrefix, LedgerReader};
use serde_json::{Value, json};
use tool::CallId;

use crate::cli::{CancelArgs, JsonArgs};
use crate::command::ledger::{recorded_target, short_id_length};
use crate::command::{call_ids, each};
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::render::{self, text_field};
use crate::table::Column;
use crate::terminal::{
    DIM_STYLE, WARNING_STYLE, escape_invisible_line, paint, print_message, print_result_line, print_warning,
};
use crate::units;

pub(crate) fn run(output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let reply = context.request_control("control/calls.list", json!({}))?;
    let reader = LedgerReader::new(&compose::ledger_dir(&context));
    let is_waiting = |call: &Value| call.get("approval_id").is_some();
    let pending = match render::items(&reply, "calls").iter().any(is_waiting) {
        true => context.request_control("control/approvals.list", json!({}))?,
        false => Value::Null,
    };
    let header = [
        Column::whole("CALL"),
        Column::whole("STATE"),
        Column::optional("AGE", 1),
        Column::name("TOOL"),
        Column::path("TARGET"),
        Column::optional("CALLER", 2),
        Column::optional("SESSION", 3),
    ];
    render::reply(output, reply, |reply| {
        let ids: Vec<String> =
            render::items(reply, "calls").iter().map(|call| text_field(call, "call_id")).collect();
        let id_length = short_id_length(&ids.iter().map(String::as_str).collect::<Vec<_>>());
        render::print_list(render::items(reply, "calls"), "no call is in progress", header, |call| {
            let caller = &call["caller"];
            [
                text_field(call, "call_id").chars().take(id_length).collect(),
                state_text(call),
                units::duration(call["age_ms"].as_u64().unwrap_or_default().saturating_mul(1000)),
                text_field(call, "tool"),
                // A call that is still checked has neither a request nor a decision, which name its target.
                requested_target(&pending, call)
                    .or_else(|| recorded_target(&reader, &text_field(call, "call_id")))
                    .unwrap_or_default(),
                caller_name(caller),
                text_field(caller, "session"),
            ]
        })?;
        if !render::items(reply, "calls").is_empty() {
            print_message(paint(
                DIM_STYLE,
                "`sinew cancel CALL` ends a call; `sinew approvals watch` decides those that wait",
            ));
        }
        Ok(())
    })
}

/// Returns the target of a call that waits for approval, from the summary of its request.
fn requested_target(pending: &Value, call: &Value) -> Option<String> {
    let requests = render::items(pending, "approvals");
    let request =
        requests.iter().find(|request| request["id"].is_string() && request["id"] == call["approval_id"])?;
    let summary = text_field(request, "summary");
    summary.split_once(' ').map(|(_, target)| target.to_owned())
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
    match (call["cancelled"] == true, state.as_str()) {
        (true, _) => format!("{state}, ending"),
        (false, "suspended") => paint(WARNING_STYLE, "waiting for approval"),
        (false, _) => state,
    }
}

fn caller_name(caller: &Value) -> String {
    match caller["client"].as_str() {
        Some(client) => escape_invisible_line(client),
        None => caller["uid"].as_u64().map(|uid| format!("uid {uid}")).unwrap_or_default(),
    }
}
