//! Filling the index behind the writer, on a thread of its own.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering, mpsc::Receiver},
};

use rusqlite::{Connection, ToSql, params};

use super::{BLOCK, Reached, fits, open_to_fill, packed, reached, signed};
use crate::{
    LedgerError,
    facets::Facets,
    health::State,
    line,
    lines::Lines,
    segment::{self, Segment},
    shared::Shared,
};

/// Rows per transaction: large enough to be quick, small enough to stop soon.
const BATCH: usize = 2000;

/// Fills the index whenever the writer rings, until it hangs up.
pub(crate) fn run(shared: &Arc<Shared>, rings: &Receiver<()>) {
    let mut filler: Option<Filler> = None;
    while rings.recv().is_ok() {
        // What room is left on a full disk is for the record.
        if *shared.state.borrow() != State::Ready {
            continue;
        }
        if filler.is_none() {
            filler = start(&shared.folder);
        }
        while let Some(current) = &mut filler {
            match current.fill_batch() {
                Ok(Batch { reached, more }) => {
                    shared.indexed.store(reached, Ordering::Relaxed);
                    if !more || shared.closing.load(Ordering::Relaxed) {
                        break;
                    }
                }
                Err(error) => {
                    filler = None;
                    give_up(&shared.folder, &error);
                }
            }
        }
        if shared.closing.load(Ordering::Relaxed) {
            return;
        }
    }
}

fn start(folder: &Path) -> Option<Filler> {
    let opened = Filler::open(folder).or_else(|error| {
        give_up(folder, &error);
        Filler::open(folder)
    });
    opened.inspect_err(|error| tracing::warn!(%error, "no index: questions read the segments")).ok()
}

/// An index that does not fit is thrown away; one that only finds no room is taken up again at the next ring.
fn give_up(folder: &Path, error: &LedgerError) {
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseBusy, DiskFull, PermissionDenied, ReadOnly, SystemIoFailure,
    };
    let passing = match error {
        LedgerError::Index(error) => error.sqlite_error_code().is_some_and(|code| {
            matches!(
                code,
                CannotOpen | DatabaseBusy | DiskFull | PermissionDenied | ReadOnly | SystemIoFailure
            )
        }),
        _ => true,
    };
    if passing {
        tracing::warn!(%error, "the ledger's index stays behind");
    } else {
        tracing::warn!(%error, "the ledger's index is rebuilt");
        discard(folder);
    }
}

/// Throws the index away with its side files.
fn discard(folder: &Path) {
    let main = super::path(folder);
    for suffix in ["", "-wal", "-shm"] {
        let mut name = main.clone().into_os_string();
        name.push(suffix);
        match fs::remove_file(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "cannot remove the ledger's index");
            }
            _ => {}
        }
    }
}

struct Filler {
    folder: PathBuf,
    connection: Connection,
    words: HashMap<String, i64>,
    reached: Option<Reached>,
}

struct Batch {
    reached: u64,
    more: bool,
}

/// A line that is to be indexed.
struct Row {
    facets: Facets,
    hash: String,
    segment: u64,
    offset: u64,
    length: u64,
}

impl Filler {
    fn open(folder: &Path) -> Result<Filler, LedgerError> {
        let connection = open_to_fill(folder)?;
        let reached = reached(&connection)?;
        let filler = Filler { folder: folder.to_owned(), connection, words: HashMap::new(), reached };
        match &filler.reached {
            Some(reached) if !fits(folder, reached) => Err(LedgerError::Index(rusqlite::Error::InvalidQuery)),
            _ => Ok(filler),
        }
    }

    fn fill_batch(&mut self) -> Result<Batch, LedgerError> {
        let rows = self.next_rows()?;
        let more = rows.len() == BATCH;
        if let Some(last) = rows.last() {
            self.insert(&rows)?;
            self.reached = Some(Reached {
                seq: last.facets.seq,
                segment: last.segment,
                offset: last.offset,
                end: last.offset + last.length,
                hash: last.hash.clone(),
            });
        }
        Ok(Batch { reached: self.reached.as_ref().map_or(0, |reached| reached.seq), more })
    }

    fn next_rows(&self) -> Result<Vec<Row>, LedgerError> {
        let mut rows = Vec::new();
        for segment in segment::list(&self.folder)? {
            let offset = match &self.reached {
                Some(reached) if segment.first < reached.segment => continue,
                Some(reached) if segment.first == reached.segment => reached.end,
                _ => 0,
            };
            match read_rows(&segment, offset, &mut rows) {
                // Let go between listing and opening.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                read => read.map_err(LedgerError::io("read", &segment.path))?,
            }
            if rows.len() == BATCH {
                break;
            }
        }
        Ok(rows)
    }

