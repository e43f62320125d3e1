//! `sinew allow` without an id: the last refused calls that a policy change could permit.

use std::collections::HashSet;

use ledger::{LedgerEntry, LedgerReader, LedgerRecord, RecordFilter};
use serde_json::{Value, json};
use tool::RefusalCode;

use crate::cli::JsonArgs;
use crate::command::ledger::{call_target, read_error};
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, escape_invisible_line, paint, print_message, print_result_line,
};
use crate::units;

/// Number of calls that are listed.
const LISTED: usize = 10;
/// Number of refusals that are searched for them.
const SEARCHED: usize = 200;

/// Lists the calls, the newest last.
pub(super) fn list(context: &CommandContext, output: JsonArgs) -> Result<ExitKind, CommandError> {
    let folder = compose::ledger_dir(context);
    let filter =
        RecordFilter { kind: Some("refusal".to_owned()), limit: Some(SEARCHED), ..RecordFilter::default() };
    let records = LedgerReader::new(&folder).query(&filter).map_err(read_error(&folder))?;
    let mut seen = HashSet::new();
    let by_policy = records.iter().filter(|record| is_by_policy(record));
    // Of equal calls the newest is enough.
    let distinct = by_policy.filter(|record| seen.insert(subject(&record.json())));
    let mut calls: Vec<&LedgerRecord> = distinct.take(LISTED).collect();
    calls.reverse();
    if output.json {
        let calls: Vec<Value> = calls.iter().map(|record| record.json()).collect();
        render::print_json(json!({"refused": calls}))?;
        return Ok(ExitKind::Done);
    }
    if calls.is_empty() {
        print_message("no call was refused that a change of the policy could permit");
        return Ok(ExitKind::Done);
    }
    for record in calls {
        let body = record.json();
        let (id, reason) = (render::text_field(&body, "call_id"), render::text_field(&body, "reason"));
        let time = units::local_time(record.time);
        print_result_line(format!("{id}  {}", paint(DIM_STYLE, time)))?;
        print_result_line(format!("  {}", subject(&body)))?;
        print_result_line(format!("  {}", paint(ERROR_STYLE, escape_invisible_line(&reason))))?;
    }
    print_message("run `sinew allow CALL_ID` to see the changes that permit one of them");
    Ok(ExitKind::Done)
}

/// Returns the tool of a call and its target.
fn subject(record: &Value) -> String {
    let tool = escape_invisible_line(&render::text_field(record, "tool"));
    format!("{tool} {}", call_target(record))
}

/// Returns true if a rule of the policy refused the call or required an approval.
fn is_by_policy(record: &LedgerRecord) -> bool {
    let LedgerEntry::Refusal(refusal) = &record.entry else { return false };
    matches!(
        refusal.code,
        RefusalCode::PathForbidden
            | RefusalCode::PathNotAllowed
            | RefusalCode::CommandNotAllowed
            | RefusalCode::DomainNotAllowed
            | RefusalCode::ModeDenied
            | RefusalCode::ApprovalPending
            | RefusalCode::ApprovalDenied
            | RefusalCode::ApprovalTimedOut
    )
}
