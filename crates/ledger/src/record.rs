//! One record as it is read back.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::entry::Entry;

/// A record: its number, its time, what it says, and the line it stands in.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its number; there are no gaps.
    pub seq: u64,
    /// When it was written, by the clock on the wall.
    pub time: Timestamp,
    /// What it says.
    pub entry: Entry,
    line: String,
}

#[derive(Deserialize)]
struct Frame {
    seq: u64,
    time: Timestamp,
    #[serde(flatten)]
    entry: Entry,
}

impl Record {
    /// Reads a line (without its newline). Its seal is not checked here.
    pub(crate) fn parse(line: &[u8]) -> Option<Record> {
        let line = std::str::from_utf8(line).ok()?.to_owned();
        let frame: Frame = serde_json::from_str(&line).ok()?;
        Some(Record { seq: frame.seq, time: frame.time, entry: frame.entry, line })
    }

    /// The line, byte for byte as it is stored, without its newline.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// The line as a value, with everything a later version may have added.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.line).unwrap_or_default()
    }
}

/// The time of a line, read by position.
pub(crate) fn time_of(line: &[u8]) -> Option<Timestamp> {
    const NAME: &[u8] = br#""time":""#;
    let head = line.get(..64.min(line.len()))?;
    let start = head.windows(NAME.len()).position(|window| window == NAME)? + NAME.len();
    std::str::from_utf8(line.get(start..start + 24)?).ok()?.parse().ok()
}
