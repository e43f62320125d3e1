//! `read_system_logs`: what the system and its services logged lately, newest that fit, in one shape.

use std::time::Duration;

use governance::Permit;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{Annotations, Category, CutUnit, Failure, Output, RiskLevel, ToolSpec, Truncation};

use super::log_record::{Level, LogQuery, LogRecord, Logs};
use super::{log_files, platform};
use crate::room;
use crate::tool_entry::{Answer, ToolEntry};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Read this log file instead of the system's log.
    #[serde(default, rename = "file")]
    #[schemars(extend("format" = "path", "x-sinew-access" = "read", "minLength" = 1))]
    _file: Option<String>,
    /// How far back to look.
    #[serde(default = "usual_window")]
    #[schemars(range(min = 1, max = 1440))]
    minutes: u32,
    /// At most this many entries, the newest.
    #[serde(default = "usual_count")]
    #[schemars(range(min = 1, max = 2000))]
    max_entries: usize,
    /// Only entries this grave or graver.
    #[serde(default)]
    level: Option<Level>,
    /// Only entries of this process, by its exact name.
    #[serde(default)]
    #[schemars(length(max = 255), extend("pattern" = r"^[A-Za-z0-9_(./][^\x00-\x1f]*$"))]
    process: Option<String>,
    /// Only entries of this systemd unit, or subsystem of the unified log, by its exact name.
    #[serde(default)]
    #[schemars(length(max = 255), extend("pattern" = "^[A-Za-z0-9_][A-Za-z0-9_.@:-]*$"))]
    unit: Option<String>,
    /// Only entries that contain this text, in letters of either case. It is no pattern.
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
struct Answered {
    /// `system`, or the file.
    source: String,
    /// From when on was looked (RFC 3339).
    since: String,
    /// The entries, oldest first.
    entries: Vec<LogRecord>,
    /// How many were found.
    found: u64,
    /// Which bound ended the search before the window did: `time` or `bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_by: Option<&'static str>,
    /// What the system withheld, and how to be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

pub(super) fn tool() -> ToolEntry {
    let about =
        "Read what the system and its services logged lately. Filters are exact values, never patterns.";
    let mut spec = ToolSpec::new("read_system_logs", about, Category::READ_ONLY, RiskLevel::Medium);
    spec.annotations = Annotations { read_only_hint: true, ..Annotations::default() };
    spec.example = Some(json!({"minutes": 30, "level": "error"}));
    ToolEntry::new(spec, read)
}

fn read(permit: &Permit, arguments: &Arguments) -> Result<Answer<Answered>, Failure> {
    let back = Duration::from_secs(u64::from(arguments.minutes) * 60);
    let since = Timestamp::now().checked_sub(back).unwrap_or(Timestamp::UNIX_EPOCH);
    let query = LogQuery {
        since,
        minutes: arguments.minutes,
        level: arguments.level,
        process: arguments.process.clone(),
        unit: arguments.unit.clone(),
        contains: arguments.contains.clone(),
        most: arguments.max_entries,
    };
    let (source, logs) = match permit.path("file") {
        Some(file) => (file.canonical().to_string_lossy().into_owned(), log_files::read(file, &query)?),
        None => ("system".to_owned(), platform::logs(&query)?),
    };
    let Logs { mut records, found, cut, note } = logs;
    // The newest are the ones that stay.
    records.reverse();
    let budget = room::for_content(permit);
    let mut entries = room::first(records, budget);
    entries.reverse();
    let returned = entries.len() as u64;
    let truncated = (returned < found || cut.is_some()).then(|| Truncation {
        unit: CutUnit::Entries,
        total: found,
        returned,
        how_to_continue: "raise max_entries, or narrow by minutes, level, process, unit or contains"
            .to_owned(),
    });
    let since = since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let value = Answered { source, since, entries, found, stopped_by: cut, note };
    Ok(Answer { value, facts: Output { truncated, ..Output::default() } })
}
