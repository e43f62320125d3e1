//! Filling of the index behind the writer, on a separate thread.

use std::{
    collections::HashMap,
    fmt::Write,
    fs, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::Receiver,
    },
    time::Duration,
};

use rusqlite::{Connection, ToSql, Transaction, params, params_from_iter};

use super::{
    IndexPosition, RECORDS_PER_BLOCK, matches_segment, open_to_fill, pack_id, read_position, step_back,
    to_signed,
};
use crate::{
    LedgerError,
    health::LedgerState,
    line,
    lines::SegmentLines,
    search_fields::SearchFields,
    segment::{self, Segment},
    shared::{LedgerShared, lock},
};

/// Rows per transaction. Trace ids are random, so small transactions would rewrite most pages of their table
/// each time.
const ROWS_PER_BATCH: u64 = 50_000;

/// Time without a pass of the commit thread after which the ledger counts as idle.
pub(crate) const IDLE: Duration = Duration::from_secs(2);
/// Records behind the index at which it is filled even under load. A query reads this many from the segments in
/// less than a second.
const MAX_BEHIND: u64 = 500_000;

/// Fills the index when the ledger is idle, when a query wants it, or when it is far behind, until the channel closes.
/// Under a load of reads it would otherwise take a tenth of the processor time.
pub(crate) fn run(shared: &Arc<LedgerShared>, wakeups: &Receiver<()>) {
    step_back();
    let mut filler: Option<IndexFiller> = None;
    while wakeups.recv().is_ok() && !shared.closing.load(Ordering::Relaxed) {
        while !is_due(shared) && wakeups.recv_timeout(IDLE).is_ok() {}
        // On a full disk the remaining space is left to the segments.
        if *shared.state.borrow() != LedgerState::Ready {
            continue;
        }
        if filler.is_none() {
            filler = open_or_rebuild(&shared.folder);
        }
        while let Some(current) = &mut filler {
            match current.fill_batch(shared) {
                Ok(count) => {
                    shared.indexed.store(current.last_indexed(), Ordering::Relaxed);
                    if count < ROWS_PER_BATCH {
                        current.release_memory();
                        break;
                    }
                }
                Err(error) => {
                    filler = None;
                    handle_fill_error(&shared.folder, &error);
                }
            }
        }
    }
}

fn is_due(shared: &LedgerShared) -> bool {
    let behind = || lock(&shared.writer).chain.head().saturating_sub(shared.indexed.load(Ordering::Relaxed));
    shared.closing.load(Ordering::Relaxed)
        || shared.index_wanted.swap(false, Ordering::Relaxed)
        || behind() > MAX_BEHIND
}

fn open_or_rebuild(folder: &Path) -> Option<IndexFiller> {
    let opened = IndexFiller::open(folder).or_else(|error| {
        handle_fill_error(folder, &error);
        IndexFiller::open(folder)
    });
    opened
        .inspect_err(
            |error| tracing::warn!(%error, "the ledger index cannot be opened: queries read the segments"),
        )
        .ok()
}

/// Discards an index that does not match the segments. After a transient error, such as a full disk, filling
/// continues at the next message.
fn handle_fill_error(folder: &Path, error: &LedgerError) {
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
        tracing::warn!(%error, "the ledger's index could not be updated");
    } else {
        tracing::warn!(%error, "the ledger's index is rebuilt");
        discard(folder);
    }
}

/// Removes the index and its side files.
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

struct IndexFiller {
    connection: Connection,
    words: RowIdCache,
    reached: Option<IndexPosition>,
}

impl IndexFiller {
    fn open(folder: &Path) -> Result<IndexFiller, LedgerError> {
        let connection = open_to_fill(folder)?;
        let reached = read_position(&connection)?;
        let filler = IndexFiller { connection, words: RowIdCache::default(), reached };
        match &filler.reached {
            Some(reached) if !matches_segment(folder, reached) => {
                Err(LedgerError::Index(rusqlite::Error::InvalidQuery))
            }
            _ => Ok(filler),
        }
    }

    fn last_indexed(&self) -> u64 {
        self.reached.as_ref().map_or(0, |reached| reached.seq)
    }

