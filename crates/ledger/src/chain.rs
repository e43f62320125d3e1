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

    /// Checks a line (without its newline) and goes past it.
    pub(crate) fn follow<'a>(&mut self, text: &'a [u8], key: &Key) -> Result<Parts<'a>, Flaw> {
        let parts = line::parts(text).ok_or(Flaw::Form)?;
        let seq = parts.seq;
        if !parts.is_authentic(key) {
            return Err(Flaw::Seal { seq });
        }
        if seq != self.next {
            return Err(Flaw::Order { seq, expected: self.next });
        }
        if parts.prev != self.prev {
            return Err(Flaw::Link { seq });
        }
        self.advance(parts.hash);
        Ok(parts)
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
            let mut out = Vec::new();
            let body = Body::new(&json!({"kind": "note", "n": seq}), key).unwrap();
            let hash = line::write(&mut out, key, seq, Timestamp::UNIX_EPOCH, &body, &chain.prev);
            chain.advance(hash);
            out.pop();
            out
        };
        (1..=count).map(one).collect()
    }

    fn check(key: &Key, lines: &[&Vec<u8>], expect: Result<u64, Flaw>) {
        let mut chain = Chain::START;
        let result = lines.iter().try_for_each(|line| chain.follow(line, key).map(|_| ()));
        assert_eq!(result.map(|()| chain.head()), expect);
    }

    #[test]
    fn only_the_next_line_follows() {
        let key = Key::derive(&[1; 32]).unwrap();
        let all = lines(&key, 4);
        let [a, b, c, d] = all.as_slice() else { panic!("four") };
        check(&key, &[a, b, c, d], Ok(4));
        check(&key, &[], Ok(0));
        check(&key, &[a, c, d], Err(Flaw::Order { seq: 3, expected: 2 }));
        check(&key, &[a, c, b, d], Err(Flaw::Order { seq: 3, expected: 2 }));
        check(&key, &[a, b, b, c], Err(Flaw::Order { seq: 2, expected: 3 }));
        check(&key, &[b], Err(Flaw::Order { seq: 2, expected: 1 }));
        check(&key, &[a, &b"{}".to_vec()], Err(Flaw::Form));
        let other = Key::derive(&[2; 32]).unwrap();
        check(&other, &[a], Err(Flaw::Seal { seq: 1 }));
        // The right number, sealed by the right key, but grown from another past.
        let mut forked = Vec::new();
        let body = Body::new(&json!({"kind": "note"}), &key).unwrap();
        line::write(&mut forked, &key, 2, Timestamp::UNIX_EPOCH, &body, &Hash([9; 32]));
        forked.pop();
        check(&key, &[a, &forked], Err(Flaw::Link { seq: 2 }));
    }
}
