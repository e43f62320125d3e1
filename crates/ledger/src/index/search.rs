//! Asking the index where matching records are.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params_from_iter, types::Value};

use super::{BLOCK, fits, open_to_read, packed, reached, signed, unsigned};
use crate::{Filter, LedgerError};

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) seq: u64,
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// An index as it was at one moment.
pub(crate) struct Snapshot {
    connection: Connection,
    reached: u64,
}

/// A word that at most this many records carry is looked up; more common ones are checked on the way.
const RARE: i64 = 20_000;

impl Snapshot {
    /// Nothing where there is no usable index.
    pub(crate) fn open(folder: &Path) -> Option<Snapshot> {
        let connection = open_to_read(folder)?;
        connection.execute_batch("BEGIN").ok()?;
        let reached = reached(&connection).ok()??;
        fits(folder, &reached).then_some(Snapshot { connection, reached: reached.seq })
    }

    /// The last record it knows.
    pub(crate) fn reached(&self) -> u64 {
        self.reached
    }

    /// Matching records, newest first.
    pub(crate) fn search(&self, filter: &Filter, limit: usize) -> Result<Vec<Place>, LedgerError> {
        let Some(question) = self.question(filter)? else { return Ok(Vec::new()) };
        let Question { mut sql, mut values } = question;
        sql.push_str(" ORDER BY seq DESC LIMIT ?");
        values.push(Value::from(i64::try_from(limit).unwrap_or(i64::MAX)));
        let mut statement = self.connection.prepare(&sql)?;
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

    /// The question in SQL; nothing where a wanted word occurs nowhere.
    fn question(&self, filter: &Filter) -> Result<Option<Question>, LedgerError> {
        let (first, last) = self.narrowed(filter)?;
        let mut question = Question {
            // CROSS keeps SQLite from going through `place` first.
            sql: "SELECT seq, segment, offset, length FROM record CROSS JOIN place USING (seq)
                  WHERE seq BETWEEN ? AND ?"
                .into(),
            values: vec![signed(first).into(), signed(last).into()],
        };
        let ids = [
            ("by_call", filter.call_id.map(|call| packed(&call.to_string()))),
            ("by_trace", filter.trace.as_ref().map(|trace| packed(trace))),
            ("by_key", filter.idempotency_key.as_ref().map(|key| key.as_bytes().to_vec())),
        ];
        let mut looked_up = false;
        for (table, id) in ids {
            if let Some(id) = id {
                question.and(&format!("seq IN (SELECT seq FROM {table} WHERE id = ?)"), id.into());
                looked_up = true;
            }
        }
        let mut words = Vec::new();
        for (column, word) in filter.words() {
            let Some(id) = self.word(&word)? else { return Ok(None) };
            words.push((self.commonness(column, id)?, column, id));
        }
        words.sort_unstable();
        for (count, column, id) in words {
            question.is(column, looked_up || count >= RARE, id.into());
            looked_up = true;
        }
        let times = [("time >= ?", filter.since), ("time < ?", filter.until)];
        for (condition, time) in times {
            if let Some(time) = time {
                question.and(condition, time.as_millisecond().into());
            }
        }
        Ok(Some(question))
    }

    /// The range of numbers in which the wanted times can be.
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

    fn word(&self, text: &str) -> rusqlite::Result<Option<i64>> {
        self.connection.query_row("SELECT id FROM word WHERE text = ?", [text], |row| row.get(0)).optional()
    }

    /// How many records carry a word, counted as far as it matters.
    fn commonness(&self, column: &str, word: i64) -> rusqlite::Result<i64> {
        if matches!(column, "mode" | "caller") {
            return Ok(RARE);
        }
        let sql = format!("SELECT count(*) FROM (SELECT 1 FROM record WHERE {column} = ? LIMIT {RARE})");
        self.connection.query_row(&sql, [word], |row| row.get(0))
    }
}

struct Question {
    sql: String,
    values: Vec<Value>,
}

impl Question {
    /// A plus before a column keeps SQLite from choosing its index.
    fn is(&mut self, column: &str, check_only: bool, value: Value) {
        let plus = if check_only { "+" } else { "" };
        self.and(&format!("{plus}{column} = ?"), value);
    }

    fn and(&mut self, condition: &str, value: Value) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
        self.values.push(value);
    }
}
