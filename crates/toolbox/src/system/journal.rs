//! Reads the systemd journal through `journalctl`.

#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

use std::ffi::OsString;
use std::time::Duration;

use serde_json::Value;
use tool::{Failure, FailureKind};

use super::bounded_command::{self, ExceededLimit};
use super::log_record::{LogLevel, LogQuery, LogRecord, LogResult, format_micros};

const PROGRAM: &str = "/usr/bin/journalctl";
const TIMEOUT: Duration = Duration::from_secs(15);
const MAX_OUTPUT_BYTES: usize = 16 * 1024 * 1024;
/// Largest number of entries searched for a text.
const MAX_SEARCHED_ENTRIES: usize = 20_000;
const FIELDS: &str = "MESSAGE,PRIORITY,_SYSTEMD_UNIT,_PID,_COMM,SYSLOG_IDENTIFIER,__REALTIME_TIMESTAMP";

/// Queries the journal.
pub(super) fn read(query: &LogQuery) -> Result<LogResult, Failure> {
    let output = bounded_command::run(PROGRAM, &journalctl_arguments(query), TIMEOUT, MAX_OUTPUT_BYTES)
        .map_err(|error| unavailable(&format!("`{PROGRAM}` could not be started: {error}")))?;
    let access = JournalAccess::from_messages(&access_messages());
    if output.stdout.is_empty() {
        match access {
            JournalAccess::NoJournal(reason) => return Err(unavailable(&reason)),
            JournalAccess::Denied => return Err(access_denied()),
            JournalAccess::All | JournalAccess::OwnEntries if !output.succeeded => {
                return Err(unavailable(output.stderr.lines().next().unwrap_or("journalctl gave no reason")));
            }
            JournalAccess::All | JournalAccess::OwnEntries => {}
        }
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut logs = query.newest_matching(text.lines().filter_map(parse_entry));
    logs.exceeded_limit = output.exceeded_limit.map(|cut| match cut {
        ExceededLimit::Time => "time",
        ExceededLimit::Bytes => "bytes",
    });
    logs.note = (access == JournalAccess::OwnEntries).then(|| {
        "only entries of this user are shown; members of the groups adm or systemd-journal see all entries".to_owned()
    });
    Ok(logs)
}

/// Extent of the journal that this user can read.
#[derive(Debug, PartialEq, Eq)]
enum JournalAccess {
    All,
    OwnEntries,
    /// There is a journal, and this user can read none of it.
    Denied,
    /// There is no journal; the text is the message of journalctl.
    NoJournal(String),
}

impl JournalAccess {
    /// Derives the access from the messages of journalctl.
    fn from_messages(remarks: &str) -> JournalAccess {
        let line = |phrase: &str| remarks.lines().find(|line| line.contains(phrase));
        match (line("insufficient permissions"), line("No journal files"), line("not seeing messages")) {
            (Some(_), _, _) => JournalAccess::Denied,
            (None, Some(reason), _) => JournalAccess::NoJournal(reason.to_owned()),
            (None, None, Some(_)) => JournalAccess::OwnEntries,
            (None, None, None) => JournalAccess::All,
        }
    }
}

/// Messages of journalctl about access. It prints them for people only, never with JSON output.
fn access_messages() -> String {
    let arguments = ["--no-pager", "--lines=0"].map(OsString::from);
    bounded_command::run(PROGRAM, &arguments, TIMEOUT, MAX_OUTPUT_BYTES)
        .map(|output| output.stderr)
        .unwrap_or_default()
}

/// Builds the arguments. Every value follows its own `=`, so that none can be parsed as an option.
fn journalctl_arguments(query: &LogQuery) -> Vec<OsString> {
    let searched = query.contains.is_some() || query.process.is_some();
    let lines = if searched { MAX_SEARCHED_ENTRIES } else { query.max_entries };
    let mut arguments = vec![
        "--output=json".to_owned(),
        format!("--output-fields={FIELDS}"),
        "--no-pager".to_owned(),
        "--utc".to_owned(),
        format!("--lines={lines}"),
        format!("--since=@{}", query.since.as_second()),
    ];
    arguments.extend(query.unit.as_ref().map(|unit| format!("--unit={unit}")));
    arguments.extend(query.level.map(|level| format!("--priority={}", priority(level))));
    arguments.into_iter().map(OsString::from).collect()
}

fn unavailable(reason: &str) -> Failure {
    Failure::new(FailureKind::NotFound, format!("the journal of this machine cannot be read: {reason}"))
        .with_hint("read a file in /var/log with `file`")
}

fn access_denied() -> Failure {
    Failure::new(FailureKind::Unreadable, "this user has no permission to read the journal")
        .with_hint("join the group adm or systemd-journal, or read a file in /var/log with `file`")
}

/// Highest syslog priority number (least severe) that a level includes.
fn priority(level: LogLevel) -> u8 {
    match level {
        LogLevel::Critical => 2,
        LogLevel::Error => 3,
        LogLevel::Warning => 4,
        LogLevel::Info => 6,
        LogLevel::Debug => 7,
    }
}

fn level(priority: &str) -> Option<LogLevel> {
    Some(match priority {
        "0" | "1" | "2" => LogLevel::Critical,
        "3" => LogLevel::Error,
        "4" => LogLevel::Warning,
        "5" | "6" => LogLevel::Info,
        "7" => LogLevel::Debug,
        _ => return None,
    })
}

/// Parses one line of JSON. A message that is not text is an array of bytes; of a repeated field the first
/// value is used.
fn parse_entry(line: &str) -> Option<LogRecord> {
    let entry: Value = serde_json::from_str(line).ok()?;
    let field = |name: &str| entry.get(name).and_then(field_text);
    Some(LogRecord {
        time: field("__REALTIME_TIMESTAMP").and_then(|micros| format_micros(micros.parse().ok()?)),
        level: field("PRIORITY").and_then(|word| level(&word)),
        process: field("_COMM").or_else(|| field("SYSLOG_IDENTIFIER")),
        pid: field("_PID").and_then(|word| word.parse().ok()),
        unit: field("_SYSTEMD_UNIT"),
        message: field("MESSAGE")?,
    })
}

fn field_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => {
            let bytes: Option<Vec<u8>> =
                list.iter().map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok())).collect();
            match bytes {
                Some(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
                None => list.first().and_then(field_text),
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::log_record::test_query;
    use super::*;

    #[test]
    fn journal_entries_are_parsed() {
        let line = r#"{"__REALTIME_TIMESTAMP":"1794823872000123","PRIORITY":"3","_COMM":"sshd","_PID":"812","_SYSTEMD_UNIT":"ssh.service","MESSAGE":"failed"}"#;
        let expect = LogRecord {
            time: Some("2026-11-16T10:11:12.000123Z".into()),
            level: Some(LogLevel::Error),
            process: Some("sshd".into()),
            pid: Some(812),
            unit: Some("ssh.service".into()),
            message: "failed".into(),
        };
        assert_eq!(parse_entry(line), Some(expect));
        assert_eq!(parse_entry(r#"{"MESSAGE":[104,105,255]}"#).unwrap().message, "hi\u{fffd}");
        assert_eq!(parse_entry(r#"{"MESSAGE":["one","two"]}"#).unwrap().message, "one");
        assert_eq!(parse_entry(r#"{"MESSAGE":null}"#), None);
        assert_eq!(parse_entry("-- No entries --"), None);
    }

    #[test]
    fn journalctl_messages_determine_access() {
        let check =
            |remarks: &str, expect| assert_eq!(JournalAccess::from_messages(remarks), expect, "{remarks}");
        check("", JournalAccess::All);
        check(
            "No journal files were found.\n",
            JournalAccess::NoJournal("No journal files were found.".to_owned()),
        );
        check("No journal files were opened due to insufficient permissions.\n", JournalAccess::Denied);
        let hint = "Hint: You are currently not seeing messages from other users and the system.\n      Users in \
                    groups 'adm', 'systemd-journal' can see all messages.\n      Pass -q to turn off this notice.\n";
        check(hint, JournalAccess::OwnEntries);
        check(
            &format!("{hint}No journal files were opened due to insufficient permissions.\n"),
            JournalAccess::Denied,
        );
    }

    #[test]
    fn no_value_is_parsed_as_an_option() {
        let hostile =
            LogQuery { unit: Some("--output=x".into()), level: Some(LogLevel::Warning), ..test_query(5) };
        let words = journalctl_arguments(&hostile);
        assert!(words.contains(&"--unit=--output=x".into()), "{words:?}");
        assert!(words.contains(&"--priority=4".into()) && words.contains(&"--lines=5".into()));
        assert!(words.iter().all(|word| word.to_string_lossy().starts_with("--")));
    }
}
