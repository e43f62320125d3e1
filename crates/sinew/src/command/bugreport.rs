//! `sinew bugreport`: writes an archive for a bug report. Every text in it is redacted: secrets are masked, and the home folder
//! is `~`. It contains neither arguments nor contents of calls.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use ledger::LedgerReader;
use serde_json::{Value, json};
use telemetry::log_reader::{LogLineFilter, LogReader};

use crate::cli::BugreportArgs;
use crate::command::doctor;
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::table::{Column, Table};
use crate::terminal::{LiveLine, print_message, print_result_line};
use crate::units;

const DEFAULT_NAME: &str = "sinew-bugreport.tar.gz";
/// Lines of the log, and records of the ledger.
const MAX_LINES: usize = 500;
/// Size of a header and of a block of a tar archive.
const BLOCK: usize = 512;

pub(crate) fn run(args: &BugreportArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let line = LiveLine::start("collecting");
    let files = collect(&context);
    drop(line);
    let path = args.output.clone().unwrap_or_else(|| PathBuf::from(DEFAULT_NAME));
    write(&path, &files).map_err(|error| {
        CommandError::usage(format!("{} cannot be written: {error}", path.display()))
            .with_hint("choose a new file with `--output FILE`")
    })?;
    let mut table = Table::default();
    table.set_header([Column::whole("FILE"), Column::whole("SIZE"), "CONTENT".into()]);
    for file in &files {
        table.add_row([
            file.name.to_owned(),
            units::byte_count(file.text.len() as u64),
            file.about.to_owned(),
        ]);
    }
    render::print_table(&table)?;
    print_result_line(format!("wrote {}", path.display()))?;
    print_message("read it before you send it: secrets are masked, names of files and tools are not");
    Ok(ExitKind::Done)
}

/// File of the archive.
struct ReportFile {
    name: &'static str,
    about: &'static str,
    text: String,
}

fn collect(context: &CommandContext) -> Vec<ReportFile> {
    let home = std::env::var("HOME").unwrap_or_default();
    let redactor = telemetry::redact::shared();
    let redacted = |text: String| {
        let masked = redactor.redact_text(&text).into_owned();
        if home.len() > 1 { masked.replace(&home, "~") } else { masked }
    };
    let json_text = |found: Result<Value, CommandError>| match found {
        Ok(value) => format!("{value:#}\n"),
        Err(problem) => format!("{:#}\n", json!({"error": problem.message})),
    };
    let versions = json!({"version": env!("CARGO_PKG_VERSION"), "system": std::env::consts::OS,
        "architecture": std::env::consts::ARCH});
    let file = |name, about, text| ReportFile { name, about, text: redacted(text) };
    vec![
        file("version.json", "version and system", format!("{versions:#}\n")),
        file("doctor.json", "every check of `sinew doctor`", json_text(doctor::report(context))),
        file(
            "status.json",
            "`sinew status`",
            json_text(context.request_running_daemon("control/status", json!({}))),
        ),
        file("ledger.ndjson", "kind, tool and outcome of the last records", ledger_text(context)),
        file("log.ndjson", "the end of the daemon's log", log_text(context)),
    ]
}

/// Returns the last records without what a call was about.
fn ledger_text(context: &CommandContext) -> String {
    let records = LedgerReader::new(&compose::ledger_dir(context)).tail(MAX_LINES).unwrap_or_default();
    let line = |record: &ledger::LedgerRecord| {
        let body = record.json();
        let fields = ["kind", "tool", "outcome", "code", "event", "mode", "latency_us", "call_id"];
        let kept = fields.iter().filter_map(|field| Some(((*field).to_owned(), body.get(*field)?.clone())));
        let mut kept: serde_json::Map<String, Value> = kept.collect();
        kept.insert("seq".to_owned(), json!(record.seq));
        kept.insert("time".to_owned(), json!(record.time.to_string()));
        format!("{}\n", Value::Object(kept))
    };
    records.iter().map(line).collect()
}

fn log_text(context: &CommandContext) -> String {
    let Ok(reader) = LogReader::open(context.home().log_dir(), LogLineFilter::default()) else {
        return String::new();
    };
    let lines: Vec<String> = reader.flatten().map(|line| format!("{}\n", line.as_json())).collect();
    lines.get(lines.len().saturating_sub(MAX_LINES)..).unwrap_or_default().concat()
}

/// Writes the files as a compressed tar archive, which only this user may read.
fn write(path: &Path, files: &[ReportFile]) -> std::io::Result<()> {
    let target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut archive = GzEncoder::new(target, Compression::default());
    for file in files {
        archive.write_all(&tar_header(file.name, file.text.len()))?;
        archive.write_all(file.text.as_bytes())?;
        archive.write_all(&vec![0; file.text.len().next_multiple_of(BLOCK) - file.text.len()])?;
    }
    archive.write_all(&[0; 2 * BLOCK])?;
    archive.finish()?.sync_all()
}

/// Returns the header of a file in the ustar format.
fn tar_header(name: &str, size: usize) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    let mut put = |at: usize, text: &str| {
        if let Some(field) = header.get_mut(at..at + text.len()) {
            field.copy_from_slice(text.as_bytes());
        }
    };
    put(0, &format!("sinew-bugreport/{name}"));
    put(100, "0000600");
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{size:011o}"));
    put(136, "00000000000");
    // The sum is taken with spaces in its own place.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar");
    put(263, "00");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    let sum = format!("{sum:06o}\0 ");
    if let Some(field) = header.get_mut(148..156) {
        field.copy_from_slice(sum.as_bytes());
    }
    header
}
