//! `fleet ledger`: verifies and reads the mirrored ledgers. The seals of records are keyed, and only their host can
//! verify them; the batches are signed, which every reader of the roster can verify.

use std::collections::VecDeque;
use std::io::Read;

use flate2::read::GzDecoder;
use fleet::link::{FleetConnection, StoredMessage};
use fleet::mirroring::{Alarm, Auditor, BatchHeader};
use fleet::servers::{HostEntry, Role};
use fleet::{Purpose, Signed, SubjectToken, Subjects, TrustedKeys};
use serde_json::{Value, json};

use super::admin::FleetAdmin;
use super::failed;
use crate::cli::{FleetLedgerArgs, FleetLedgerCommand};
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::fleet::now_ms;
use crate::render;
use crate::terminal::{escape_invisible_line, print_result_line, print_warning};

/// Longest batch after decompression; a host sends at most 256 KiB, or one record.
const MAX_BATCH_BYTES: u64 = 32 * 1024 * 1024;

/// Result for one host.
struct HostReport {
    host: SubjectToken,
    batches: u64,
    records: u64,
    problems: Vec<String>,
}

pub(super) fn run(context: &CommandContext, command: FleetLedgerCommand) -> Result<ExitKind, CommandError> {
    match command {
        FleetLedgerCommand::Verify(from) => {
            let reports = read(context, &from, |_, _| {})?;
            report(&from, &reports)
        }
        FleetLedgerCommand::Query { from, kind, tool } => {
            let matches = |line: &Value| {
                let is = |key: &str, wanted: &Option<String>| {
                    wanted.as_ref().is_none_or(|text| line[key] == **text)
                };
                is("kind", &kind)
                    && (tool.is_none() || is("tool", &tool) || is_tool_of_call(line, tool.as_deref()))
            };
            let mut found = Vec::new();
            let reports = read(context, &from, |host, line| {
                if serde_json::from_str::<Value>(line).is_ok_and(|value| matches(&value)) {
                    found.push((host.clone(), line.to_owned()));
                }
            })?;
            print_lines(&found)?;
            Ok(exit_of(&reports))
        }
        FleetLedgerCommand::Tail { from, lines } => {
            let mut last: std::collections::BTreeMap<SubjectToken, VecDeque<String>> = Default::default();
            let reports = read(context, &from, |host, line| {
                let kept = last.entry(host.clone()).or_default();
                kept.push_back(line.to_owned());
                if kept.len() > lines {
                    kept.pop_front();
                }
            })?;
            let flat: Vec<_> = last
                .into_iter()
                .flat_map(|(host, kept)| kept.into_iter().map(move |line| (host.clone(), line)))
                .collect();
            print_lines(&flat)?;
            Ok(exit_of(&reports))
        }
    }
}

fn is_tool_of_call(line: &Value, tool: Option<&str>) -> bool {
    tool.is_some() && line.pointer("/call/tool").and_then(Value::as_str) == tool
}

/// Prints records as they are, after the name of their host.
fn print_lines(lines: &[(SubjectToken, String)]) -> Result<(), CommandError> {
    lines
        .iter()
        .try_for_each(|(host, line)| print_result_line(format!("{host}\t{}", escape_invisible_line(line))))
}

fn exit_of(reports: &[HostReport]) -> ExitKind {
    for report in reports {
        for problem in &report.problems {
            print_warning(format!("{}: {}", report.host, escape_invisible_line(problem)));
        }
    }
    if reports.iter().all(|report| report.problems.is_empty()) { ExitKind::Done } else { ExitKind::Failed }
}

fn report(from: &FleetLedgerArgs, reports: &[HostReport]) -> Result<ExitKind, CommandError> {
    if from.output.json {
        let hosts: Vec<Value> = reports
            .iter()
            .map(|report| {
                json!({"host": report.host, "batches": report.batches, "records": report.records,
                    "problems": report.problems})
            })
            .collect();
        render::print_json(json!({"hosts": hosts}))?;
        let is_intact = reports.iter().all(|report| report.problems.is_empty());
        return Ok(if is_intact { ExitKind::Done } else { ExitKind::Failed });
    }
    for report in reports {
        let (records, batches) = (report.records, report.batches);
        let state = if report.problems.is_empty() { "intact" } else { "NOT INTACT" };
        print_result_line(format!("{}: {records} records in {batches} batches, {state}", report.host))?;
    }
    Ok(exit_of(reports))
}

