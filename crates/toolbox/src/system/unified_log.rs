//! Reads the unified log of macOS through `log show`. The predicate is built from quoted values; a caller
//! cannot write a predicate.

#![cfg_attr(not(target_os = "macos"), allow(dead_code))]

use std::ffi::OsString;
use std::time::Duration;

use serde_json::Value;
use tool::{Failure, FailureKind};

use super::bounded_command::{self, ExceededLimit, ProgramOutput};
use super::log_record::{LogLevel, LogQuery, LogRecord, LogResult};

const PROGRAM: &str = "/usr/bin/log";
const TIMEOUT: Duration = Duration::from_secs(25);
const MAX_OUTPUT_BYTES: usize = 16 * 1024 * 1024;

/// Queries the log. The cost depends on the time window, not on the filters.
pub(super) fn read(query: &LogQuery) -> Result<LogResult, Failure> {
    let output = bounded_command::run(PROGRAM, &log_arguments(query), TIMEOUT, MAX_OUTPUT_BYTES)
        .map_err(|error| Failure::from_io("`/usr/bin/log` could not be started", &error))?;
    to_result(query, &output)
}

/// Converts what the program printed into entries, or into the reason why there are none.
fn to_result(query: &LogQuery, output: &ProgramOutput) -> Result<LogResult, Failure> {
    if ["Must be admin", "Operation not permitted"].iter().any(|phrase| output.stderr.contains(phrase)) {
        let message = "macOS shows its log to administrators only";
        let hint = "run Sinew as a user of the group admin, or read a file in /var/log with `file`";
        return Err(Failure::new(FailureKind::Unreadable, message).with_hint(hint));
    }
    if output.stdout.is_empty() && !output.succeeded && output.exceeded_limit.is_none() {
        let reason = output.stderr.lines().next().unwrap_or("it gave no reason").to_owned();
        return Err(Failure::new(FailureKind::Io, format!("`/usr/bin/log` failed: {reason}")));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut logs = query.newest_matching(text.lines().filter_map(parse_entry));
    logs.exceeded_limit = output.exceeded_limit.map(|cut| match cut {
        ExceededLimit::Time => "time",
        ExceededLimit::Bytes => "bytes",
    });
    Ok(logs)
}

fn log_arguments(query: &LogQuery) -> Vec<OsString> {
    let mut arguments: Vec<String> = ["show", "--style", "ndjson", "--last"].map(ToOwned::to_owned).to_vec();
    arguments.push(format!("{}m", query.minutes));
    if matches!(query.level, Some(LogLevel::Info | LogLevel::Debug)) {
        arguments.push("--info".to_owned());
    }
    if query.level == Some(LogLevel::Debug) {
        arguments.push("--debug".to_owned());
    }
    if let Some(predicate) = predicate(query) {
        arguments.extend(["--predicate".to_owned(), predicate]);
    }
    arguments.into_iter().map(OsString::from).collect()
}

fn predicate(query: &LogQuery) -> Option<String> {
    let mut parts = Vec::new();
    parts.extend(query.process.as_ref().map(|name| format!("process == {}", quote(name))));
    parts.extend(query.unit.as_ref().map(|name| format!("subsystem == {}", quote(name))));
    parts.extend(query.contains.as_ref().map(|text| format!("eventMessage CONTAINS[c] {}", quote(text))));
    parts.extend(match query.level {
        Some(LogLevel::Critical) => Some("messageType == fault".to_owned()),
        Some(LogLevel::Error | LogLevel::Warning) => {
            Some("(messageType == error OR messageType == fault)".to_owned())
        }
        Some(LogLevel::Info | LogLevel::Debug) | None => None,
    });
    (!parts.is_empty()).then(|| parts.join(" AND "))
}

/// Quotes a string for a predicate. Quotes and backslashes are escaped, because they could end the string.
fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Parses one line of JSON. The last line may be a summary, or incomplete.
fn parse_entry(line: &str) -> Option<LogRecord> {
    let entry: Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| entry.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let message = text("eventMessage")?.to_owned();
    let path = text("processImagePath");
    Some(LogRecord {
        time: text("timestamp").and_then(to_utc),
        level: text("messageType").and_then(|word| match word {
            "Fault" => Some(LogLevel::Critical),
            "Error" => Some(LogLevel::Error),
            "Default" | "Info" => Some(LogLevel::Info),
            "Debug" => Some(LogLevel::Debug),
            _ => None,
        }),
        process: path.map(|path| path.rsplit('/').next().unwrap_or(path).to_owned()),
        pid: entry.get("processID").and_then(Value::as_i64),
        unit: text("subsystem").map(str::to_owned),
        message,
    })
}

/// Parses a time such as `2026-11-16 11:11:12.000123+0100`.
fn to_utc(text: &str) -> Option<String> {
    let time = jiff::Timestamp::strptime("%Y-%m-%d %H:%M:%S%.f%z", text).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::super::log_record::test_query;
    use super::*;

    #[test]
    fn unified_log_entries_are_parsed() {
        let line = r#"{"timezoneName":"","messageType":"Error","eventType":"logEvent","subsystem":"com.apple.network","category":"boring","processID":345,"processImagePath":"\/usr\/libexec\/airportd","timestamp":"2026-11-16 11:11:12.000123+0100","eventMessage":"<private> failed"}"#;
        let expect = LogRecord {
            time: Some("2026-11-16T10:11:12.000123Z".into()),
            level: Some(LogLevel::Error),
            process: Some("airportd".into()),
            pid: Some(345),
            unit: Some("com.apple.network".into()),
            message: "<private> failed".into(),
        };
        assert_eq!(parse_entry(line), Some(expect));
        assert_eq!(parse_entry(r#"{"count":3,"finished":1}"#), None, "the summary");
        assert_eq!(parse_entry(r#"{"eventMessage":"cut"#), None);
    }

    #[test]
    fn values_cannot_escape_their_quotes() {
        let hostile = LogQuery {
            contains: Some("x\" OR 1 == 1 OR eventMessage == \"\\".into()),
            process: Some("a".into()),
            level: Some(LogLevel::Error),
            ..test_query(5)
        };
        assert_eq!(
            predicate(&hostile).unwrap(),
            r#"process == "a" AND eventMessage CONTAINS[c] "x\" OR 1 == 1 OR eventMessage == \"\\" AND (messageType == error OR messageType == fault)"#
        );
        let words = log_arguments(&hostile);
        assert_eq!(
            words.len(),
            7,
            "show, style, its value, last, its value, predicate, its value: {words:?}"
        );
    }

    #[test]
    fn each_end_of_log_show_has_its_result() {
        let output = |stdout: &str, stderr: &str, exceeded_limit: Option<ExceededLimit>| ProgramOutput {
            stdout: stdout.into(),
            stderr: stderr.to_owned(),
            succeeded: stderr.is_empty() && exceeded_limit.is_none(),
            exceeded_limit,
        };
        let entry = |text: &str| format!("{{\"messageType\":\"Default\",\"eventMessage\":\"{text}\"}}\n");
        let two = format!("{}{}{{\"count\":2,\"finished\":1}}\n", entry("a"), entry("b"));
        let refused = |stderr: &str| to_result(&test_query(5), &output("", stderr, None)).unwrap_err();
        let admin = refused("log: Could not open local log store: Operation not permitted\n");
        assert_eq!(admin.kind, FailureKind::Unreadable);
        assert_eq!(refused("log: Must be admin to run 'show' command\n").kind, FailureKind::Unreadable);
        let bad = refused("log: Bad predicate (near x)\nusage: log show\n");
        assert_eq!(
            (bad.kind, bad.message.as_str()),
            (FailureKind::Io, "`/usr/bin/log` failed: log: Bad predicate (near x)")
        );
        let found = |output| to_result(&test_query(5), &output).unwrap();
        let all = found(output(&two, "", None));
        assert_eq!((all.found, all.exceeded_limit), (2, None), "the summary is no entry");
        assert_eq!(found(output("", "", None)).found, 0, "a quiet machine is no failure");
        let cut = found(output(&entry("a"), "", Some(ExceededLimit::Time)));
        assert_eq!((cut.found, cut.exceeded_limit), (1, Some("time")));
        let nothing_yet = found(output("", "", Some(ExceededLimit::Time)));
        assert_eq!((nothing_yet.found, nothing_yet.exceeded_limit), (0, Some("time")));
        let torn = format!("{}{{\"eventMessage\":\"cu", entry("a"));
        let cut = found(output(&torn, "", Some(ExceededLimit::Bytes)));
        assert_eq!((cut.found, cut.exceeded_limit), (1, Some("bytes")));
        let newest = to_result(&test_query(1), &output(&two, "", None)).unwrap();
        assert_eq!((newest.records[0].message.as_str(), newest.found), ("b", 2));
    }
}
