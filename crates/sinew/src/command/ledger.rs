//! `sinew ledger`: reads the ledger files directly, with or without a running daemon.

mod call_lines;
mod call_page;

pub(crate) use call_lines::{recorded_target, short_id_length};

use std::fs::OpenOptions;
use std::io::{BufWriter, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ledger::{
    CallIdPrefix, ExportFormat, LedgerError, LedgerReader, LedgerRecord, RecordFilter, VerifyFinding,
    VerifyReport, verify_with_progress,
};
use serde_json::{Value, json};
use tool::CallId;
use tool::text::shorten;

use crate::cli::{JsonArgs, LedgerCommand, LedgerExportFormat, RecordForm};
use crate::command::call_ids;
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::table::{Column, Table};
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, LiveLine, SUCCESS_STYLE, escape_invisible, escape_invisible_line, paint,
    print_message, print_result_line, print_warning, print_whole_line, stdout_error, stdout_width,
    wait_for_more,
};
use crate::units;

/// Polling interval of `--follow`.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum length of a call's target in a table of records.
const MAX_TARGET_LENGTH: usize = 15;
/// Number of records that a call usually has at most: request and use of an approval, decision, outcome.
const RECORDS_PER_CALL: usize = 4;
/// Numbers of fewer digits are sequence numbers. No ledger has records with longer ones.
const MIN_CALL_ID_LENGTH: usize = 12;

pub(crate) fn run(command: LedgerCommand) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let ledger_files = LedgerFiles::open(&context);
    match command {
        LedgerCommand::Tail { count, follow, form } => {
            let last = ledger_files.show_tail(count, form)?;
            if follow { ledger_files.follow(last, form) } else { Ok(ExitKind::Done) }
        }
        LedgerCommand::Query { filter, limit, form } => {
            let found = ledger_files.query(&RecordFilter { limit: Some(limit), ..filter.into() })?;
            if found.is_empty() {
                print_message("no record matches");
            }
            ledger_files.show(&found, form)?;
            if found.len() == limit && !form.json {
                let line = format!("at most {limit} records are shown, the newest; `--limit` changes it");
                print_message(paint(DIM_STYLE, line));
            }
            Ok(ExitKind::Done)
        }
        LedgerCommand::Show { id, output } => ledger_files.show_page(&context, &id, output),
        LedgerCommand::Verify(output) => verify_ledger(&context, output),
        LedgerCommand::Export { filter, format, output } => {
            ledger_files.export(&filter.into(), format, output.as_deref())
        }
    }
}

/// Shows the page of a recorded call.
pub(crate) fn show_call(id: &str, output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    LedgerFiles::open(&context).show_page(&context, id, output)
}

/// Reader of the ledger of this home, with its folder for error messages.
struct LedgerFiles {
    folder: PathBuf,
    reader: LedgerReader,
}

impl LedgerFiles {
    fn open(context: &CommandContext) -> LedgerFiles {
        let folder = compose::ledger_dir(context);
        LedgerFiles { reader: LedgerReader::new(&folder), folder }
    }

    /// Returns the matching records, oldest first.
    fn query(&self, filter: &RecordFilter) -> Result<Vec<LedgerRecord>, CommandError> {
        let mut found = self.reader.query(filter).map_err(read_error(&self.folder))?;
        found.reverse();
        Ok(found)
    }

    /// Shows the last calls and returns the sequence number of the last record.
    fn show_tail(&self, count: usize, form: RecordForm) -> Result<Option<u64>, CommandError> {
        if form.raw || form.json {
            let records = self.reader.tail(count).map_err(read_error(&self.folder))?;
            return self.show(&records, form);
        }
        // A call has at most a few records, so the lines of this many include the last calls.
        let records =
            self.reader.tail(count.saturating_mul(RECORDS_PER_CALL)).map_err(read_error(&self.folder))?;
        let lines = call_lines::call_lines(&records, &self.reader);
        let first = lines.len().saturating_sub(count);
        print_lines(lines.get(first..).unwrap_or_default())?;
        Ok(records.last().map(|record| record.seq))
    }

