//! Search of the index for the positions of matching records.

use std::path::Path;

use rusqlite::{Connection, params_from_iter, types::Value};

use super::{BLOCK, fits, open_to_read, packed, reached, signed, unsigned};
use crate::{Filter, LedgerError};

/// Position of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) seq: u64,
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Consistent view of the index at one moment.
pub(crate) struct Snapshot {
    connection: Connection,
    reached: u64,
}

/// Number of matching sorts from which they are no longer queried one by one.
const MANY_SORTS: usize = 200;

impl Snapshot {
    /// Opens the index, or returns `None` if there is no usable one.
    pub(crate) fn open(folder: &Path) -> Option<Snapshot> {
        let connection = open_to_read(folder)?;
        connection.execute_batch("BEGIN").ok()?;
        let reached = reached(&connection).ok()??;
        fits(folder, &reached).then_some(Snapshot { connection, reached: reached.seq })
    }

    /// Returns the last indexed sequence number.
    pub(crate) fn reached(&self) -> u64 {
        self.reached
    }

    /// Returns the positions of matching records, newest first.
    pub(crate) fn search(&self, filter: &Filter, limit: usize) -> Result<Vec<Place>, LedgerError> {
        let (first, last) = self.narrowed(filter)?;
        let mut question = Question {
            sql: "SELECT seq, segment, offset, length FROM record WHERE seq BETWEEN ? AND ?".into(),
            values: vec![signed(first).into(), signed(last).into()],
        };
        for (condition, time) in [("+time >= ?", filter.since), ("+time < ?", filter.until)] {
            if let Some(time) = time {
                question.and(condition, [time.as_millisecond().into()]);
            }
        }
        let found_by_id = question.add_ids(filter);
        let words = filter.words();
        if words.is_empty() {
            return self.ask(question, limit);
        }
        let sorts = self.sorts(&words)?;
        if found_by_id || sorts.len() > MANY_SORTS {
            let names: Vec<String> = words.iter().map(|(name, _)| format!("{name} = ?")).collect();
            // A plus before a column keeps SQLite from choosing its index.
            let sort = format!("+sort IN (SELECT id FROM sort WHERE {})", names.join(" AND "));
            question.and(&sort, words.into_iter().map(|(_, word)| Value::from(word)));
            return self.ask(question, limit);
        }
        let mut places = Vec::new();
        for sort in sorts {
            let mut one = question.clone();
            one.and("sort = ?", [sort.into()]);
            places.extend(self.ask(one, limit)?);
        }
        places.sort_unstable_by_key(|place| std::cmp::Reverse(place.seq));
        places.truncate(limit);
        Ok(places)
    }

    fn ask(&self, question: Question, limit: usize) -> Result<Vec<Place>, LedgerError> {
        let Question { mut sql, mut values } = question;
        sql.push_str(" ORDER BY seq DESC LIMIT ?");
        values.push(Value::from(i64::try_from(limit).unwrap_or(i64::MAX)));
        let mut statement = self.connection.prepare_cached(&sql)?;
        let rows = statement.query_map(params_from_iter(values), |row| {
            Ok(Place {
                seq: unsigned(row.get(0)?),
                segment: unsigned(row.get(1)?),
                offset: unsigned(row.get(2)?),
                length: unsigned(row.get(3)?),
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
    }

    /// Returns the ids of the sorts that match all these columns.
    fn sorts(&self, words: &[(&'static str, String)]) -> rusqlite::Result<Vec<i64>> {
        let names: Vec<String> = words.iter().map(|(name, _)| format!("{name} = ?")).collect();
        let sql = format!("SELECT id FROM sort WHERE {} LIMIT {}", names.join(" AND "), MANY_SORTS + 1);
        let mut statement = self.connection.prepare(&sql)?;
        let ids =
            statement.query_map(params_from_iter(words.iter().map(|(_, word)| word)), |row| row.get(0))?;
        ids.collect()
    }

    /// Returns the range of sequence numbers in which the requested times can be.
    fn narrowed(&self, filter: &Filter) -> Result<(u64, u64), LedgerError> {
        let (mut first, mut last) = filter.range();
        last = last.min(self.reached);
        if let Some(since) = filter.since {
            let block =
                self.edge("SELECT min(first) FROM block WHERE latest >= ?", since.as_millisecond())?;
            first = first.max(block.unwrap_or(u64::MAX));
        }
        if let Some(until) = filter.until {
            let block =
                self.edge("SELECT max(first) FROM block WHERE earliest < ?", until.as_millisecond())?;
            last = last.min(block.map_or(0, |first| first + BLOCK - 1));
        }
        Ok((first, last))
    }

    fn edge(&self, sql: &str, time: i64) -> rusqlite::Result<Option<u64>> {
        let first: Option<i64> = self.connection.query_row(sql, [time], |row| row.get(0))?;
        Ok(first.map(unsigned))
    }
}

/// SQL query with its parameters.
#[derive(Clone)]
struct Question {
    sql: String,
    values: Vec<Value>,
}

impl Question {
    fn and(&mut self, condition: &str, values: impl IntoIterator<Item = Value>) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.extend(values);
    }

    /// Adds the conditions that match few records, and returns true if there was one.
    fn add_ids(&mut self, filter: &Filter) -> bool {
        let ids = [
            ("by_call", filter.call_id.map(|call| packed(&call.to_string()))),
            ("by_trace", filter.trace.as_ref().map(|trace| packed(trace))),
            ("by_key", filter.idempotency_key.as_ref().map(|key| key.as_bytes().to_vec())),
        ];
        let mut added = false;
        for (table, id) in ids {
            if let Some(id) = id {
                self.and(&format!("seq IN (SELECT seq FROM {table} WHERE id = ?)"), [id.into()]);
                added = true;
            }
        }
        if let Some(session) = &filter.session {
            let plus = if added { "+" } else { "" };
            let session = Value::from(session.clone());
            self.and(&format!("{plus}session = (SELECT id FROM session WHERE text = ?)"), [session]);
            added = true;
        }
        added
    }
}