    fn insert(&mut self, rows: &[Row]) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        for row in rows {
            insert_row(&transaction, &mut self.words, row)?;
            if let Some(first) = row.facets.kept_from {
                forget(&transaction, first)?;
            }
        }
        if let Some(Row { facets, hash, segment, offset, length }) = rows.last() {
            let end = offset + length;
            transaction.execute(
                "INSERT OR REPLACE INTO reached (one, seq, segment, offset, line_end, hash) VALUES (1,?,?,?,?,?)",
                params![signed(facets.seq), signed(*segment), signed(*offset), signed(end), hash],
            )?;
        }
        transaction.commit()
    }
}

fn insert_row(connection: &Connection, words: &mut HashMap<String, i64>, row: &Row) -> rusqlite::Result<()> {
    let facets = &row.facets;
    let seq = signed(facets.seq);
    let mut word = |text: Option<&str>| text.map(|text| word_id(words, connection, text)).transpose();
    let values = params![
        seq,
        facets.time,
        word(Some(&facets.kind))?,
        word(facets.tool.as_deref())?,
        word(facets.outcome.as_deref())?,
        word(facets.mode.as_deref())?,
        word(facets.caller.as_deref())?,
        word(facets.session.as_deref())?,
    ];
    let run = |sql: &str, values: &[&dyn ToSql]| connection.prepare_cached(sql)?.execute(values);
    run(
        "INSERT OR REPLACE INTO record (seq, time, kind, tool, outcome, mode, caller, session)
         VALUES (?,?,?,?,?,?,?,?)",
        values,
    )?;
    run(
        "INSERT OR REPLACE INTO place (seq, segment, offset, length) VALUES (?,?,?,?)",
        params![seq, signed(row.segment), signed(row.offset), signed(row.length)],
    )?;
    run(
        "INSERT INTO block (first, earliest, latest) VALUES (?1, ?2, ?2) ON CONFLICT (first) DO UPDATE
         SET earliest = min(earliest, ?2), latest = max(latest, ?2)",
        params![signed(facets.seq / BLOCK * BLOCK), facets.time],
    )?;
    if let Some(call) = &facets.call {
        run("INSERT OR REPLACE INTO by_call (id, seq) VALUES (?,?)", params![packed(call), seq])?;
    }
    if let Some(trace) = &facets.trace {
        run("INSERT OR REPLACE INTO by_trace (id, seq) VALUES (?,?)", params![packed(trace), seq])?;
    }
    if let Some(key) = &facets.idempotency_key {
        run("INSERT OR REPLACE INTO by_key (id, seq) VALUES (?,?)", params![key.as_bytes(), seq])?;
    }
    Ok(())
}

/// Takes out what retention let go.
fn forget(connection: &Connection, first: u64) -> rusqlite::Result<()> {
    for table in ["record", "place", "by_call", "by_trace", "by_key"] {
        connection.execute(&format!("DELETE FROM {table} WHERE seq < ?"), [signed(first)])?;
    }
    connection.execute("DELETE FROM block WHERE first + ? <= ?", [signed(BLOCK), signed(first)])?;
    Ok(())
}

fn word_id(words: &mut HashMap<String, i64>, connection: &Connection, text: &str) -> rusqlite::Result<i64> {
    if let Some(id) = words.get(text) {
        return Ok(*id);
    }
    connection.prepare_cached("INSERT OR IGNORE INTO word (text) VALUES (?)")?.execute([text])?;
    let id = connection
        .prepare_cached("SELECT id FROM word WHERE text = ?")?
        .query_row([text], |row| row.get(0))?;
    // Words come from callers too; the table on disk has them all.
    if words.len() > 10_000 {
        words.clear();
    }
    words.insert(text.to_owned(), id);
    Ok(id)
}

fn read_rows(segment: &Segment, offset: u64, rows: &mut Vec<Row>) -> io::Result<()> {
    let mut lines = Lines::open_at(segment, offset)?;
    while rows.len() < BATCH
        && let Some(line) = lines.next_line()?
    {
        // An unfinished line is taken up when it is whole; a line that is no record is for `verify` to report.
        let Some(text) = line.whole() else { return Ok(()) };
        let Some((parts, facets)) = line::parts(text).zip(Facets::parse(text)) else { continue };
        let length = u64::try_from(line.bytes.len()).unwrap_or_default();
        let hash = parts.hash.to_string();
        rows.push(Row { facets, hash, segment: segment.first, offset: line.offset, length });
    }
    Ok(())
}
