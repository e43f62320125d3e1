//! Search of the index for the positions of matching records.

use std::path::Path;

use rusqlite::{Connection, params_from_iter, types::Value};

use super::{
    RECORDS_PER_BLOCK, matches_segment, open_to_read, pack_id, read_position, to_signed, to_unsigned,
};
use crate::{LedgerError, RecordFilter};

/// Position of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPosition {
    pub(crate) seq: u64,
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Consistent view of the index at one moment.
pub(crate) struct IndexSnapshot {
    connection: Connection,
    reached: u64,
}

/// Number of matching sorts from which they are no longer queried one by one.
const MAX_SORTS_QUERIED_SINGLY: usize = 200;

impl IndexSnapshot {
    /// Opens the index, or returns `None` if there is no usable one.
    pub(crate) fn open(folder: &Path) -> Option<IndexSnapshot> {
        let connection = open_to_read(folder)?;
        connection.execute_batch("BEGIN").ok()?;
        let reached = read_position(&connection).ok()??;
        matches_segment(folder, &reached).then_some(IndexSnapshot { connection, reached: reached.seq })
    }

    /// Returns the last indexed sequence number.
    pub(crate) fn last_indexed(&self) -> u64 {
        self.reached
    }

    /// Returns the positions of matching records, newest first.
    pub(crate) fn search(
        &self,
        filter: &RecordFilter,
        limit: usize,
    ) -> Result<Vec<RecordPosition>, LedgerError> {
        let (first, last) = self.seq_range(filter)?;
        let mut query = IndexQuery {
            sql: "SELECT seq, segment, offset, length FROM record WHERE seq BETWEEN ? AND ?".into(),
            values: vec![to_signed(first).into(), to_signed(last).into()],
        };
        for (condition, time) in [("+time >= ?", filter.since), ("+time < ?", filter.until)] {
            if let Some(time) = time {
                query.and(condition, [time.as_millisecond().into()]);
            }
        }
        let found_by_id = query.add_ids(filter);
        let words = filter.sort_conditions();
        if words.is_empty() {
            return self.run_query(query, limit);
        }
        let sorts = self.matching_sorts(&words)?;
        if found_by_id || sorts.len() > MAX_SORTS_QUERIED_SINGLY {
            // A plus before a column keeps SQLite from choosing its index.
            let sort = format!("+sort IN (SELECT id FROM sort WHERE {})", conjunction(&words));
            query.and(&sort, words.into_iter().map(|(_, word)| Value::from(word)));
            return self.run_query(query, limit);
        }
        let mut places = Vec::new();
        for sort in sorts {
            let mut one = query.clone();
            one.and("sort = ?", [sort.into()]);
            places.extend(self.run_query(one, limit)?);
        }
        places.sort_unstable_by_key(|place| std::cmp::Reverse(place.seq));
        places.truncate(limit);
        Ok(places)
    }

    fn run_query(&self, query: IndexQuery, limit: usize) -> Result<Vec<RecordPosition>, LedgerError> {
        let IndexQuery { mut sql, mut values } = query;
        sql.push_str(" ORDER BY seq DESC LIMIT ?");
        values.push(Value::from(i64::try_from(limit).unwrap_or(i64::MAX)));
        let mut statement = self.connection.prepare_cached(&sql)?;
        let rows = statement.query_map(params_from_iter(values), |row| {
            Ok(RecordPosition {
                seq: to_unsigned(row.get(0)?),
                segment: to_unsigned(row.get(1)?),
                offset: to_unsigned(row.get(2)?),
                length: to_unsigned(row.get(3)?),
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<Vec<_>>>()?)
    }

    /// Returns the ids of the sorts that match all these columns.
    fn matching_sorts(&self, words: &[(&'static str, String)]) -> rusqlite::Result<Vec<i64>> {
        let sql = format!(
            "SELECT id FROM sort WHERE {} LIMIT {}",
            conjunction(words),
            MAX_SORTS_QUERIED_SINGLY + 1
        );
        let mut statement = self.connection.prepare(&sql)?;
        let ids =
            statement.query_map(params_from_iter(words.iter().map(|(_, word)| word)), |row| row.get(0))?;
        ids.collect()
    }

    /// Returns the range of sequence numbers in which the requested times can be.
    fn seq_range(&self, filter: &RecordFilter) -> Result<(u64, u64), LedgerError> {
        let (mut first, mut last) = filter.seq_range();
        last = last.min(self.reached);
        if let Some(since) = filter.since {
            let block =
                self.block_edge("SELECT min(first) FROM block WHERE latest >= ?", since.as_millisecond())?;
            first = first.max(block.unwrap_or(u64::MAX));
        }
        if let Some(until) = filter.until {
            let block =
                self.block_edge("SELECT max(first) FROM block WHERE earliest < ?", until.as_millisecond())?;
            last = last.min(block.map_or(0, |first| first + RECORDS_PER_BLOCK - 1));
        }
        Ok((first, last))
    }

    fn block_edge(&self, sql: &str, time: i64) -> rusqlite::Result<Option<u64>> {
        let first: Option<i64> = self.connection.query_row(sql, [time], |row| row.get(0))?;
        Ok(first.map(to_unsigned))
    }
}

/// Joins conditions with AND.
fn conjunction(conditions: &[(&'static str, String)]) -> String {
    let conditions: Vec<&str> = conditions.iter().map(|(condition, _)| *condition).collect();
    conditions.join(" AND ")
}

/// SQL query with its parameters.
#[derive(Clone)]
struct IndexQuery {
    sql: String,
    values: Vec<Value>,
}

impl IndexQuery {
    fn and(&mut self, condition: &str, values: impl IntoIterator<Item = Value>) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.extend(values);
    }

    /// Adds the conditions that match few records, and returns true if there was one.
    fn add_ids(&mut self, filter: &RecordFilter) -> bool {
        let ids = [
            ("by_call", filter.call_id.map(|call| pack_id(&call.to_string()))),
            ("by_trace", filter.trace.as_ref().map(|trace| pack_id(trace))),
            ("by_key", filter.idempotency_key.as_ref().map(|key| key.as_bytes().to_vec())),
        ];
        let mut added = false;
        for (table, id) in ids {
            if let Some(id) = id {
                self.and(&format!("seq IN (SELECT seq FROM {table} WHERE id = ?)"), [id.into()]);
                added = true;
            }
        }
        if let Some(prefix) = &filter.call_id_prefix {
            let range = prefix.range().map(|id| Value::from(pack_id(&id)));
            self.and("seq IN (SELECT seq FROM by_call WHERE id BETWEEN ? AND ?)", range);
            added = true;
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
