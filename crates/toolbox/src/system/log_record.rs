//! One shape for what was logged, wherever it was, and one shape for what is asked of a log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use jiff::Timestamp;

/// One entry of a log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(super) struct LogRecord {
    /// When (RFC 3339, UTC); null where a line says none that is understood.
    pub(super) time: Option<String>,
    /// How grave; null where the log does not say.
    pub(super) level: Option<Level>,
    /// Who logged it.
    pub(super) process: Option<String>,
    /// Its number.
    pub(super) pid: Option<i64>,
    /// The systemd unit, or the subsystem of the unified log.
    pub(super) unit: Option<String>,
    /// What it says; control characters are shown as JSON escapes.
    pub(super) message: String,
}

/// How grave an entry is, from the gravest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    /// The system cannot go on, or somebody must act at once.
    Critical,
    /// Something failed.
    Error,
    /// Something may.
    Warning,
    /// Worth knowing.
    Info,
    /// For whoever writes the program.
    Debug,
}

/// What is asked of a log. Every filter is a value, never a pattern.
#[derive(Clone, Debug)]
pub(super) struct LogQuery {
    pub(super) since: Timestamp,
    pub(super) minutes: u32,
    pub(super) level: Option<Level>,
    pub(super) process: Option<String>,
    pub(super) unit: Option<String>,
    pub(super) contains: Option<String>,
    pub(super) most: usize,
}

/// What a log answered.
#[derive(Debug, Default)]
pub(super) struct Logs {
    /// The newest that fit, oldest first.
    pub(super) records: Vec<LogRecord>,
    /// How many were found.
    pub(super) found: u64,
    /// Which bound ended the search, if one did.
    pub(super) cut: Option<&'static str>,
    /// What the system withheld, and how to be told.
    pub(super) note: Option<String>,
}

impl LogQuery {
    /// Whether an entry is asked for, as far as the log itself was not asked.
    pub(super) fn takes(&self, record: &LogRecord) -> bool {
        let holds = |wanted: &Option<String>, found: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| found.as_ref() == Some(wanted))
        };
        let grave = self.level.is_none_or(|least| record.level.is_some_and(|level| level <= least));
        let said = self
            .contains
            .as_ref()
            .is_none_or(|text| record.message.to_lowercase().contains(&text.to_lowercase()));
        let recent = record.time.as_ref().and_then(|time| time.parse::<Timestamp>().ok());
        holds(&self.process, &record.process) && grave && said && recent.is_none_or(|time| time >= self.since)
    }

    /// The newest of those that are asked for.
    pub(super) fn newest(&self, records: impl Iterator<Item = LogRecord>) -> Logs {
        let mut found = 0;
        let mut kept = std::collections::VecDeque::new();
        for record in records.filter(|record| self.takes(record)) {
            found += 1;
            kept.push_back(record);
            if kept.len() > self.most {
                kept.pop_front();
            }
        }
        Logs { records: kept.into(), found, cut: None, note: None }
    }
}

/// A moment in microseconds, as it is shown.
pub(super) fn moment(micros: i64) -> Option<String> {
    let time = Timestamp::from_microsecond(micros).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())
}

#[cfg(test)]
pub(super) fn query(most: usize) -> LogQuery {
    LogQuery {
        since: Timestamp::UNIX_EPOCH,
        minutes: 15,
        level: None,
        process: None,
        unit: None,
        contains: None,
        most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_that_are_asked_for_are_kept() {
        let record = |message: &str, level| LogRecord {
            message: message.to_owned(),
            level: Some(level),
            ..LogRecord::default()
        };
        let all = || {
            ["a1", "b", "a2", "A3"].into_iter().zip([
                Level::Info,
                Level::Error,
                Level::Error,
                Level::Critical,
            ])
        };
        let records = || all().map(|(message, level)| record(message, level));
        let told = |query: &LogQuery| {
            let logs = query.newest(records());
            let said: Vec<String> = logs.records.into_iter().map(|one| one.message).collect();
            (said.join(" "), logs.found)
        };
        assert_eq!(told(&query(2)), ("a2 A3".to_owned(), 4));
        assert_eq!(told(&LogQuery { contains: Some("A".into()), ..query(9) }).0, "a1 a2 A3");
        assert_eq!(told(&LogQuery { level: Some(Level::Error), ..query(9) }).0, "b a2 A3");
        assert_eq!(told(&LogQuery { process: Some("x".into()), ..query(9) }).0, "");
        assert_eq!(told(&LogQuery { contains: Some(".*".into()), ..query(9) }).0, "", "no pattern");
    }
}
