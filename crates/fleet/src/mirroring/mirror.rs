//! State machine that copies the synced records of one ledger to its subject: one batch in flight, and after any
//! error it fetches its own head and goes on after it.
//!
//! Compare-and-set on the sequence number of the subject makes a batch arrive once. Message ids do not: the server
//! forgets them after its deduplication window and then stores a repeat again.

use serde::{Deserialize, Serialize};

use crate::{FleetError, SubjectToken};

/// Position in a ledger: the last record and its seal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerHead {
    /// Sequence number; 0 before the first record.
    pub seq: u64,
    /// Seal of the record, in hexadecimal.
    pub hash: String,
}

/// Signed description of a batch of records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchHeader {
    /// Host whose ledger it is.
    pub host: SubjectToken,
    /// Id of the ledger. It changes if the ledger of a host is created anew.
    pub ledger: String,
    /// Sequence number of the first record.
    pub first: u64,
    /// Last record.
    pub last: LedgerHead,
    /// Seal of the record before the first, which the first record contains.
    pub previous: String,
    /// SHA-256 of the records, uncompressed.
    pub sha256: String,
}

/// Last batch on the subject of a host, as fetched from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHead {
    /// Sequence number of the message in the stream.
    pub stream_seq: u64,
    /// Ledger of the batch.
    pub ledger: String,
    /// Last record of the batch.
    pub head: LedgerHead,
}

/// Next action of the mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MirrorStep {
    /// Fetch the last batch on the own subject.
    FetchHead,
    /// Send records from this one on.
    Send {
        /// Sequence number that the last message on the subject must have.
        expected: u64,
        /// Sequence number of the first record.
        first: u64,
    },
    /// There is nothing to send, or a batch is in flight.
    Wait,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum MirrorState {
    /// The last mirrored record is unknown.
    Unknown,
    /// The server has everything up to `head`.
    Known { stream_seq: u64, head: LedgerHead },
    /// A batch up to `sent` is in flight.
    InFlight { sent: LedgerHead },
}

/// Mirror of one ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    ledger: String,
    state: MirrorState,
}

impl Mirror {
    /// Creates the mirror of a ledger. It begins by asking the server for its head.
    pub fn new(ledger: String) -> Mirror {
        Mirror { ledger, state: MirrorState::Unknown }
    }

    /// Returns the next action. `synced` is the last record that a power failure cannot take back: an unsynced number
    /// may be used again for another record.
    pub fn step(&self, synced: u64) -> MirrorStep {
        match &self.state {
            MirrorState::Unknown => MirrorStep::FetchHead,
            MirrorState::Known { stream_seq, head } if head.seq < synced => {
                MirrorStep::Send { expected: *stream_seq, first: head.seq + 1 }
            }
            MirrorState::Known { .. } | MirrorState::InFlight { .. } => MirrorStep::Wait,
        }
    }

    /// Takes the last batch on the subject. `local_hash` returns the seal of a record of the local ledger. A mirror
    /// that contradicts the ledger is an error, and nothing is sent: that would be a fork.
    pub fn fetched(
        &mut self,
        stored: Option<StoredHead>,
        synced: u64,
        local_hash: impl FnOnce(u64) -> Option<String>,
    ) -> Result<(), FleetError> {
        let start = LedgerHead { seq: 0, hash: String::new() };
        self.state = match stored {
            None => MirrorState::Known { stream_seq: 0, head: start },
            // The records of an earlier ledger stay; the auditor reports the new id.
            Some(stored) if stored.ledger != self.ledger => {
                MirrorState::Known { stream_seq: stored.stream_seq, head: start }
            }
            Some(stored) => {
                let LedgerHead { seq, hash } = &stored.head;
                if *seq > synced {
                    let reason = format!("record {seq} was mirrored, and the ledger ends at record {synced}");
                    return Err(FleetError::Mirror(reason));
                }
                if local_hash(*seq).is_some_and(|local| local != *hash) {
                    let reason = format!("record {seq} has another seal than its mirrored copy");
                    return Err(FleetError::Mirror(reason));
                }
                MirrorState::Known { stream_seq: stored.stream_seq, head: stored.head }
            }
        };
        Ok(())
    }