/// Reads the mirrored ledgers, verifies every batch, and passes the records on.
fn read(
    context: &CommandContext,
    from: &FleetLedgerArgs,
    mut each: impl FnMut(&SubjectToken, &str),
) -> Result<Vec<HostReport>, CommandError> {
    let admin = FleetAdmin::open(&from.file.path)?;
    let wanted: Option<SubjectToken> = from.host.as_deref().map(str::parse).transpose().map_err(failed)?;
    if let Some(host) = wanted.as_ref().filter(|host| !admin.roster.hosts.contains_key(*host)) {
        return Err(CommandError::usage(format!("`{host}` is not a host of the fleet")));
    }
    let hosts =
        admin.roster.hosts.iter().filter(|(host, _)| wanted.as_ref().is_none_or(|wanted| wanted == *host));
    super::runtime(context)?.block_on(async {
        let connection = admin.connect(&Role::Auditor).await?;
        let mut reports = Vec::new();
        for (host, entry) in hosts {
            reports.push(read_host(&connection, (host, entry), &mut each).await?);
        }
        Ok(reports)
    })
}

async fn read_host(
    connection: &FleetConnection,
    (host, entry): (&SubjectToken, &HostEntry),
    each: &mut impl FnMut(&SubjectToken, &str),
) -> Result<HostReport, CommandError> {
    let (stream, subject) = (Subjects::ledger_stream(host.partition()), Subjects::ledger(host));
    let mut report = HostReport { host: host.clone(), batches: 0, records: 0, problems: Vec::new() };
    let (mut auditor, mut from) = (Auditor::default(), 1);
    while let Some(message) = connection.next(&stream, &subject, from).await.map_err(failed)? {
        from = message.seq + 1;
        report.batches += 1;
        match open_batch(&message, entry) {
            Ok((header, text)) => {
                let alarms = auditor.batch(&header, now_ms());
                report.problems.extend(alarms.iter().map(Alarm::to_string));
                report.records += header.last.seq.saturating_sub(header.first) + 1;
                text.lines().for_each(|line| each(host, line));
            }
            Err(problem) => report.problems.push(format!("message {}: {problem}", message.seq)),
        }
    }
    Ok(report)
}

/// Verifies one batch: the signature, the hash, and that the records are those that the description names.
fn open_batch(message: &StoredMessage, entry: &HostEntry) -> Result<(BatchHeader, String), String> {
    let description = message.description.as_deref().unwrap_or_default();
    let signed = Signed::parse(Purpose::Batch, description.as_bytes()).map_err(|error| error.to_string())?;
    let trusted = TrustedKeys::one(entry.signing_key);
    let header: BatchHeader = signed.verify(Purpose::Batch, &trusted).map_err(|error| error.to_string())?;
    if Subjects::ledger(&header.host) != message.subject {
        return Err(format!("a batch of `{}` is on the subject of another host", header.host));
    }
    let mut text = String::new();
    let mut decoder = GzDecoder::new(message.payload.as_slice()).take(MAX_BATCH_BYTES);
    decoder
        .read_to_string(&mut text)
        .map_err(|error| format!("the records cannot be decompressed: {error}"))?;
    if tool::canonical::sha256_hex(text.as_bytes()) != header.sha256 {
        return Err("the records are not those that the host signed".to_owned());
    }
    let field = |line: Option<&str>, key: &str| {
        line.and_then(|line| serde_json::from_str::<Value>(line).ok())
            .and_then(|record| record.get(key).cloned())
            .unwrap_or_default()
    };
    let (first, last) = (text.lines().next(), text.lines().last());
    let is_described = field(first, "seq") == header.first
        && field(first, "prev") == header.previous
        && field(last, "seq") == header.last.seq
        && field(last, "hash") == header.last.hash;
    if !is_described {
        return Err("the records are not those that the description names".to_owned());
    }
    Ok((header, text))
}
