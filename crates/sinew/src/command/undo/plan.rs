//! Calls whose changes can be undone, and the plan of undoing several of them.

use jiff::Timestamp;
use ledger::entry::UndoEntry;
use ledger::{LedgerEntry, LedgerReader, RecordFilter};
use serde_json::Value;
use tool::CallId;

use crate::command::ledger::{read_error, short_id_length};
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::CommandError;
use crate::render;
use crate::table::{Column, Table};
use crate::terminal::{ERROR_STYLE, escape_invisible_line, paint};
use crate::units;

/// Call whose recorded changes can be undone.
pub(super) struct UndoableCall {
    pub(super) id: CallId,
    pub(super) tool: String,
    time: Timestamp,
    files: Vec<String>,
}

/// Returns the calls whose changes can be undone and were not undone yet, newest first.
pub(super) fn undoable_calls(
    context: &CommandContext,
    since: Option<Timestamp>,
) -> Result<Vec<UndoableCall>, CommandError> {
    let folder = compose::ledger_dir(context);
    let reader = LedgerReader::new(&folder);
    let query = |kind: &str| {
        let filter = RecordFilter { kind: Some(kind.to_owned()), since, ..RecordFilter::default() };
        reader.query(&filter).map_err(read_error(&folder))
    };
    let mut undone: Vec<CallId> = Vec::new();
    for record in query("undo")? {
        if let LedgerEntry::Undo(UndoEntry { event, call_id: Some(call), .. }) = &record.entry
            && event == "restored"
        {
            undone.push(*call);
        }
    }
    let outcomes = query("outcome")?;
    let calls = outcomes.iter().filter_map(|record| {
        let (call, outcome) = record.entry.outcome()?;
        let is_open = outcome.facts.undoable == Some(true) && !undone.contains(&call.call_id);
        is_open.then(|| UndoableCall {
            id: call.call_id,
            tool: call.tool.clone(),
            time: record.time,
            files: outcome.files_touched.clone(),
        })
    });
    Ok(calls.collect())
}

/// Previews of several undos, newest call first.
pub(super) struct UndoPlan<'a>(Vec<(&'a UndoableCall, Option<String>)>);

impl<'a> UndoPlan<'a> {
    /// Previews each call. A file that a newer call of the plan changed is expected to differ now, so the preview of an older
    /// call counts only if none of its files is among them.
    pub(super) fn make(
        calls: &'a [UndoableCall],
        preview: impl Fn(CallId) -> Result<Value, CommandError>,
    ) -> UndoPlan<'a> {
        let mut reverted: Vec<&String> = Vec::new();
        let steps = calls.iter().map(|call| {
            let is_below_newer = call.files.iter().any(|file| reverted.contains(&file));
            let conflict =
                if is_below_newer { None } else { preview(call.id).err().map(|error| error.message) };
            reverted.extend(&call.files);
            (call, conflict)
        });
        UndoPlan(steps.collect())
    }

    pub(super) fn first_conflict(&self) -> Option<String> {
        let conflict = |(call, conflict): &(&UndoableCall, Option<String>)| {
            conflict.as_ref().map(|conflict| format!("{} cannot be undone: {conflict}", call.id))
        };
        self.0.iter().find_map(conflict)
    }

    pub(super) fn print(&self) -> Result<(), CommandError> {
        let mut table = Table::default();
        table.set_header([
            Column::whole("CALL"),
            Column::optional("TIME", 1),
            Column::whole("TOOL"),
            "FILES".into(),
        ]);
        let ids: Vec<String> = self.0.iter().map(|(call, _)| call.id.to_string()).collect();
        let id_length = short_id_length(&ids.iter().map(String::as_str).collect::<Vec<_>>());
        for ((call, conflict), id) in self.0.iter().zip(&ids) {
            let files: Vec<String> = call.files.iter().map(|file| escape_invisible_line(file)).collect();
            let conflict = conflict
                .as_ref()
                .map(|text| paint(ERROR_STYLE, format!("\nconflict: {}", escape_invisible_line(text))));
            table.add_row([
                id.chars().take(id_length).collect(),
                units::local_time(call.time),
                escape_invisible_line(&call.tool),
                files.join("\n") + &conflict.unwrap_or_default(),
            ]);
        }
        render::print_table(&table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(files: &[&str]) -> UndoableCall {
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        UndoableCall {
            id: CallId::fresh(),
            tool: "write_file".to_owned(),
            time: Timestamp::UNIX_EPOCH,
            files,
        }
    }

    #[test]
    fn plan_names_only_conflicts_from_outside_of_it() {
        let calls = [call(&["a"]), call(&["a"]), call(&["b"])];
        let fails = |conflicting: &[usize]| {
            let ids: Vec<CallId> = conflicting.iter().map(|index| calls[*index].id).collect();
            let plan = UndoPlan::make(&calls, |id| match ids.contains(&id) {
                true => Err(CommandError::failed("it changed since")),
                false => Ok(Value::Null),
            });
            plan.first_conflict()
        };
        assert_eq!(fails(&[]), None);
        assert_eq!(fails(&[1]), None, "the newer call of the plan changed the file");
        for index in [0, 2] {
            let conflict = fails(&[index]).unwrap();
            assert!(conflict.contains(&calls[index].id.to_string()), "{conflict}");
        }
    }
}