    /// Notes that a batch up to `head` was sent.
    pub fn sent(&mut self, head: LedgerHead) {
        self.state = MirrorState::InFlight { sent: head };
    }

    /// Notes that the server stored the batch in flight. An acknowledgement without a batch in flight belongs to an
    /// earlier attempt and changes nothing.
    pub fn acknowledged(&mut self, stream_seq: u64) {
        if let MirrorState::InFlight { sent } = &self.state {
            self.state = MirrorState::Known { stream_seq, head: sent.clone() };
        }
    }

    /// Notes any failure: the batch may have been stored or not.
    pub fn failed(&mut self) {
        self.state = MirrorState::Unknown;
    }

    /// Returns the last record that the server is known to have.
    pub fn mirrored(&self) -> Option<&LedgerHead> {
        match &self.state {
            MirrorState::Known { head, .. } => Some(head),
            MirrorState::Unknown | MirrorState::InFlight { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(seq: u64) -> LedgerHead {
        LedgerHead { seq, hash: format!("h{seq}") }
    }

    fn stored(ledger: &str, stream_seq: u64, seq: u64) -> StoredHead {
        StoredHead { stream_seq, ledger: ledger.to_owned(), head: head(seq) }
    }

    /// Asserts the next step after fetching a head, or a part of the error.
    fn check(stored: Option<StoredHead>, synced: u64, expect: Result<MirrorStep, &str>) {
        let mut mirror = Mirror::new("a".to_owned());
        assert_eq!(mirror.step(synced), MirrorStep::FetchHead);
        let fetched = mirror.fetched(stored, synced, |seq| Some(format!("h{seq}")));
        match (fetched, expect) {
            (Ok(()), Ok(step)) => assert_eq!(mirror.step(synced), step),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{error}");
                assert_eq!(mirror.step(synced), MirrorStep::FetchHead, "nothing is sent");
            }
            (found, expect) => panic!("{found:?} is not {expect:?}"),
        }
    }

    #[test]
    fn mirror_goes_on_after_its_own_head() {
        check(None, 0, Ok(MirrorStep::Wait));
        check(None, 5, Ok(MirrorStep::Send { expected: 0, first: 1 }));
        check(Some(stored("a", 70, 3)), 5, Ok(MirrorStep::Send { expected: 70, first: 4 }));
        check(Some(stored("a", 70, 5)), 5, Ok(MirrorStep::Wait));
        check(Some(stored("b", 70, 5)), 2, Ok(MirrorStep::Send { expected: 70, first: 1 }));
        check(Some(stored("a", 70, 6)), 5, Err("the ledger ends at record 5"));
        let forked = StoredHead { head: LedgerHead { seq: 3, hash: "x".to_owned() }, ..stored("a", 70, 3) };
        check(Some(forked), 5, Err("another seal"));
    }

    #[test]
    fn one_batch_is_in_flight_and_a_failure_asks_again() {
        let mut mirror = Mirror::new("a".to_owned());
        mirror.fetched(None, 9, |_| None).unwrap();
        mirror.sent(head(4));
        assert_eq!(mirror.step(9), MirrorStep::Wait);
        mirror.acknowledged(12);
        assert_eq!(mirror.step(9), MirrorStep::Send { expected: 12, first: 5 });
        mirror.sent(head(9));
        mirror.failed();
        assert_eq!(mirror.step(9), MirrorStep::FetchHead);
        mirror.acknowledged(13);
        assert_eq!(mirror.step(9), MirrorStep::FetchHead, "a late acknowledgement proves nothing");
        mirror.fetched(Some(stored("a", 13, 9)), 9, |_| None).unwrap();
        assert_eq!((mirror.step(9), mirror.mirrored()), (MirrorStep::Wait, Some(&head(9))));
    }
}
