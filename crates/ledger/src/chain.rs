//! Order of lines: consecutive sequence numbers, each line containing the seal of the previous one. Pure.

use std::fmt;

use crate::{
    hash::SealHash,
    key::LedgerKey,
    line::{self, ParsedLine},
};

/// Position between two lines: the number and the previous seal that the next line must contain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChainPosition {
    /// Sequence number of the next line.
    pub(crate) next: u64,
    /// Seal of the last line.
    pub(crate) prev: SealHash,
}

/// Defect of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LineFlaw {
    /// The line does not have the form of a record.
    Form,
    /// The bytes differ from those that were sealed, or another key sealed them.
    Seal { seq: u64 },
    /// The record is authentic but is not the next one.
    Order { seq: u64, expected: u64 },
    /// The number is right, but the line contains the seal of another predecessor.
    Link { seq: u64 },
}

impl ChainPosition {
    /// Start of a ledger.
    pub(crate) const START: ChainPosition = ChainPosition { next: 1, prev: SealHash::NONE };

    /// Returns the sequence number of the last line, or 0 before the first.
    pub(crate) fn head(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// Advances past a line that was just written.
    pub(crate) fn advance(&mut self, hash: SealHash) {
        *self = ChainPosition { next: self.next + 1, prev: hash };
    }
}

/// Checker of a chain, line by line, that resynchronises after damaged lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainChecker {
    next: u64,
    /// Unknown at the start of a segment that is read alone.
    prev: Option<SealHash>,
    /// Damaged lines since the last authentic one. That many sequence numbers may be missing without another
    /// flaw.
    damaged: u64,
}

/// Result of checking one line.
#[derive(Debug, PartialEq)]
pub(crate) struct CheckedLine<'a> {
    /// The line, if it is authentic and not a repetition. The chain continues from it.
    pub(crate) parts: Option<ParsedLine<'a>>,
    /// Defect of the line or of its predecessors.
    pub(crate) flaw: Option<LineFlaw>,
}

impl ChainChecker {
    /// Creates a follower that expects line `next`.
    pub(crate) fn new(next: u64, prev: Option<SealHash>) -> ChainChecker {
        ChainChecker { next, prev, damaged: 0 }
    }

    /// Returns the expected next sequence number.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the highest sequence number that the lines read so far can account for.
    pub(crate) fn highest_accounted(&self) -> u64 {
        self.next.saturating_sub(1) + self.damaged
    }

    /// Returns the position after the last authentic line.
    pub(crate) fn position(&self) -> ChainPosition {
        ChainPosition { next: self.next, prev: self.prev.unwrap_or(SealHash::NONE) }
    }

    /// Checks a line (without its newline).
    pub(crate) fn check_line<'a>(&mut self, text: &'a [u8], key: &LedgerKey) -> CheckedLine<'a> {
        let Some(parts) = line::parse_line(text) else { return self.count_damaged(LineFlaw::Form) };
        let (seq, expected) = (parts.seq, self.next);
        if !parts.is_authentic(key) {
            return self.count_damaged(LineFlaw::Seal { seq });
        }
        if seq < expected {
            return CheckedLine { parts: None, flaw: Some(LineFlaw::Order { seq, expected }) };
        }
        let linked = self.damaged > 0 || self.prev.is_none_or(|prev| prev == parts.prev);
        let flaw = match () {
            () if seq > expected + self.damaged => {
                Some(LineFlaw::Order { seq, expected: expected + self.damaged })
            }
            () if seq == expected && !linked => Some(LineFlaw::Link { seq }),
            () => None,
        };
        *self = ChainChecker { next: seq + 1, prev: Some(parts.hash), damaged: 0 };
        CheckedLine { parts: Some(parts), flaw }
    }

    fn count_damaged(&mut self, flaw: LineFlaw) -> CheckedLine<'static> {
        self.damaged += 1;
        CheckedLine { parts: None, flaw: Some(flaw) }
    }
}

impl LineFlaw {
    /// Returns the sequence number in the line, if it could be read.
    pub(crate) fn seq(&self) -> Option<u64> {
        match self {
            LineFlaw::Form => None,
            LineFlaw::Seal { seq } | LineFlaw::Order { seq, .. } | LineFlaw::Link { seq } => Some(*seq),
        }
    }
}

impl fmt::Display for LineFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineFlaw::Form => f.write_str("this line is not a valid record"),
            LineFlaw::Seal { seq } => {
                write!(f, "record {seq} was changed: its seal does not match its bytes")
            }
            LineFlaw::Order { seq, expected } if seq > expected => {
                write!(f, "record {seq} is in the place of record {expected}: {} missing", seq - expected)
            }
            LineFlaw::Order { seq, expected } => {
                write!(f, "record {seq} is in the place of record {expected}: it was moved or repeated")
            }
            LineFlaw::Link { seq } => write!(f, "record {seq} does not follow the record before it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::line::EntryBody;

    fn lines(key: &LedgerKey, count: u64) -> Vec<Vec<u8>> {
        let mut chain = ChainPosition::START;
        let one = |seq| {
            let body = EntryBody::from_json(&json!({"kind": "note", "n": seq}), key).unwrap();
            let line = body.into_sealed_line(key, seq, Timestamp::UNIX_EPOCH, &chain.prev);
            chain.advance(line.hash);
            line.bytes.strip_suffix(b"\n").unwrap().to_vec()
        };
        (1..=count).map(one).collect()
    }

    /// Asserts the flaws in order and the last authentic sequence number.
    fn check(key: &LedgerKey, lines: &[&Vec<u8>], flaws: &[LineFlaw], head: u64) {
        let mut follower = ChainChecker::new(1, Some(SealHash::NONE));
        let found: Vec<LineFlaw> =
            lines.iter().filter_map(|line| follower.check_line(line, key).flaw).collect();
        assert_eq!((found.as_slice(), follower.position().head()), (flaws, head));
    }

    #[test]
    fn only_the_next_line_is_accepted() {
        let key = LedgerKey::derive(&[1; 32]).unwrap();
        let all = lines(&key, 4);
        let [a, b, c, d] = all.as_slice() else { panic!("four") };
        let junk = b"{}".to_vec();
        let order = |seq, expected| LineFlaw::Order { seq, expected };
        check(&key, &[a, b, c, d], &[], 4);
        check(&key, &[], &[], 0);
        check(&key, &[a, c, d], &[order(3, 2)], 4);
        check(&key, &[a, c, b, d], &[order(3, 2), order(2, 4)], 4);
        check(&key, &[a, b, b, c], &[order(2, 3)], 3);
        check(&key, &[b], &[order(2, 1)], 2);
        check(&key, &[a, &junk, b], &[LineFlaw::Form], 2);
        check(&key, &[a, &junk, c], &[LineFlaw::Form], 3);
        check(&key, &[a, &junk, d], &[LineFlaw::Form, order(4, 3)], 4);
        check(&key, &[a, b, &junk], &[LineFlaw::Form], 2);
        check(&LedgerKey::derive(&[2; 32]).unwrap(), &[a], &[LineFlaw::Seal { seq: 1 }], 0);
        // A line with the right number and the right key, but with another predecessor.
        let body = EntryBody::from_json(&json!({"kind": "note"}), &key).unwrap();
        let mut forked = body.into_sealed_line(&key, 2, Timestamp::UNIX_EPOCH, &SealHash([9; 32])).bytes;
        forked.pop();
        check(&key, &[a, &forked], &[LineFlaw::Link { seq: 2 }], 2);
    }
}
