//! Index of the ledger: a SQLite file with the positions of records, so that queries over a million records
//! are fast.
//!
//! The index is derived data. A background thread fills it from the segments when the ledger is idle or a query wants
//! it, and rebuilds it whenever it does not match them; no call waits for it. Every result is checked against the line
//! it points to, but missing results are not detected. No decision depends on it.

pub(crate) mod fill;
pub(crate) mod search;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::{LedgerError, hash::SealHash, line, lines::SegmentLines, private_file, segment::Segment};

/// Schema version. An index with another version is rebuilt.
const SCHEMA_VERSION: i64 = 1;

/// Records per row of `block`, which maps a time to a range of sequence numbers even when the clock jumped.
const RECORDS_PER_BLOCK: u64 = 4096;

/// SQL schema. A `sort` is a distinct combination of kind, tool, outcome, mode and caller. There are few
/// sorts and many records, so a query selects sorts first and then only their records; combinations that
/// never occur cost nothing.
const SCHEMA: &str = "
    CREATE TABLE sort (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL, tool TEXT NOT NULL, outcome TEXT NOT NULL, mode TEXT NOT NULL, caller TEXT NOT NULL,
        UNIQUE (kind, tool, outcome, mode, caller)
    );
    CREATE TABLE session (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
    CREATE TABLE record (
        seq INTEGER PRIMARY KEY,
        time INTEGER NOT NULL, sort INTEGER NOT NULL, session INTEGER,
        segment INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL
    );
    CREATE INDEX record_sort ON record (sort);
    CREATE INDEX record_session ON record (session) WHERE session IS NOT NULL;
    CREATE TABLE by_call (id BLOB NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (id, seq)) WITHOUT ROWID;
    CREATE TABLE by_trace (id BLOB NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (id, seq)) WITHOUT ROWID;
    CREATE TABLE by_key (id BLOB NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (id, seq)) WITHOUT ROWID;
    CREATE TABLE block (first INTEGER PRIMARY KEY, earliest INTEGER NOT NULL, latest INTEGER NOT NULL);
    CREATE TABLE reached (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        seq INTEGER NOT NULL, segment INTEGER NOT NULL, offset INTEGER NOT NULL, line_end INTEGER NOT NULL,
        hash TEXT NOT NULL
    );
";

pub(crate) fn path(folder: &Path) -> PathBuf {
    folder.join("index.sqlite")
}

/// Position of the last indexed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexPosition {
    pub(crate) seq: u64,
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) end: u64,
    pub(crate) hash: SealHash,
}

/// Opens the index for writing and creates the tables in a new file.
fn open_to_fill(folder: &Path) -> Result<Connection, LedgerError> {
    let path = path(folder);
    // SQLite gives its side files the mode of the main file, so the main file is created with mode 0600
    // first.
    private_file::open_to_overwrite(&path).map_err(LedgerError::io("create", &path))?;
    let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // A damaged index is rebuilt, so it never has to be synced.
    connection.pragma_update(None, "synchronous", "off")?;
    connection.pragma_update(None, "cache_size", -64_000)?;
    if version(&connection)? == 0 {
        connection.execute_batch(SCHEMA)?;
        connection.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    }
    Ok(connection)
}

/// Opens the index for reading, if there is one of this version.
fn open_to_read(folder: &Path) -> Option<Connection> {
    let path = path(folder);
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    connection.busy_timeout(Duration::from_secs(1)).ok()?;
    (version(&connection).ok()? == SCHEMA_VERSION).then_some(connection)
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn read_position(connection: &Connection) -> rusqlite::Result<Option<IndexPosition>> {
    let mut statement = connection
        .prepare_cached("SELECT seq, segment, offset, line_end, hash FROM reached WHERE one = 1")?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(IndexPosition {
            seq: to_unsigned(row.get(0)?),
            segment: to_unsigned(row.get(1)?),
            offset: to_unsigned(row.get(2)?),
            end: to_unsigned(row.get(3)?),
            hash: SealHash::parse(row.get::<_, String>(4)?.as_bytes()).unwrap_or(SealHash::NONE),
        })
    };
    statement.query_row([], read).optional()
}

/// Returns true if the last indexed line is still at its position.
fn matches_segment(folder: &Path, reached: &IndexPosition) -> bool {
    let segment = Segment::new(folder, reached.segment);
    let Ok(mut lines) = SegmentLines::open_at(&segment, reached.offset) else { return false };
    let Ok(Some(line)) = lines.next_line() else { return false };
    line.without_newline().and_then(line::parse_line).is_some_and(|parts| parts.hash == reached.hash)
}

/// SQLite has signed integers only. Reaching `i64::MAX` records would take centuries.
fn to_signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn to_unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// Packs an id of 32 hexadecimal digits, with or without hyphens, into 16 bytes. Returns other ids unchanged.
fn pack_id(id: &str) -> Vec<u8> {
    let (mut bytes, mut digits) = ([0_u8; 16], 0);
    for byte in id.bytes().filter(|byte| *byte != b'-') {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return id.as_bytes().to_vec(),
        };
        let Some(pair) = bytes.get_mut(digits / 2) else { return id.as_bytes().to_vec() };
        *pair = *pair << 4 | digit;
        digits += 1;
    }
    if digits == 32 { bytes.to_vec() } else { id.as_bytes().to_vec() }
}

/// Nice value of the thread: a thread of default priority gets about ten times as much processor time.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Lowers the priority of the calling thread: no call waits for the index, because queries read the segments for
/// records that are not indexed yet. On failure the thread keeps its priority.
#[cfg(target_os = "linux")]
fn step_back() {
    // On Linux, this affects only the calling thread. A daemon that already runs at a lower priority keeps
    // it.
    let now = rustix::process::getpriority_process(None);
    let stepped = now.and_then(|now| rustix::process::setpriority_process(None, now.max(NICENESS)));
    if let Err(error) = stepped {
        tracing::debug!(%error, "cannot lower the priority of the index thread");
    }
}

/// Other systems can only lower the priority of the whole process, so this does nothing.
#[cfg(not(target_os = "linux"))]
fn step_back() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn only_the_calling_thread_lowers_its_priority() {
        let niceness = || rustix::process::getpriority_process(None).unwrap();
        let before = niceness();
        let stepped = std::thread::spawn(move || {
            step_back();
            niceness()
        });
        assert_eq!(stepped.join().unwrap(), before.max(NICENESS));
        assert_eq!(niceness(), before);
    }

    #[test]
    fn ids_are_packed_one_to_one() {
        assert_eq!(pack_id("00ff00ff-00ff-00ff-00ff-00ff00ff00ff"), [0, 255].repeat(8));
        assert_eq!(pack_id(&"0a".repeat(16)), [10].repeat(16));
        for odd in ["", "-", "0", &"g".repeat(32), &"0".repeat(33), "é"] {
            assert_eq!(pack_id(odd), odd.as_bytes());
        }
    }
}
