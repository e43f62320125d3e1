//! `sinew ledger`: reads the ledger files directly, with or without a running daemon.

use std::fs::OpenOptions;
use std::io::{BufWriter, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use comfy_table::Table;
use ledger::{ExportFormat, Filter, Finding, LedgerError, Reader, Record, VerifyReport, verify};
use serde_json::{Value, json};
use tool::{CallId, shorten};

use crate::cli::{ExportForm, JsonArgs, LedgerCommand};
use crate::compose;
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::terminal::{BAD, GOOD, NOTE, linger, paint, say, tell, unwritten, visible, visible_line};

/// Polling interval of `--follow`.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// Maximum length of a call's target in a table line.
const LONGEST_TARGET: usize = 15;

pub(crate) fn run(command: LedgerCommand) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let ledger_files = Book::of(&setting);
    match command {
        LedgerCommand::Tail { count, follow, output } => {
            let last =
                show(&ledger_files.reader.tail(count).map_err(unreadable(&ledger_files.folder))?, output)?;
            if follow { ledger_files.go_on(last, output) } else { Ok(Exit::Done) }
        }
        LedgerCommand::Query { filter, limit, output } => {
            show(&ledger_files.find(&Filter { limit: Some(limit), ..filter.into() })?, output)?;
            Ok(Exit::Done)
        }
        LedgerCommand::Show { id, output } => ledger_files.show_one(&id, output),
        LedgerCommand::Verify(output) => check(&setting, output),
        LedgerCommand::Export { filter, format, output } => {
            ledger_files.export(&filter.into(), format, output.as_deref())
        }
    }
}

/// Reader of the ledger of this home, with its folder for error messages.
struct Book {
    folder: PathBuf,
    reader: Reader,
}

impl Book {
    fn of(setting: &Setting) -> Book {
        let folder = compose::ledger_folder(setting);
        Book { reader: Reader::new(&folder), folder }
    }

    /// Returns the matching records, oldest first.
    fn find(&self, filter: &Filter) -> Result<Vec<Record>, Problem> {
        let mut found = self.reader.query(filter).map_err(unreadable(&self.folder))?;
        found.reverse();
        Ok(found)
    }

    fn go_on(&self, mut last: Option<u64>, output: JsonArgs) -> Result<Exit, Problem> {
        loop {
            linger(BETWEEN_LOOKS)?;
            let new = self.find(&Filter { after_seq: last.or(Some(0)), ..Filter::default() })?;
            last = show(&new, output)?.or(last);
        }
    }

    fn show_one(&self, id: &str, output: JsonArgs) -> Result<Exit, Problem> {
        let wanted = match (id.parse::<u64>(), id.parse::<CallId>()) {
            (Ok(seq), _) => {
                Filter { after_seq: seq.checked_sub(1), before_seq: seq.checked_add(1), ..Filter::default() }
            }
            (_, Ok(call)) => Filter { call_id: Some(call), ..Filter::default() },
            _ => return Err(Problem::usage(format!("`{id}` is neither a call id nor a number"))),
        };
        let found = self.find(&wanted)?;
        if found.is_empty() {
            return Err(Problem::failed(format!("no record of `{id}`")).hint("sinew ledger tail"));
        }
        for record in &found {
            say(if output.json {
                record.line().to_owned()
            } else {
                visible(&format!("{:#}", record.json()))
            })?;
        }
        Ok(Exit::Done)
    }

    fn export(&self, filter: &Filter, form: ExportForm, file: Option<&Path>) -> Result<Exit, Problem> {
        let form = match form {
            ExportForm::Ndjson => ExportFormat::Ndjson,
            ExportForm::Csv => ExportFormat::Csv,
        };
        let written = match file {
            None => self.reader.export(filter, form, BufWriter::new(std::io::stdout().lock())),
            Some(path) => {
                let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
                let opened = opened.map_err(|error| cannot_write(path, &error))?;
                self.reader.export(filter, form, BufWriter::new(opened))
            }
        };
        match (written, file) {
            (Ok(_), _) => Ok(Exit::Done),
            (Err(LedgerError::Export(error)), None) => Err(unwritten(&error)),
            (Err(LedgerError::Export(error)), Some(path)) => {
                Err(Problem { exit: Exit::Failed, ..cannot_write(path, &error) })
            }
            (Err(other), _) => Err(unreadable(&self.folder)(other)),
        }
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Problem {
    Problem::usage(format!("{} cannot be written: {error}", path.display()))
}

/// Prints records and returns the sequence number of the last one.
fn show(records: &[Record], output: JsonArgs) -> Result<Option<u64>, Problem> {
    if output.json {
        records.iter().try_for_each(|record| say(record.line()))?;
    } else if !records.is_empty() {
        say(table(records))?;
    }
    Ok(records.last().map(|record| record.seq))
}

/// Returns a table with one line per record.
pub(crate) fn table(records: &[Record]) -> Table {
    let mut table = render::plain_table();
    table.set_header(["SEQ", "TIME", "KIND", "SUBJECT", "OUTCOME", "CALL"]);
    for record in records {
        let body = record.json();
        let time = record.time.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string();
        table.add_row([
            &record.seq.to_string(),
            &time,
            record.entry.kind(),
            &about(&body),
            &end(&body),
            text(&body, "call_id"),
        ]);
    }
    table
}

fn text<'a>(record: &'a Value, key: &str) -> &'a str {
    record[key].as_str().unwrap_or_default()
}

