//! Newest rows of the ledger in memory, from which the charts and the history of a caller are computed.

use std::collections::VecDeque;

use crate::ledger_row::LedgerRow;

/// Rows in the order of their sequence numbers; the oldest ones are dropped.
#[derive(Debug)]
pub struct RecentRows {
    rows: VecDeque<LedgerRow>,
    capacity: usize,
}

impl RecentRows {
    /// Creates an empty list that keeps this many rows.
    pub fn with_capacity(capacity: usize) -> Self {
        RecentRows { rows: VecDeque::new(), capacity }
    }

    /// Adds newer rows. A row that is not newer than the last one is ignored, so that a page can be read twice.
    pub fn extend(&mut self, newer: impl IntoIterator<Item = LedgerRow>) {
        for row in newer {
            if self.head().is_none_or(|head| row.seq > head) {
                self.rows.push_back(row);
            }
            if self.rows.len() > self.capacity {
                self.rows.pop_front();
            }
        }
    }

    /// Returns the newest sequence number.
    pub fn head(&self) -> Option<u64> {
        self.rows.back().map(|row| row.seq)
    }

    /// Returns the rows, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &LedgerRow> {
        self.rows.iter()
    }

    /// Returns the rows after a sequence number, or nothing if some of them are not in memory any more.
    pub fn after(&self, seq: u64) -> Option<Vec<LedgerRow>> {
        let first = self.rows.front().map(|row| row.seq)?;
        let from = self.rows.partition_point(|row| row.seq <= seq);
        (seq + 1 >= first).then(|| self.rows.iter().skip(from).cloned().collect())
    }

    /// Returns the newest rows of a caller, newest first.
    pub fn of_caller(&self, caller: &str, most: usize) -> Vec<LedgerRow> {
        let of = |row: &&LedgerRow| row.caller == caller && (row.ends_call() || row.kind == "approval");
        self.rows.iter().rev().filter(of).take(most).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(seq: u64) -> LedgerRow {
        LedgerRow::from_record(
            &json!({"seq": seq, "kind": "call", "outcome": "done", "caller": {"uid": seq % 2}}),
        )
    }

    #[test]
    fn rows_resume_after_a_sequence_number() {
        let mut recent = RecentRows::with_capacity(3);
        assert_eq!((recent.head(), recent.after(0)), (None, None));
        recent.extend([row(1), row(2), row(2), row(3), row(4)]);
        let seqs = |rows: Option<Vec<LedgerRow>>| {
            rows.map(|rows| rows.iter().map(|row| row.seq).collect::<Vec<_>>())
        };
        assert_eq!(recent.head(), Some(4));
        assert_eq!(seqs(recent.after(4)), Some(vec![]));
        assert_eq!(seqs(recent.after(2)), Some(vec![3, 4]));
        assert_eq!(seqs(recent.after(1)), Some(vec![2, 3, 4]), "nothing between 1 and 2 is missing");
        assert_eq!(seqs(recent.after(0)), None, "1 was dropped");
        assert_eq!(recent.of_caller("uid 0", 9).iter().map(|row| row.seq).collect::<Vec<_>>(), [4, 2]);
    }
}