    /// Shows records and returns the sequence number of the last one.
    fn show(&self, records: &[LedgerRecord], form: RecordForm) -> Result<Option<u64>, CommandError> {
        if form.json {
            records.iter().try_for_each(|record| print_whole_line(record.line()))?;
        } else if form.raw && !records.is_empty() {
            render::print_table(&record_table(records))?;
        } else {
            print_lines(&call_lines::call_lines(records, &self.reader))?;
        }
        Ok(records.last().map(|record| record.seq))
    }

    fn follow(&self, mut last: Option<u64>, form: RecordForm) -> Result<ExitKind, CommandError> {
        loop {
            wait_for_more(POLL_INTERVAL)?;
            let new = self.query(&RecordFilter { after_seq: last.or(Some(0)), ..RecordFilter::default() })?;
            last = match form.raw || form.json {
                true => self.show(&new, form)?,
                false => {
                    // A call gets its line when it ends or waits for the operator, so it has one.
                    let mut lines = call_lines::call_lines(&new, &self.reader);
                    lines.retain(|line| !line.is_running());
                    print_lines(&lines)?;
                    new.last().map(|record| record.seq)
                }
            }
            .or(last);
        }
    }

    fn show_page(
        &self,
        context: &CommandContext,
        id: &str,
        output: JsonArgs,
    ) -> Result<ExitKind, CommandError> {
        let seq = id.parse::<u64>().ok().filter(|_| id.len() < MIN_CALL_ID_LENGTH);
        let wanted = match (seq, CallIdPrefix::parse(id)) {
            (Some(seq), _) => RecordFilter {
                after_seq: seq.checked_sub(1),
                before_seq: seq.checked_add(1),
                ..RecordFilter::default()
            },
            (_, Some(prefix)) => {
                let call_id = Some(call_ids::find_recorded(context, &prefix)?);
                RecordFilter { call_id, ..RecordFilter::default() }
            }
            _ => return Err(CommandError::usage(format!("`{id}` is neither a call id nor a number"))),
        };
        let mut found = self.query(&wanted)?;
        if found.is_empty() {
            return Err(CommandError::failed(format!("no record of `{id}`")).with_hint("sinew ledger tail"));
        }
        if output.json {
            found.iter().try_for_each(|record| print_whole_line(record.line()))?;
            return Ok(ExitKind::Done);
        }
        let call_id =
            found.first().and_then(|record| text_field(&record.json(), "call_id").parse::<CallId>().ok());
        match call_id {
            Some(call_id) => {
                if seq.is_some() {
                    found =
                        self.query(&RecordFilter { call_id: Some(call_id), ..RecordFilter::default() })?;
                }
                call_page::print(&found)?;
            }
            None => found
                .iter()
                .try_for_each(|record| print_whole_line(escape_invisible(&format!("{:#}", record.json()))))?,
        }
        Ok(ExitKind::Done)
    }

