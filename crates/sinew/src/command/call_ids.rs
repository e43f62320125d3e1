//! Ids of calls, given as a unique prefix. Only commands that loosen nothing accept one.

use ledger::{CallIdPrefix, LedgerReader, RecordFilter};
use tool::CallId;

use crate::command::ledger::{read_error, record_subject};
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::CommandError;
use crate::render;
use crate::terminal::escape_invisible_line;

/// Number of records to search: a prefix that fits more calls than this is ambiguous anyway.
const MAX_RECORDS: usize = 200;
/// Maximum number of calls that an error lists.
const MAX_LISTED: usize = 5;

/// Returns the only recorded call whose id starts with these digits.
pub(crate) fn find_recorded(context: &CommandContext, prefix: &CallIdPrefix) -> Result<CallId, CommandError> {
    if let Some(id) = prefix.whole_id() {
        return Ok(id);
    }
    let folder = compose::ledger_dir(context);
    let filter = RecordFilter {
        call_id_prefix: Some(prefix.clone()),
        limit: Some(MAX_RECORDS),
        ..RecordFilter::default()
    };
    let records = LedgerReader::new(&folder).query(&filter).map_err(read_error(&folder))?;
    let mut candidates: Vec<(String, String)> = Vec::new();
    for body in records.iter().rev().map(ledger::LedgerRecord::json) {
        let id = render::text_field(&body, "call_id");
        let description = record_subject(&body);
        match candidates.iter_mut().find(|(known, _)| *known == id) {
            // The record of a decision or refusal also names the target.
            Some((_, known)) if known.len() < description.len() => *known = description,
            Some(_) => {}
            None => candidates.push((id, description)),
        }
    }
    let hint = "`sinew ledger tail` shows the ids";
    only(&candidates, prefix, hint)
}

/// Returns the id of the only candidate that starts with these digits. A candidate is an id and a description.
pub(crate) fn only(
    candidates: &[(String, String)],
    prefix: &CallIdPrefix,
    hint: &str,
) -> Result<CallId, CommandError> {
    let fitting: Vec<_> = candidates.iter().filter(|(id, _)| prefix.matches(id)).collect();
    let parse = |id: &str| id.parse().map_err(|_| CommandError::failed(format!("`{id}` is not a call id")));
    match fitting.as_slice() {
        [(id, _)] => parse(id),
        [] => Err(CommandError::failed(format!("no call id starts with `{prefix}`")).with_hint(hint)),
        several => {
            let line = |(id, description): &&(String, String)| {
                format!("\n  {id}  {}", escape_invisible_line(description))
            };
            let lines: String = several.iter().rev().take(MAX_LISTED).map(line).collect();
            let more = several.len().saturating_sub(MAX_LISTED);
            let rest = if more > 0 { format!("\n  and {more} more") } else { String::new() };
            Err(CommandError::usage(format!("`{prefix}` starts more than one call id:{lines}{rest}"))
                .with_hint("give more digits"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_prefix_names_the_calls() {
        let ids = ["01a1f055-8940-719f-8be1-3a875f42bb4e", "01a1f055-89bb-762d-926d-8195b70018a4"];
        let candidates = ids.map(|id| (id.to_owned(), "write_file a".to_owned()));
        let find = |text: &str| only(&candidates, &CallIdPrefix::parse(text).unwrap(), "h");
        assert_eq!(find("01a1f055-8940").unwrap().to_string(), ids[0]);
        assert_eq!(find("01a1f05589b").unwrap().to_string(), ids[1]);
        let error = find("01a1f055").unwrap_err();
        assert!(ids.iter().all(|id| error.message.contains(id)), "{}", error.message);
        assert!(find("ffff").unwrap_err().message.contains("no call id starts with `ffff`"));
    }
}
