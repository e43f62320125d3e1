//! The index: a SQLite file that tells where records are, so that a question over a million of them is quick.
//!
//! It is derived: filled behind the writer from the segments, thrown away and rebuilt whenever it does not fit
//! them, never waited for by a call. Every answer is checked against the line it points to; that none is missing is
//! not. One decision hangs on it: whether a call with an idempotency key was run before.

pub(crate) mod fill;
mod niceness;
pub(crate) mod search;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::{LedgerError, hash::Hash, line, lines::Lines, private_file, segment::Segment};

/// Changes whenever the tables do; an index of another version is rebuilt.
const VERSION: i64 = 1;

/// Rows per entry of `block`, which narrows a time down to a range of numbers whatever the clock did.
const BLOCK: u64 = 4096;

/// Records of one kind, tool, outcome, mode and caller are of one sort. There are few sorts and many records, so a
/// question is put to the sorts first and then only to records that match; words that never meet cost nothing.
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

/// The last line the index knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    pub(crate) seq: u64,
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) end: u64,
    pub(crate) hash: Hash,
}

/// Opens for filling; creates the tables in a new file.
fn open_to_fill(folder: &Path) -> Result<Connection, LedgerError> {
    let path = path(folder);
    // SQLite gives its side files the mode of the main one, so that is made by us.
    private_file::open_to_overwrite(&path).map_err(LedgerError::io("create", &path))?;
    let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // Rebuilt when damaged, so never worth waiting for the disk.
    connection.pragma_update(None, "synchronous", "off")?;
    connection.pragma_update(None, "cache_size", -64_000)?;
    if version(&connection)? == 0 {
        connection.execute_batch(SCHEMA)?;
        connection.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(connection)
}

/// Opens for reading, if there is an index of our version.
fn open_to_read(folder: &Path) -> Option<Connection> {
    let path = path(folder);
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    connection.busy_timeout(Duration::from_secs(1)).ok()?;
    (version(&connection).ok()? == VERSION).then_some(connection)
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

fn reached(connection: &Connection) -> rusqlite::Result<Option<Reached>> {
    let mut statement = connection
        .prepare_cached("SELECT seq, segment, offset, line_end, hash FROM reached WHERE one = 1")?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Reached {
            seq: unsigned(row.get(0)?),
            segment: unsigned(row.get(1)?),
            offset: unsigned(row.get(2)?),
            end: unsigned(row.get(3)?),
            hash: Hash::parse(row.get::<_, String>(4)?.as_bytes()).unwrap_or(Hash::NONE),
        })
    };
    statement.query_row([], read).optional()
}

/// Whether the last line the index knows is still where it was.
fn fits(folder: &Path, reached: &Reached) -> bool {
    let segment = Segment::new(folder, reached.segment);
    let Ok(mut lines) = Lines::open_at(&segment, reached.offset) else { return false };
    let Ok(Some(line)) = lines.next_line() else { return false };
    line.whole().and_then(line::parts).is_some_and(|parts| parts.hash == reached.hash)
}

/// SQLite knows signed numbers only. A record number past their end would take centuries.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// An id of 32 hexadecimal digits, with or without hyphens, in half the space; anything else as it is.
fn packed(id: &str) -> Vec<u8> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_packed_one_to_one() {
        assert_eq!(packed("00ff00ff-00ff-00ff-00ff-00ff00ff00ff"), [0, 255].repeat(8));
        assert_eq!(packed(&"0a".repeat(16)), [10].repeat(16));
        for odd in ["", "-", "0", &"g".repeat(32), &"0".repeat(33), "é"] {
            assert_eq!(packed(odd), odd.as_bytes());
        }
    }
}
