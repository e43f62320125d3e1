//! `read_system_logs`: the newest entries that the system and its services logged, in one format.

use std::time::Duration;

use governance::Permit;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::{Category, Failure, RiskLevel, ToolOutput, ToolSpec};

use super::log_record::{LogLevel, LogQuery, LogRecord, LogResult};
use super::{log_files, platform};
use crate::output_budget;
use crate::tool_registration::{ToolRegistration, TypedOutput};
use crate::untrusted_text::{self, sanitize, sanitize_option};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Log file to read instead of the system log.
    #[serde(default, rename = "file")]
    #[schemars(extend("format" = "path", "x-sinew-access" = "read", "minLength" = 1))]
    _file: Option<String>,
    /// Number of minutes to look back.
    #[serde(default = "usual_window")]
    #[schemars(range(min = 1, max = 1440))]
    minutes: u32,
    /// Maximum number of entries; the newest are returned.
    #[serde(default = "usual_count")]
    #[schemars(range(min = 1, max = 2000))]
    max_entries: usize,
    /// Minimum severity.
    #[serde(default)]
    level: Option<LogLevel>,
    /// Exact name of the process.
    #[serde(default)]
    #[schemars(length(max = 255), extend("pattern" = r"^[A-Za-z0-9_(./][^\x00-\x1f]*$"))]
    process: Option<String>,
    /// Exact name of the systemd unit, or of the subsystem in the unified log.
    #[serde(default)]
    #[schemars(length(max = 255), extend("pattern" = "^[A-Za-z0-9_][A-Za-z0-9_.@:-]*$"))]
    unit: Option<String>,
    /// Text that entries must contain, ignoring case. It is not a pattern.
    #[serde(default)]
    #[schemars(length(max = 1000), extend("pattern" = r"^[^\x00-\x1f]*$"))]
    contains: Option<String>,
}

fn usual_window() -> u32 {
    15
}

fn usual_count() -> usize {
    200
}

#[derive(Serialize, JsonSchema)]
struct SystemLogsOutput {
    /// `system`, or the path of the file.
    source: String,
    /// Start of the searched time window (RFC 3339).
    since: String,
    /// Entries, oldest first.
    entries: Vec<LogRecord>,
    /// Number of matching entries.
    found: u64,
    /// Always true: other programs wrote the text.
    untrusted: bool,
    /// Notice about untrusted content.
    notice: &'static str,
    /// Limit that ended the search early: `time` or `bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_by: Option<&'static str>,
    /// Explanation of what the system withheld and how to get access.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

pub(super) fn tool() -> ToolRegistration {
    let about =
        "Read recent log entries of the system and its services. Filters are exact values, not patterns.";
    let mut spec = ToolSpec::new("read_system_logs", about, Category::READ_ONLY, RiskLevel::Medium);
    spec.annotations = Annotations { read_only_hint: true, ..Annotations::default() };
    spec.example = Some(json!({"minutes": 30, "level": "error"}));
    ToolRegistration::new(spec, read)
}

fn read(permit: &Permit, arguments: &Arguments) -> Result<TypedOutput<SystemLogsOutput>, Failure> {
    let back = Duration::from_secs(u64::from(arguments.minutes) * 60);
    let since = Timestamp::now().checked_sub(back).unwrap_or(Timestamp::UNIX_EPOCH);
    let query = LogQuery {
        since,
        minutes: arguments.minutes,
        level: arguments.level,
        process: arguments.process.clone(),
        unit: arguments.unit.clone(),
        contains: arguments.contains.clone(),
        max_entries: arguments.max_entries,
    };
    let (source, logs) = match permit.path("file") {
        Some(file) => (file.canonical().to_string_lossy().into_owned(), log_files::read(file, &query)?),
        None => ("system".to_owned(), platform::query_logs(&query)?),
    };
    let LogResult { records, found, exceeded_limit, note } = logs;
    let mut records: Vec<LogRecord> = records.into_iter().map(sanitize_record).collect();
    // If not all entries fit, the newest are kept.
    records.reverse();
    let budget = output_budget::content_budget(permit);
    let mut entries = output_budget::take_fitting(records, budget);
    entries.reverse();
    let how = "raise max_entries, or narrow by minutes, level, process, unit or contains";
    let truncated = output_budget::truncation(entries.len(), found, exceeded_limit.is_some(), how);
    let since = since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let (untrusted, notice) = (true, untrusted_text::NOTICE);
    let value = SystemLogsOutput {
        source,
        since,
        entries,
        found,
        untrusted,
        notice,
        stopped_by: exceeded_limit,
        note,
    };
    Ok(TypedOutput { value, metadata: ToolOutput { truncated, ..ToolOutput::default() } })
}

/// Sanitizes the texts of a record. The filters were applied to the original.
fn sanitize_record(record: LogRecord) -> LogRecord {
    LogRecord {
        process: sanitize_option(record.process),
        unit: sanitize_option(record.unit),
        message: sanitize(&record.message),
        ..record
    }
}