/// Returns the subject of a record in a few words.
pub(crate) fn about(record: &Value) -> String {
    visible_line(&match text(record, "kind") {
        "mode" => format!("{} → {}", text(record, "from"), text(record, "to")),
        "start" => format!("version {}", text(record, "version")),
        "stop" => text(record, "reason").to_owned(),
        "note" => text(record, "about").to_owned(),
        "decision" | "refusal" => {
            format!("{} {}", text(record, "tool"), target(record)).trim_end().to_owned()
        }
        _ => text(record, "tool").to_owned(),
    })
}

/// Returns the target of a call: its command, its host, or its first path.
fn target(record: &Value) -> String {
    let first = |key: &str| record.pointer(&format!("/facts/{key}/0"));
    if let Some(words) = first("commands").and_then(Value::as_array) {
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        return shorten(&words.join(" "), LONGEST_TARGET).into_owned();
    }
    if let Some(host) = first("hosts").and_then(Value::as_str) {
        return shorten(host, LONGEST_TARGET).into_owned();
    }
    let path = first("paths").map(|path| [text(path, "canonical"), text(path, "typed")]);
    path.and_then(|names| names.into_iter().find(|name| !name.is_empty())).map(end_of).unwrap_or_default()
}

/// Shortens a path at its beginning, because its end is more informative.
fn end_of(path: &str) -> String {
    let from = path.chars().count().saturating_sub(LONGEST_TARGET);
    match from {
        0 => path.to_owned(),
        from => format!("…{}", path.chars().skip(from).collect::<String>()),
    }
}

/// Returns the outcome of a record, from the field that its kind uses.
pub(crate) fn end(record: &Value) -> String {
    visible_line(&["outcome", "code", "event", "result"].map(|key| text(record, key)).concat())
}

fn check(setting: &Setting, output: JsonArgs) -> Result<Exit, Problem> {
    let folder = compose::ledger_folder(setting);
    let report = verify(&folder, &compose::ledger_parts(setting)).map_err(unreadable(&folder))?;
    if output.json {
        let as_json = |found: &[Finding]| {
            let facts = |f: &Finding| json!({"file": f.file, "line": f.line, "offset": f.offset, "seq": f.seq, "what": f.what});
            found.iter().map(facts).collect::<Vec<_>>()
        };
        say(json!({"schema_version": 1, "intact": report.is_intact(), "records": report.records,
            "first": report.first, "head": report.head, "segments": report.segments, "bytes": report.bytes,
            "oldest": report.oldest.map(|time| time.to_string()), "removed": report.removed,
            "problems": as_json(&report.problems), "notices": as_json(&report.notices)}))?;
    } else {
        for notice in &report.notices {
            tell(paint(NOTE, format!("note: {}", visible(&notice.to_string()))));
        }
        for found in &report.problems {
            say(paint(BAD, format!("broken: {}", visible(&found.to_string()))))?;
        }
        let files = if report.segments == 1 { "file" } else { "files" };
        let summary = format!(
            "{} records, {} to {}, in {} {files}",
            report.records, report.first, report.head, report.segments
        );
        let reach = reach(&report);
        match report.is_intact() {
            true => say(paint(GOOD, format!("intact: {summary}")))?,
            false => say(paint(BAD, format!("not intact: {summary}")))?,
        }
        say(reach)?;
    }
    Ok(if report.is_intact() { Exit::Done } else { Exit::Failed })
}

/// Age of the oldest record, and the number of records removed before it. An intact remainder must not hide
/// an erasure.
fn reach(report: &VerifyReport) -> String {
    let oldest = report
        .oldest
        .map_or_else(|| "it has no record".to_owned(), |time| format!("it reaches back to {time}"));
    let removed = report.removed;
    if removed.is_none() && report.first <= 1 {
        return format!("{oldest}; nothing was removed");
    }
    let line = format!(
        "{oldest}; {} records in {} files ({} bytes) before that were removed",
        report.first.saturating_sub(1),
        removed.segments,
        removed.bytes
    );
    match removed.under_pressure {
        0 => line + ", all older than the minimum age",
        young => {
            let last =
                removed.last_under_pressure.map(|time| format!(", last at {time}")).unwrap_or_default();
            let young = format!(
                "\n{young} of them under pressure: they held records younger than ledger.keep_at_least_days, and \
                 ledger.max_bytes was exceeded{last}"
            );
            line + &paint(BAD, young)
        }
    }
}

/// Returns a function that converts a read error of this ledger folder into a problem.
pub(crate) fn unreadable(folder: &Path) -> impl Fn(LedgerError) -> Problem {
    move |error| match std::fs::symlink_metadata(folder) {
        Err(absent) if absent.kind() == ErrorKind::NotFound => {
            let problem = Problem::failed(format!("there is no ledger in {}", folder.display()));
            problem.hint("the first call creates one")
        }
        _ => Problem::failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_of_a_call_includes_its_target() {
        let check = |kind: &str, facts: Value, expect: &str| {
            assert_eq!(about(&json!({"kind": kind, "tool": "t", "facts": facts})), expect, "{kind}");
        };
        check("decision", json!({"paths": [{"typed": "a", "canonical": "/w/a"}]}), "t /w/a");
        check("refusal", json!({"paths": [{"typed": "~/a", "kind": "unopened"}]}), "t ~/a");
        check("decision", json!({"paths": [{"canonical": "/w"}], "commands": [["git", "log"]]}), "t git log");
        check("decision", json!({"paths": [], "hosts": ["example.org:443"]}), "t example.org:443");
        check("refusal", json!({}), "t");
        check("outcome", json!({"paths": [{"canonical": "/w/a"}]}), "t");
        let long = format!("/{}/b", "a".repeat(LONGEST_TARGET));
        let cut = format!("t …{}/b", "a".repeat(LONGEST_TARGET - 2));
        check("decision", json!({"paths": [{"canonical": long}]}), &cut);
    }
}
