//! Simulated JetStream: subjects with sequence numbers, compare-and-set, and message ids that are forgotten after the
//! deduplication window.

use std::collections::BTreeMap;

use crate::mirroring::{BatchHeader, LedgerHead, StoredHead};

/// Deduplication window of nats-server by default.
pub(crate) const DEDUPLICATION_WINDOW_MS: u64 = 120_000;

/// Batch on its way to the engine.
#[derive(Clone, Debug)]
pub(crate) struct Publish {
    pub(crate) header: BatchHeader,
    /// Sequence number that the last message on the subject must have. `None` relies on the message id.
    pub(crate) expected: Option<u64>,
}

impl Publish {
    fn message_id(&self) -> (u64, u64) {
        (self.header.first, self.header.last.seq)
    }
}

/// Subject of one host.
#[derive(Default)]
struct Subject {
    batches: Vec<(u64, BatchHeader)>,
    /// Time and sequence number by message id.
    ids: BTreeMap<(u64, u64), (u64, u64)>,
}

/// Simulated engine.
#[derive(Default)]
pub(crate) struct Engine {
    subjects: BTreeMap<usize, Subject>,
    next: u64,
}

impl Engine {
    /// Stores a batch and returns its sequence number. `None` if compare-and-set refuses it.
    pub(crate) fn publish(&mut self, host: usize, publish: Publish, now: u64) -> Option<u64> {
        let subject = self.subjects.entry(host).or_default();
        let last = subject.batches.last().map_or(0, |(seq, _)| *seq);
        match publish.expected {
            Some(expected) if expected != last => return None,
            Some(_) => {}
            None => {
                subject.ids.retain(|_, (at, _)| now.saturating_sub(*at) <= DEDUPLICATION_WINDOW_MS);
                if let Some((_, seq)) = subject.ids.get(&publish.message_id()) {
                    return Some(*seq);
                }
            }
        }
        self.next += 1;
        subject.ids.insert(publish.message_id(), (now, self.next));
        subject.batches.push((self.next, publish.header));
        Some(self.next)
    }

    /// Returns the last batch on the subject of a host.
    pub(crate) fn head(&self, host: usize) -> Option<StoredHead> {
        let (stream_seq, header) = self.subjects.get(&host)?.batches.last()?;
        let head = LedgerHead { seq: header.last.seq, hash: header.last.hash.clone() };
        Some(StoredHead { stream_seq: *stream_seq, ledger: header.ledger.clone(), head })
    }

    /// Returns all batches of a host, in the order of the stream.
    pub(crate) fn batches(&self, host: usize) -> impl Iterator<Item = &BatchHeader> {
        self.subjects
            .get(&host)
            .into_iter()
            .flat_map(|subject| subject.batches.iter().map(|(_, batch)| batch))
    }
}
