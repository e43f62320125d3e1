//! Log reader: the rotated files in order, filtered, and followed across rotation.
//!
//! It reads the files that the writer of this crate wrote; a line that is not a record (a torn one) is
//! skipped and counted.

mod log_files;

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::Level;

use crate::TelemetryError;
use crate::log::human_line;
use log_files::LogFileChain;

pub use crate::log::ColourMode;

/// Filter for log lines.
#[derive(Clone, Copy, Debug)]
pub struct LogLineFilter {
    /// Earliest time of a line.
    pub since: Option<Timestamp>,
    /// Lowest severity of a line.
    pub level: Level,
}

impl Default for LogLineFilter {
    fn default() -> Self {
        LogLineFilter { since: None, level: Level::TRACE }
    }
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    raw: String,
    record: Map<String, Value>,
}

impl LogLine {
    /// Returns the line as it is in the file, without its newline: one JSON object.
    pub fn as_json(&self) -> &str {
        &self.raw
    }

    /// Returns the members of the object.
    pub fn record(&self) -> &Map<String, Value> {
        &self.record
    }

    /// Formats the line for a person, with control characters escaped and without a newline.
    pub fn format(&self, colour: ColourMode) -> String {
        let mut line = human_line(&self.record, colour);
        line.truncate(line.trim_end_matches('\n').len());
        line
    }

    fn parse(raw: String) -> Option<Self> {
        match serde_json::from_str(&raw) {
            Ok(Value::Object(record)) => Some(LogLine { raw, record }),
            _ => None,
        }
    }

    fn matches(&self, query: &LogLineFilter) -> bool {
        let text = |key: &str| self.record.get(key).and_then(Value::as_str);
        let level = text("level").and_then(|level| Level::from_str(level).ok());
        let recent = match query.since {
            None => true,
            Some(since) => {
                text("time").and_then(|time| time.parse().ok()).is_some_and(|time: Timestamp| time >= since)
            }
        };
        recent && level.is_some_and(|level| level <= query.level)
    }
}

/// Iterator over the log from its oldest line. It yields `None` at the end; a later call yields the lines
/// added since.
#[derive(Debug)]
pub struct LogReader {
    files: LogFileChain,
    query: LogLineFilter,
    skipped: u64,
}

impl LogReader {
    /// Opens the log in `directory`. A log that does not exist yet has no lines.
    pub fn open(directory: &Path, query: LogLineFilter) -> Result<Self, TelemetryError> {
        Ok(LogReader { files: LogFileChain::open(directory)?, query, skipped: 0 })
    }

    /// Number of skipped lines that are not records.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns an endless iterator over current and future lines, which polls the end of the log every
    /// `interval`.
    pub fn follow(mut self, interval: Duration) -> impl Iterator<Item = Result<LogLine, TelemetryError>> {
        std::iter::from_fn(move || {
            loop {
                match self.next() {
                    Some(found) => return Some(found),
                    None => std::thread::sleep(interval),
                }
            }
        })
    }
}

impl Iterator for LogReader {
    type Item = Result<LogLine, TelemetryError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let raw = match self.files.next_line().transpose()? {
                Ok(raw) => raw,
                Err(error) => return Some(Err(error)),
            };
            match raw.and_then(LogLine::parse) {
                Some(line) if line.matches(&self.query) => return Some(Ok(line)),
                Some(_) => {}
                None => self.skipped += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests;