    /// Frees the memory that a large fill used. Later batches are small, and without this the daemon's memory
    /// would grow with every call up to the limit of the cache.
    fn release_memory(&self) {
        if let Err(error) = self.connection.execute_batch("PRAGMA shrink_memory") {
            tracing::debug!(%error, "the memory of the index could not be released");
        }
    }

    /// Indexes new records, up to one batch, and returns their number.
    fn fill_batch(&mut self, shared: &LedgerShared) -> Result<u64, LedgerError> {
        let (segments, closing) = (segment::list(&shared.folder)?, &shared.closing);
        let mut batch = IndexBatch {
            transaction: self.connection.transaction()?,
            words: &mut self.words,
            count: 0,
            last: None,
            times: HashMap::new(),
        };
        for segment in segments {
            let offset = match &self.reached {
                Some(reached) if segment.first < reached.segment => continue,
                Some(reached) if segment.first == reached.segment => reached.end,
                _ => 0,
            };
            batch.index_segment(&segment, offset, closing)?;
            if batch.count >= ROWS_PER_BATCH || closing.load(Ordering::Relaxed) {
                break;
            }
        }
        let (count, last) = batch.commit()?;
        self.reached = last.or(self.reached.take());
        Ok(count)
    }
}

/// Ids of `sort` and `session` rows that were written before.
#[derive(Default)]
struct RowIdCache {
    /// Keys are the length-prefixed columns of a sort.
    sorts: HashMap<String, i64>,
    sessions: HashMap<String, i64>,
}

/// One transaction.
struct IndexBatch<'a> {
    transaction: Transaction<'a>,
    words: &'a mut RowIdCache,
    count: u64,
    last: Option<IndexPosition>,
    /// Earliest and latest time of each block.
    times: HashMap<u64, (i64, i64)>,
}

