//! `sinew ledger`: what happened, read from the ledger's own files, whether or not a daemon runs.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use comfy_table::Table;
use ledger::{ExportFormat, Filter, Finding, LedgerError, Reader, Record, verify};
use serde_json::{Value, json};
use tool::CallId;

use crate::cli::{ExportForm, JsonArgs, LedgerCommand};
use crate::compose;
use crate::exit::{Exit, Problem};
use crate::render;
use crate::setting::Setting;
use crate::terminal::{BAD, GOOD, NOTE, paint, say, tell, visible, visible_line};

/// How often a followed ledger is looked at.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

pub(crate) fn run(command: LedgerCommand) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let reader = Reader::new(&compose::ledger_folder(&setting));
    match command {
        LedgerCommand::Tail { count, follow, output } => {
            let last = show(&reader.tail(count).map_err(unreadable)?, output);
            if follow { go_on(&reader, last, output) } else { Ok(Exit::Done) }
        }
        LedgerCommand::Query { filter, limit, output } => {
            let mut found =
                reader.query(&Filter { limit: Some(limit), ..filter.into() }).map_err(unreadable)?;
            found.reverse();
            show(&found, output);
            Ok(Exit::Done)
        }
        LedgerCommand::Show { id, output } => show_one(&reader, &id, output),
        LedgerCommand::Verify(output) => check(&setting, output),
        LedgerCommand::Export { filter, format, output } => {
            export(&reader, &filter.into(), format, output.as_deref())
        }
    }
}

/// Shows records and returns the number of the last.
fn show(records: &[Record], output: JsonArgs) -> Option<u64> {
    if output.json {
        records.iter().for_each(|record| say(record.line()));
    } else if !records.is_empty() {
        say(table(records));
    }
    records.last().map(|record| record.seq)
}

fn go_on(reader: &Reader, mut last: Option<u64>, output: JsonArgs) -> Result<Exit, Problem> {
    loop {
        std::thread::sleep(BETWEEN_LOOKS);
        let mut new =
            reader.query(&Filter { after_seq: last.or(Some(0)), ..Filter::default() }).map_err(unreadable)?;
        new.reverse();
        last = show(&new, output).or(last);
    }
}

/// One line a record: what it is about, whatever its kind.
pub(crate) fn table(records: &[Record]) -> Table {
    let mut table = render::plain_table();
    table.set_header(["SEQ", "TIME", "KIND", "WHAT", "END", "CALL"]);
    for record in records {
        let body = record.json();
        let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
        let what = match record.entry.kind() {
            "mode" => format!("{} → {}", text("from"), text("to")),
            "start" => format!("version {}", text("version")),
            "stop" => text("reason").to_owned(),
            _ => text("tool").to_owned(),
        };
        let end = [text("outcome"), text("code")].concat();
        let time = record.time.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string();
        table.add_row([
            &record.seq.to_string(),
            &time,
            record.entry.kind(),
            &visible_line(&what),
            &end,
            text("call_id"),
        ]);
    }
    table
}

fn show_one(reader: &Reader, id: &str, output: JsonArgs) -> Result<Exit, Problem> {
    let found = match (id.parse::<u64>(), id.parse::<CallId>()) {
        (Ok(seq), _) => {
            let only =
                Filter { after_seq: seq.checked_sub(1), before_seq: seq.checked_add(1), ..Filter::default() };
            reader.query(&only)
        }
        (_, Ok(call)) => reader.call(call),
        _ => return Err(Problem::usage(format!("`{id}` is neither a call id nor a number"))),
    };
    let found = found.map_err(unreadable)?;
    if found.is_empty() {
        return Err(Problem::new(Exit::Failed, format!("no record of `{id}`")).hint("sinew ledger tail"));
    }
    for record in &found {
        say(if output.json { record.line().to_owned() } else { visible(&format!("{:#}", record.json())) });
    }
    Ok(Exit::Done)
}

fn check(setting: &Setting, output: JsonArgs) -> Result<Exit, Problem> {
    let report =
        verify(&compose::ledger_folder(setting), &compose::ledger_options(setting)).map_err(unreadable)?;
    if output.json {
        let told = |found: &[Finding]| {
            let facts = |f: &Finding| json!({"file": f.file, "line": f.line, "offset": f.offset, "seq": f.seq, "what": f.what});
            found.iter().map(facts).collect::<Vec<_>>()
        };
        say(json!({"schema_version": 1, "intact": report.is_intact(), "records": report.records,
            "first": report.first, "head": report.head, "segments": report.segments, "bytes": report.bytes,
            "problems": told(&report.problems), "notices": told(&report.notices)}));
    } else {
        report
            .notices
            .iter()
            .for_each(|notice| tell(paint(NOTE, format!("note: {}", visible(&notice.to_string())))));
        report
            .problems
            .iter()
            .for_each(|found| say(paint(BAD, format!("broken: {}", visible(&found.to_string())))));
        let summary = format!(
            "{} records, {} to {}, in {} files",
            report.records, report.first, report.head, report.segments
        );
        match report.is_intact() {
            true => say(paint(GOOD, format!("intact: {summary}"))),
            false => say(paint(BAD, format!("not intact: {summary}"))),
        }
    }
    Ok(if report.is_intact() { Exit::Done } else { Exit::Failed })
}

fn export(reader: &Reader, filter: &Filter, form: ExportForm, file: Option<&Path>) -> Result<Exit, Problem> {
    let form = match form {
        ExportForm::Ndjson => ExportFormat::Ndjson,
        ExportForm::Csv => ExportFormat::Csv,
    };
    match file {
        None => reader.export(filter, form, &mut BufWriter::new(std::io::stdout().lock())),
        Some(path) => {
            let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            let failed = |error| Problem::usage(format!("{} cannot be written: {error}", path.display()));
            let mut out = BufWriter::new(opened.map_err(failed)?);
            let written = reader.export(filter, form, &mut out);
            out.flush().map_err(failed)?;
            written
        }
    }
    .map_err(unreadable)?;
    Ok(Exit::Done)
}

/// A ledger that cannot be read, with the place.
pub(crate) fn unreadable(error: LedgerError) -> Problem {
    match error {
        LedgerError::Io { path, source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            no_ledger(&path)
        }
        LedgerError::KeyMissing { path } => no_ledger(&path),
        other => Problem::new(Exit::Failed, other.to_string()),
    }
}

fn no_ledger(path: &Path) -> Problem {
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
    Problem::new(Exit::Failed, format!("there is no ledger in {}", folder.display()))
        .hint("the first call makes one")
}
