//! `sinew ledger`: what happened, read from the ledger's own files, whether or not a daemon runs.

use std::fs::OpenOptions;
use std::io::{BufWriter, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use comfy_table::Table;
use ledger::{ExportFormat, Filter, Finding, LedgerError, Reader, Record, verify};
use serde_json::{Value, json};
use tool::{CallId, shorten};

use crate::cli::{ExportForm, JsonArgs, LedgerCommand};
use crate::compose;
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::terminal::{BAD, GOOD, NOTE, linger, paint, say, tell, unwritten, visible, visible_line};

/// How often a followed ledger is looked at.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// More of what a call touches does not fit into a line.
const LONGEST_TARGET: usize = 15;

pub(crate) fn run(command: LedgerCommand) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let book = Book::of(&setting);
    match command {
        LedgerCommand::Tail { count, follow, output } => {
            let last = show(&book.reader.tail(count).map_err(unreadable(&book.folder))?, output)?;
            if follow { book.go_on(last, output) } else { Ok(Exit::Done) }
        }
        LedgerCommand::Query { filter, limit, output } => {
            show(&book.find(&Filter { limit: Some(limit), ..filter.into() })?, output)?;
            Ok(Exit::Done)
        }
        LedgerCommand::Show { id, output } => book.show_one(&id, output),
        LedgerCommand::Verify(output) => check(&setting, output),
        LedgerCommand::Export { filter, format, output } => {
            book.export(&filter.into(), format, output.as_deref())
        }
    }
}

/// The ledger of this home, as a reader finds it.
struct Book {
    folder: PathBuf,
    reader: Reader,
}

impl Book {
    fn of(setting: &Setting) -> Book {
        let folder = compose::ledger_folder(setting);
        Book { reader: Reader::new(&folder), folder }
    }

    /// Matching records, oldest first.
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
            return Err(Problem::new(Exit::Failed, format!("no record of `{id}`")).hint("sinew ledger tail"));
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

/// Shows records and returns the number of the last.
fn show(records: &[Record], output: JsonArgs) -> Result<Option<u64>, Problem> {
    if output.json {
        records.iter().try_for_each(|record| say(record.line()))?;
    } else if !records.is_empty() {
        say(table(records))?;
    }
    Ok(records.last().map(|record| record.seq))
}

/// One line a record: what it is about, whatever its kind.
pub(crate) fn table(records: &[Record]) -> Table {
    let mut table = render::plain_table();
    table.set_header(["SEQ", "TIME", "KIND", "WHAT", "END", "CALL"]);
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
    record.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// What a record is about, in a word or two.
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

/// What a call was about to touch: its command, its host, or the first path it named.
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

/// The end of a path tells more than its beginning.
fn end_of(path: &str) -> String {
    let from = path.chars().count().saturating_sub(LONGEST_TARGET);
    match from {
        0 => path.to_owned(),
        from => format!("…{}", path.chars().skip(from).collect::<String>()),
    }
}

/// How it ended or what became of it, in the word its kind has for that.
pub(crate) fn end(record: &Value) -> String {
    visible_line(&["outcome", "code", "event", "result"].map(|key| text(record, key)).concat())
}

fn check(setting: &Setting, output: JsonArgs) -> Result<Exit, Problem> {
    let folder = compose::ledger_folder(setting);
    let report = verify(&folder, &compose::ledger_parts(setting)).map_err(unreadable(&folder))?;
    if output.json {
        let told = |found: &[Finding]| {
            let facts = |f: &Finding| json!({"file": f.file, "line": f.line, "offset": f.offset, "seq": f.seq, "what": f.what});
            found.iter().map(facts).collect::<Vec<_>>()
        };
        say(json!({"schema_version": 1, "intact": report.is_intact(), "records": report.records,
            "first": report.first, "head": report.head, "segments": report.segments, "bytes": report.bytes,
            "problems": told(&report.problems), "notices": told(&report.notices)}))?;
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
        match report.is_intact() {
            true => say(paint(GOOD, format!("intact: {summary}")))?,
            false => say(paint(BAD, format!("not intact: {summary}")))?,
        }
    }
    Ok(if report.is_intact() { Exit::Done } else { Exit::Failed })
}

/// A ledger that cannot be read, with the place.
pub(crate) fn unreadable(folder: &Path) -> impl Fn(LedgerError) -> Problem {
    move |error| match std::fs::symlink_metadata(folder) {
        Err(absent) if absent.kind() == ErrorKind::NotFound => {
            let problem = Problem::new(Exit::Failed, format!("there is no ledger in {}", folder.display()));
            problem.hint("the first call makes one")
        }
        _ => Problem::new(Exit::Failed, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_with_what_it_would_touch() {
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