impl IndexBatch<'_> {
    fn index_segment(
        &mut self,
        segment: &Segment,
        offset: u64,
        closing: &AtomicBool,
    ) -> Result<(), LedgerError> {
        let failed = |error| LedgerError::io("read", &segment.path)(error);
        let mut lines = match SegmentLines::open_at(segment, offset) {
            // Retention removed the segment between listing and opening.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(failed)?,
        };
        while self.count < ROWS_PER_BATCH
            && !closing.load(Ordering::Relaxed)
            && let Some(line) = lines.next_line().map_err(failed)?
        {
            // An unfinished line is indexed once it is complete; `verify` reports lines that are not records.
            let Some(text) = line.without_newline() else { return Ok(()) };
            let Some((parts, fields)) = line::parse_line(text).zip(SearchFields::parse(text)) else {
                continue;
            };
            let length = u64::try_from(line.bytes.len()).unwrap_or_default();
            let (seq, offset) = (fields.seq, line.offset);
            self.insert(&fields, [segment.first, offset, length])?;
            self.count += 1;
            let end = offset + length;
            self.last = Some(IndexPosition { seq, segment: segment.first, offset, end, hash: parts.hash });
        }
        Ok(())
    }

    fn insert(&mut self, fields: &SearchFields, span: [u64; 3]) -> rusqlite::Result<()> {
        let (sort, session) = (self.sort_id(fields)?, self.session_id(fields)?);
        let seq = to_signed(fields.seq);
        let [segment, offset, length] = span.map(to_signed);
        let run = |sql: &str, values: &[&dyn ToSql]| self.transaction.prepare_cached(sql)?.execute(values);
        run(
            "INSERT INTO record (seq, time, sort, session, segment, offset, length) VALUES (?,?,?,?,?,?,?)",
            params![seq, fields.time, sort, session, segment, offset, length],
        )?;
        if let Some(call) = &fields.call {
            run("INSERT INTO by_call (id, seq) VALUES (?,?)", params![pack_id(call), seq])?;
        }
        if let Some(trace) = &fields.trace {
            run("INSERT INTO by_trace (id, seq) VALUES (?,?)", params![pack_id(trace), seq])?;
        }
        if let Some(key) = &fields.idempotency_key {
            run("INSERT INTO by_key (id, seq) VALUES (?,?)", params![key.as_bytes(), seq])?;
        }
        let times = self
            .times
            .entry(fields.seq / RECORDS_PER_BLOCK * RECORDS_PER_BLOCK)
            .or_insert((fields.time, fields.time));
        *times = (times.0.min(fields.time), times.1.max(fields.time));
        match fields.first_retained {
            Some(first) => self.delete_before(first),
            None => Ok(()),
        }
    }

    fn sort_id(&mut self, fields: &SearchFields<'_>) -> rusqlite::Result<i64> {
        let SearchFields { kind, tool, outcome, mode, caller, .. } = fields;
        let words = [Some(kind), tool.as_ref(), outcome.as_ref(), mode.as_ref(), caller.as_ref()]
            .map(|word| word.map_or("", |word| &**word));
        let key = sort_key(words);
        if let Some(id) = self.words.sorts.get(&key) {
            return Ok(*id);
        }
        let insert = "INSERT OR IGNORE INTO sort (kind, tool, outcome, mode, caller) VALUES (?,?,?,?,?)";
        self.transaction.prepare_cached(insert)?.execute(params_from_iter(words))?;
        let select =
            "SELECT id FROM sort WHERE kind = ? AND tool = ? AND outcome = ? AND mode = ? AND caller = ?";
        let id =
            self.transaction.prepare_cached(select)?.query_row(params_from_iter(words), |row| row.get(0))?;
        cache_row_id(&mut self.words.sorts, key, id);
        Ok(id)
    }

    fn session_id(&mut self, fields: &SearchFields) -> rusqlite::Result<Option<i64>> {
        let Some(text) = &fields.session else { return Ok(None) };
        if let Some(id) = self.words.sessions.get(&**text) {
            return Ok(Some(*id));
        }
        self.transaction
            .prepare_cached("INSERT OR IGNORE INTO session (text) VALUES (?)")?
            .execute([&**text])?;
        let select = "SELECT id FROM session WHERE text = ?";
        let id = self.transaction.prepare_cached(select)?.query_row([&**text], |row| row.get(0))?;
        cache_row_id(&mut self.words.sessions, text.clone().into_owned(), id);
        Ok(Some(id))
    }

    /// Deletes the rows of records that retention removed.
    fn delete_before(&self, first: u64) -> rusqlite::Result<()> {
        for table in ["record", "by_call", "by_trace", "by_key"] {
            self.transaction.execute(&format!("DELETE FROM {table} WHERE seq < ?"), [to_signed(first)])?;
        }
        self.transaction.execute(
            "DELETE FROM block WHERE first + ? <= ?",
            [to_signed(RECORDS_PER_BLOCK), to_signed(first)],
        )?;
        Ok(())
    }

    fn commit(self) -> rusqlite::Result<(u64, Option<IndexPosition>)> {
        for (first, (earliest, latest)) in &self.times {
            self.transaction
                .prepare_cached(
                    "INSERT INTO block (first, earliest, latest) VALUES (?1, ?2, ?3) ON CONFLICT (first) DO UPDATE
                     SET earliest = min(earliest, ?2), latest = max(latest, ?3)",
                )?
                .execute(params![to_signed(*first), earliest, latest])?;
        }
        if let Some(IndexPosition { seq, segment, offset, end, hash }) = &self.last {
            let [seq, segment, offset, end] = [seq, segment, offset, end].map(|number| to_signed(*number));
            self.transaction.execute(
                "INSERT OR REPLACE INTO reached (one, seq, segment, offset, line_end, hash) VALUES (1,?,?,?,?,?)",
                params![seq, segment, offset, end, hash.to_string()],
            )?;
        }
        self.transaction.commit()?;
        Ok((self.count, self.last))
    }
}

/// Joins the columns into one unambiguous key, because callers choose some of the values.
fn sort_key(words: [&str; 5]) -> String {
    let mut key = String::with_capacity(128);
    for word in words {
        // Writing into memory cannot fail.
        let _ = write!(key, "{}:{word}", word.len());
    }
    key
}

/// Caches an id. Callers choose some of the keys, so the cache is bounded; the table on disk has all of them.
fn cache_row_id<K: std::hash::Hash + Eq>(words: &mut HashMap<K, i64>, word: K, id: i64) {
    if words.len() >= 10_000 {
        words.clear();
    }
    words.insert(word, id);
}
