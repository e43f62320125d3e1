//! Common format of log entries from all sources, and of log queries.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use jiff::Timestamp;

/// One log entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(super) struct LogRecord {
    /// Time (RFC 3339, UTC); null if the line has no known time format.
    pub(super) time: Option<String>,
    /// Severity; null if the log does not state it.
    pub(super) level: Option<LogLevel>,
    /// Name of the process that logged it.
    pub(super) process: Option<String>,
    /// Process id.
    pub(super) pid: Option<i64>,
    /// systemd unit, or subsystem of the unified log.
    pub(super) unit: Option<String>,
    /// Message, with secrets masked and control characters escaped.
    pub(super) message: String,
}

/// Severity of an entry, most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum LogLevel {
    /// The system is unusable, or immediate action is needed.
    Critical,
    /// An operation failed.
    Error,
    /// A problem that may become a failure.
    Warning,
    /// Normal but notable event.
    Info,
    /// Information for debugging.
    Debug,
}

/// Query of a log. Every filter is an exact value, never a pattern.
#[derive(Clone, Debug)]
pub(super) struct LogQuery {
    pub(super) since: Timestamp,
    pub(super) minutes: u32,
    pub(super) level: Option<LogLevel>,
    pub(super) process: Option<String>,
    pub(super) unit: Option<String>,
    pub(super) contains: Option<String>,
    pub(super) max_entries: usize,
}

/// Result of a log query.
#[derive(Debug, Default)]
pub(super) struct LogResult {
    /// Newest records that fit, oldest first.
    pub(super) records: Vec<LogRecord>,
    /// Number of matching records.
    pub(super) found: u64,
    /// Limit that ended the search, if one did.
    pub(super) exceeded_limit: Option<&'static str>,
    /// Explanation of what the system withheld and how to get access.
    pub(super) note: Option<String>,
}

impl LogQuery {
    /// Returns true if a record matches the query. The unit is filtered by the log itself.
    pub(super) fn matches(&self, record: &LogRecord) -> bool {
        let holds = |wanted: &Option<String>, found: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| found.as_ref() == Some(wanted))
        };
        let grave = self.level.is_none_or(|least| record.level.is_some_and(|level| level <= least));
        let contains_text = self
            .contains
            .as_ref()
            .is_none_or(|text| record.message.to_lowercase().contains(&text.to_lowercase()));
        let recent = record.time.as_ref().and_then(|time| time.parse::<Timestamp>().ok());
        holds(&self.process, &record.process)
            && grave
            && contains_text
            && recent.is_none_or(|time| time >= self.since)
    }

    /// Returns the newest records that match the query.
    pub(super) fn newest_matching(&self, records: impl Iterator<Item = LogRecord>) -> LogResult {
        let mut found = 0;
        let mut newest = std::collections::VecDeque::new();
        for record in records.filter(|record| self.matches(record)) {
            found += 1;
            newest.push_back(record);
            if newest.len() > self.max_entries {
                newest.pop_front();
            }
        }
        LogResult { records: newest.into(), found, exceeded_limit: None, note: None }
    }
}

/// Formats a time in microseconds since the epoch as RFC 3339.
pub(super) fn format_micros(micros: i64) -> Option<String> {
    let time = Timestamp::from_microsecond(micros).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())
}

#[cfg(test)]
pub(super) fn test_query(max: usize) -> LogQuery {
    LogQuery {
        since: Timestamp::UNIX_EPOCH,
        minutes: 15,
        level: None,
        process: None,
        unit: None,
        contains: None,
        max_entries: max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_matching_records_are_kept() {
        let record = |message: &str, level| LogRecord {
            message: message.to_owned(),
            level: Some(level),
            ..LogRecord::default()
        };
        let all = || {
            ["a1", "b", "a2", "A3"].into_iter().zip([
                LogLevel::Info,
                LogLevel::Error,
                LogLevel::Error,
                LogLevel::Critical,
            ])
        };
        let records = || all().map(|(message, level)| record(message, level));
        let result = |query: &LogQuery| {
            let logs = query.newest_matching(records());
            let messages: Vec<String> = logs.records.into_iter().map(|one| one.message).collect();
            (messages.join(" "), logs.found)
        };
        assert_eq!(result(&test_query(2)), ("a2 A3".to_owned(), 4));
        assert_eq!(result(&LogQuery { contains: Some("A".into()), ..test_query(9) }).0, "a1 a2 A3");
        assert_eq!(result(&LogQuery { level: Some(LogLevel::Error), ..test_query(9) }).0, "b a2 A3");
        assert_eq!(result(&LogQuery { process: Some("x".into()), ..test_query(9) }).0, "");
        assert_eq!(result(&LogQuery { contains: Some(".*".into()), ..test_query(9) }).0, "", "not a pattern");
    }
}
