//! The order of lines: numbers without gaps, each line naming the seal of the one before. Pure.

use std::fmt;

use crate::{
    hash::Hash,
    key::Key,
    line::{self, Parts},
};

/// A place between two lines: what the next one must say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Chain {
    /// The number of the next line.
    pub(crate) next: u64,
    /// The seal of the last line.
    pub(crate) prev: Hash,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// It has not the form of a record.
    Form,
    /// Its bytes are not those that were sealed, or another key sealed them.
    Seal { seq: u64 },
    /// It is a record, but not the next one.
    Order { seq: u64, expected: u64 },
    /// It is numbered right but follows another line than the one before it.
    Link { seq: u64 },
}

impl Chain {
    /// The beginning of a ledger.
    pub(crate) const START: Chain = Chain { next: 1, prev: Hash::NONE };

    /// The number of the last line; 0 before the first.
    pub(crate) fn head(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// Goes past a line that was just written.
    pub(crate) fn advance(&mut self, hash: Hash) {
        *self = Chain { next: self.next + 1, prev: hash };
    }
}

/// Reads a chain line by line, and finds its way again behind a damaged line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Follower {
    next: u64,
    /// Unknown at the start of a segment read alone.
    prev: Option<Hash>,
    /// Damaged lines since the last authentic one: as many numbers may be skipped without another word.
    damaged: u64,
}

/// What one line turned out to be.
#[derive(Debug, PartialEq)]
pub(crate) struct Step<'a> {
    /// The line, if it is authentic and not a repetition: the chain goes on from it.
    pub(crate) parts: Option<Parts<'a>>,
    /// What is wrong with it or with what should be before it.
    pub(crate) flaw: Option<Flaw>,
}

impl Follower {
    /// From the line with this number on.
    pub(crate) fn new(next: u64, prev: Option<Hash>) -> Follower {
        Follower { next, prev, damaged: 0 }
    }

    /// The number that should come next.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The last number that the lines seen so far can stand for.
    pub(crate) fn reach(&self) -> u64 {
        self.next.saturating_sub(1) + self.damaged
    }

    /// The place behind the last authentic line.
    pub(crate) fn place(&self) -> Chain {
        Chain { next: self.next, prev: self.prev.unwrap_or(Hash::NONE) }
    }

    /// Judges a line (without its newline).
    pub(crate) fn follow<'a>(&mut self, text: &'a [u8], key: &Key) -> Step<'a> {
        let Some(parts) = line::parts(text) else { return self.damage(Flaw::Form) };
        let (seq, expected) = (parts.seq, self.next);
        if !parts.is_authentic(key) {
            return self.damage(Flaw::Seal { seq });
        }
        if seq < expected {
            return Step { parts: None, flaw: Some(Flaw::Order { seq, expected }) };
        }
        let linked = self.damaged > 0 || self.prev.is_none_or(|prev| prev == parts.prev);
        let flaw = match () {
            () if seq > expected + self.damaged => {
                Some(Flaw::Order { seq, expected: expected + self.damaged })
            }
            () if seq == expected && !linked => Some(Flaw::Link { seq }),
            () => None,
        };
        *self = Follower { next: seq + 1, prev: Some(parts.hash), damaged: 0 };
        Step { parts: Some(parts), flaw }
    }

    fn damage(&mut self, flaw: Flaw) -> Step<'static> {
        self.damaged += 1;
        Step { parts: None, flaw: Some(flaw) }
    }
}

impl Flaw {
    /// The number the line carries, where it can be read.
    pub(crate) fn seq(&self) -> Option<u64> {
        match self {
            Flaw::Form => None,
            Flaw::Seal { seq } | Flaw::Order { seq, .. } | Flaw::Link { seq } => Some(*seq),
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Form => f.write_str("this line has not the form of a record"),
            Flaw::Seal { seq } => write!(f, "record {seq} was changed: its seal does not fit its bytes"),
            Flaw::Order { seq, expected } if seq > expected => {
                write!(f, "record {seq} stands where record {expected} belongs: {} missing", seq - expected)
            }
            Flaw::Order { seq, expected } => {
                write!(f, "record {seq} stands where record {expected} belongs: moved or repeated")
            }
            Flaw::Link { seq } => write!(f, "record {seq} does not follow the record before it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::line::Body;

    fn lines(key: &Key, count: u64) -> Vec<Vec<u8>> {
        let mut chain = Chain::START;
        let one = |seq| {
            let body = Body::new(&json!({"kind": "note", "n": seq}), key).unwrap();
            let line = body.sealed(key, seq, Timestamp::UNIX_EPOCH, &chain.prev);
            chain.advance(line.hash);
            line.bytes().strip_suffix(b"\n").unwrap().to_vec()
        };
        (1..=count).map(one).collect()
    }

    /// The flaws in order, and the last authentic number.
    fn check(key: &Key, lines: &[&Vec<u8>], flaws: &[Flaw], head: u64) {
        let mut follower = Follower::new(1, Some(Hash::NONE));
        let found: Vec<Flaw> = lines.iter().filter_map(|line| follower.follow(line, key).flaw).collect();
        assert_eq!((found.as_slice(), follower.place().head()), (flaws, head));
    }

    #[test]
    fn only_the_next_line_follows() {
        let key = Key::derive(&[1; 32]).unwrap();
        let all = lines(&key, 4);
        let [a, b, c, d] = all.as_slice() else { panic!("four") };
        let junk = b"{}".to_vec();
        let order = |seq, expected| Flaw::Order { seq, expected };
        check(&key, &[a, b, c, d], &[], 4);
        check(&key, &[], &[], 0);
        check(&key, &[a, c, d], &[order(3, 2)], 4);
        check(&key, &[a, c, b, d], &[order(3, 2), order(2, 4)], 4);
        check(&key, &[a, b, b, c], &[order(2, 3)], 3);
        check(&key, &[b], &[order(2, 1)], 2);
        check(&key, &[a, &junk, b], &[Flaw::Form], 2);
        check(&key, &[a, &junk, c], &[Flaw::Form], 3);
        check(&key, &[a, &junk, d], &[Flaw::Form, order(4, 3)], 4);
        check(&key, &[a, b, &junk], &[Flaw::Form], 2);
        check(&Key::derive(&[2; 32]).unwrap(), &[a], &[Flaw::Seal { seq: 1 }], 0);
        // The right number, sealed by the right key, but grown from another past.
        let body = Body::new(&json!({"kind": "note"}), &key).unwrap();
        let mut forked = body.sealed(&key, 2, Timestamp::UNIX_EPOCH, &Hash([9; 32])).bytes().to_vec();
        forked.pop();
        check(&key, &[a, &forked], &[Flaw::Link { seq: 2 }], 2);
    }
}