    fn export(
        &self,
        filter: &RecordFilter,
        form: LedgerExportFormat,
        file: Option<&Path>,
    ) -> Result<ExitKind, CommandError> {
        let form = match form {
            LedgerExportFormat::Ndjson => ExportFormat::Ndjson,
            LedgerExportFormat::Csv => ExportFormat::Csv,
        };
        let _line = LiveLine::start("exporting records");
        let written = match file {
            None => self.reader.export(filter, form, BufWriter::new(std::io::stdout().lock())),
            Some(path) => {
                let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
                let opened = opened.map_err(|error| cannot_write(path, &error))?;
                self.reader.export(filter, form, BufWriter::new(opened))
            }
        };
        match (written, file) {
            (Ok(_), _) => Ok(ExitKind::Done),
            (Err(LedgerError::Export(error)), None) => Err(stdout_error(&error)),
            (Err(LedgerError::Export(error)), Some(path)) => {
                Err(CommandError { exit: ExitKind::Failed, ..cannot_write(path, &error) })
            }
            (Err(other), _) => Err(read_error(&self.folder)(other)),
        }
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> CommandError {
    CommandError::usage(format!("{} cannot be written: {error}", path.display()))
}

/// Prints the lines of calls, fitted to the terminal.
fn print_lines(lines: &[call_lines::CallLine]) -> Result<(), CommandError> {
    if lines.is_empty() {
        return Ok(());
    }
    render::print_table(&call_lines::table(lines, stdout_width()))
}

/// Returns a table with one line per record.
fn record_table(records: &[LedgerRecord]) -> Table {
    let mut table = Table::default();
    table.set_header([
        Column::whole("SEQ"),
        Column::optional("TIME", 1),
        Column::whole("KIND"),
        "SUBJECT".into(),
        "OUTCOME".into(),
        Column::whole("CALL"),
    ]);
    for record in records {
        let body = record.json();
        table.add_row([
            &record.seq.to_string(),
            &units::local_time(record.time),
            record.entry.kind(),
            &record_subject(&body),
            &record_outcome(&body),
            text_field(&body, "call_id"),
        ]);
    }
    table
}

fn text_field<'a>(record: &'a Value, key: &str) -> &'a str {
    record[key].as_str().unwrap_or_default()
}

/// Returns the subject of a record in a few words.
pub(crate) fn record_subject(record: &Value) -> String {
    escape_invisible_line(&match text_field(record, "kind") {
        "mode" => format!("{} → {}", text_field(record, "from"), text_field(record, "to")),
        "start" => format!("version {}", text_field(record, "version")),
        "stop" => text_field(record, "reason").to_owned(),
        "note" => text_field(record, "about").to_owned(),
        "decision" | "call" | "refusal" => {
            let target = shorten_target(&call_target(record));
            format!("{} {target}", text_field(record, "tool")).trim_end().to_owned()
        }
        _ => text_field(record, "tool").to_owned(),
    })
}

/// Returns the target of a call: its command, its host, or its first path.
pub(crate) fn call_target(record: &Value) -> String {
    let first = |key: &str| record.pointer(&format!("/facts/{key}/0"));
    if let Some(words) = first("commands").and_then(Value::as_array) {
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        return escape_invisible_line(&words.join(" "));
    }
    if let Some(host) = first("hosts").and_then(Value::as_str) {
        return escape_invisible_line(host);
    }
    let path = first("paths").map(|path| [text_field(path, "canonical"), text_field(path, "typed")]);
    let path = path.and_then(|names| names.into_iter().find(|name| !name.is_empty()));
    path.map(escape_invisible_line).unwrap_or_default()
}

/// Shortens a path at its beginning, because its end is more informative, and another target at its end.
fn shorten_target(target: &str) -> String {
    let from = target.chars().count().saturating_sub(MAX_TARGET_LENGTH);
    match (from, target.starts_with(['/', '~'])) {
        (0, _) => target.to_owned(),
        (from, true) => format!("…{}", target.chars().skip(from).collect::<String>()),
        (_, false) => shorten(target, MAX_TARGET_LENGTH).into_owned(),
    }
}

/// Returns the outcome of a record, from the field that its kind uses.
pub(crate) fn record_outcome(record: &Value) -> String {
    escape_invisible_line(&["outcome", "code", "event", "result"].map(|key| text_field(record, key)).concat())
}

fn verify_ledger(context: &CommandContext, output: JsonArgs) -> Result<ExitKind, CommandError> {
    let folder = compose::ledger_dir(context);
    let line = LiveLine::start("verifying the ledger");
    let report = verify_with_progress(&folder, &compose::ledger_paths(context), &mut |done, total| {
        LiveLine::set_progress("verifying the ledger", done, total);
    });
    drop(line);
    let report = report.map_err(read_error(&folder))?;
    if output.json {
        let as_json = |found: &[VerifyFinding]| {
            let facts = |f: &VerifyFinding| json!({"file": f.file, "line": f.line, "offset": f.offset, "seq": f.seq, "what": f.what});
            found.iter().map(facts).collect::<Vec<_>>()
        };
        render::print_json(json!({"intact": report.is_intact(), "records": report.records,
            "first": report.first, "head": report.head, "segments": report.segments, "bytes": report.bytes,
            "oldest": report.oldest.map(|time| time.to_string()), "removed": report.removed,
            "problems": as_json(&report.problems), "notices": as_json(&report.notices)}))?;
    } else {
        for notice in &report.notices {
            print_warning(format!("note: {}", escape_invisible(&notice.to_string())));
        }
        for found in &report.problems {
            print_result_line(paint(
                ERROR_STYLE,
                format!("broken: {}", escape_invisible(&found.to_string())),
            ))?;
        }
        let files = if report.segments == 1 { "file" } else { "files" };
        let summary = format!(
            "{} records, {} to {}, in {} {files}",
            report.records, report.first, report.head, report.segments
        );
        let reach = reach(&report);
        match report.is_intact() {
            true => print_result_line(paint(SUCCESS_STYLE, format!("intact: {summary}")))?,
            false => print_result_line(paint(ERROR_STYLE, format!("not intact: {summary}")))?,
        }
        print_result_line(reach)?;
    }
    Ok(if report.is_intact() { ExitKind::Done } else { ExitKind::Failed })
}

/// Age of the oldest record, and the number of records removed before it. An intact remainder must not hide
/// an erasure.
fn reach(report: &VerifyReport) -> String {
    let oldest = report.oldest.map_or_else(
        || "it has no record".to_owned(),
        |time| format!("it reaches back to {}", units::local_time(time)),
    );
    let removed = report.removed;
    if removed.is_empty() && report.first <= 1 {
        return format!("{oldest}; nothing was removed");
    }
    let line = format!(
        "{oldest}; {} records in {} files ({}) before that were removed",
        report.first.saturating_sub(1),
        removed.segments,
        units::byte_count(removed.bytes)
    );
    match removed.under_pressure {
        0 => line + ", all older than the minimum age",
        young => {
            let last = removed
                .last_under_pressure
                .map(|time| format!(", last at {}", units::local_time(time)))
                .unwrap_or_default();
            let young = format!(
                "\n{young} of them under pressure: they held records younger than ledger.keep_at_least_days, and \
                 ledger.max_bytes was exceeded{last}"
            );
            line + &paint(ERROR_STYLE, young)
        }
    }
}

/// Returns a function that converts a read error of this ledger folder into a problem.
pub(crate) fn read_error(folder: &Path) -> impl Fn(LedgerError) -> CommandError {
    move |error| match std::fs::symlink_metadata(folder) {
        Err(absent) if absent.kind() == ErrorKind::NotFound => {
            let problem = CommandError::failed(format!("there is no ledger in {}", folder.display()));
            problem.with_hint("the first call creates one")
        }
        _ => CommandError::failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_of_a_call_includes_its_target() {
        let check = |kind: &str, facts: Value, expect: &str| {
            assert_eq!(record_subject(&json!({"kind": kind, "tool": "t", "facts": facts})), expect, "{kind}");
        };
        check("decision", json!({"paths": [{"typed": "a", "canonical": "/w/a"}]}), "t /w/a");
        check("refusal", json!({"paths": [{"typed": "~/a", "kind": "unopened"}]}), "t ~/a");
        check("decision", json!({"paths": [{"canonical": "/w"}], "commands": [["git", "log"]]}), "t git log");
        check("decision", json!({"paths": [], "hosts": ["example.org:443"]}), "t example.org:443");
        check("refusal", json!({}), "t");
        check("outcome", json!({"paths": [{"canonical": "/w/a"}]}), "t");
        let long = format!("/{}/b", "a".repeat(MAX_TARGET_LENGTH));
        let cut = format!("t …{}/b", "a".repeat(MAX_TARGET_LENGTH - 2));
        check("decision", json!({"paths": [{"canonical": long}]}), &cut);
    }
}
