//! Auditor: compares the heartbeats and the mirrored batches of all hosts, and raises an alarm for everything that an
//! honest host does not produce. The seals of a ledger are keyed, so it compares seals and recomputes none.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use tool::Mode;

use super::{BatchHeader, LedgerHead};
use crate::SubjectToken;

/// Time without a heartbeat after which a host is absent.
const ABSENT_AFTER_MS: u64 = 45_000;
/// Time for which a heartbeat may be ahead of the mirrored records.
const MAX_LAG_MS: u64 = 120_000;
/// Heads that are remembered for each host, to find two records with one number.
const MAX_HEADS: usize = 256;

/// Sign of life of a host, every 15 seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// Host.
    pub host: SubjectToken,
    /// Time of the host in milliseconds.
    pub at: u64,
    /// Version of Sinew.
    pub version: String,
    /// Mode in effect.
    pub mode: Mode,
    /// Epoch of the last mode order of the fleet that the host has applied.
    pub mode_epoch: u64,
    /// Revision of the policy bundle that the host has taken; 0 without one.
    pub policy: u64,
    /// State of that bundle in words: in effect, waiting, rejected.
    pub policy_state: String,
    /// Id of the ledger.
    pub ledger: String,
    /// Last synced record.
    pub head: LedgerHead,
    /// Last record that the server has, as far as the host knows.
    pub mirrored: u64,
}

/// Something that an honest host with a working connection does not produce.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "alarm", rename_all = "snake_case")]
pub enum Alarm {
    /// Two different records have one sequence number.
    Fork {
        /// Sequence number.
        seq: u64,
    },
    /// The head moved back.
    Truncation {
        /// Highest head seen before.
        from: u64,
        /// Head now.
        to: u64,
    },
    /// A batch does not continue the one before it.
    Gap {
        /// Expected first record.
        expected: u64,
        /// First record of the batch.
        found: u64,
    },
    /// The first record of a batch does not contain the seal of the last record before it.
    BrokenLink {
        /// First record of the batch.
        seq: u64,
    },
    /// The host claims records that it does not send.
    HeadWithoutRecords {
        /// Claimed head.
        claimed: u64,
        /// Last mirrored record.
        mirrored: u64,
    },
    /// No heartbeat arrived.
    Silence {
        /// Milliseconds since the last one.
        for_ms: u64,
    },
    /// The ledger of the host is another one than before.
    UnknownLedger {
        /// Id of the new ledger.
        ledger: String,
    },
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alarm::Fork { seq } => write!(f, "fork: two different records have number {seq}"),
            Alarm::Truncation { from, to } => {
                write!(f, "truncation: the head moved back from {from} to {to}")
            }
            Alarm::Gap { expected, found } => {
                write!(f, "gap: record {found} follows, where {expected} was expected")
            }
            Alarm::BrokenLink { seq } => {
                write!(f, "broken chain: record {seq} does not follow its predecessor")
            }
            Alarm::HeadWithoutRecords { claimed, mirrored } => {
                write!(f, "records withheld: the host is at {claimed}, its mirror at {mirrored}")
            }
            Alarm::Silence { for_ms } => write!(f, "silence: no heartbeat for {} s", for_ms / 1000),
            Alarm::UnknownLedger { ledger } => write!(f, "unknown ledger: {ledger}"),
        }
    }
}

/// State of one host.
#[derive(Debug)]
struct HostView {
    ledger: String,
    /// Highest head of heartbeats and batches.
    highest: u64,
    /// Last mirrored record.
    mirrored: Option<LedgerHead>,
    /// Seals by sequence number, from heartbeats and from the ends of batches.
    heads: BTreeMap<u64, String>,
    last_beat: u64,
    /// Time since which heartbeats are ahead of the mirror.
    behind_since: Option<u64>,
    reported_silence: bool,
}

/// Auditor of all hosts.
#[derive(Debug, Default)]
pub struct Auditor {
    hosts: BTreeMap<SubjectToken, HostView>,
}

impl Auditor {
    /// Starts to expect heartbeats of a host.
    pub fn expect_host(&mut self, host: &SubjectToken, now: u64) {
        self.hosts.entry(host.clone()).or_insert_with(|| HostView::new(String::new(), now));
    }

    /// Examines a heartbeat with a valid signature.
    pub fn heartbeat(&mut self, beat: &Heartbeat, now: u64) -> Vec<Alarm> {
        let (view, mut alarms) = self.view(&beat.host, &beat.ledger, now);
        (view.last_beat, view.reported_silence) = (now, false);
        view.note_head(&beat.head, &mut alarms);
        let mirrored = view.mirrored.as_ref().map_or(0, |head| head.seq);
        if beat.head.seq <= mirrored {
            view.behind_since = None;
        } else if now.saturating_sub(*view.behind_since.get_or_insert(now)) > MAX_LAG_MS {
            alarms.push(Alarm::HeadWithoutRecords { claimed: beat.head.seq, mirrored });
        }
        alarms
    }

    /// Examines a batch with a valid signature and hash, in the order of the stream.
    pub fn batch(&mut self, batch: &BatchHeader, now: u64) -> Vec<Alarm> {
        let (view, mut alarms) = self.view(&batch.host, &batch.ledger, now);
        if let Some(before) = &view.mirrored {
            let expected = before.seq + 1;
            if batch.first > expected {
                alarms.push(Alarm::Gap { expected, found: batch.first });
            } else if batch.first < expected {
                alarms.push(Alarm::Truncation { from: before.seq, to: batch.first.saturating_sub(1) });
            } else if batch.previous != before.hash {
                alarms.push(Alarm::BrokenLink { seq: batch.first });
            }
        } else if batch.first > 1 {
            alarms.push(Alarm::Gap { expected: 1, found: batch.first });
        }
        // Records may arrive after a heartbeat that is ahead of them, so only the seals are compared.
        view.note_hash(&batch.last, &mut alarms);
        view.highest = view.highest.max(batch.last.seq);
        if view.behind_since.is_some() {
            view.behind_since = Some(now);
        }
        view.mirrored = Some(batch.last.clone());
        alarms
    }

    /// Reports hosts that have become silent, once each.
    pub fn tick(&mut self, now: u64) -> Vec<(SubjectToken, Alarm)> {
        let mut alarms = Vec::new();
        for (host, view) in &mut self.hosts {
            let for_ms = now.saturating_sub(view.last_beat);
            if for_ms > ABSENT_AFTER_MS && !view.reported_silence {
                view.reported_silence = true;
                alarms.push((host.clone(), Alarm::Silence { for_ms }));
            }
        }
        alarms
    }

    /// Returns the state of a host. A host that is seen for the first time is taken with the ledger that it has.
    fn view(&mut self, host: &SubjectToken, ledger: &str, now: u64) -> (&mut HostView, Vec<Alarm>) {
        let new = || HostView::new(ledger.to_owned(), now);
        let view = self.hosts.entry(host.clone()).or_insert_with(new);
        let mut alarms = Vec::new();
        if view.ledger != ledger {
            if !view.ledger.is_empty() {
                alarms.push(Alarm::UnknownLedger { ledger: ledger.to_owned() });
            }
            *view = HostView { last_beat: view.last_beat, ..HostView::new(ledger.to_owned(), now) };
        }
        (view, alarms)
    }
}

impl HostView {
    fn new(ledger: String, now: u64) -> HostView {
        HostView {
            ledger,
            highest: 0,
            mirrored: None,
            heads: BTreeMap::new(),
            last_beat: now,
            behind_since: None,
            reported_silence: false,
        }
    }

    /// Takes the head of a heartbeat, which never moves back.
    fn note_head(&mut self, head: &LedgerHead, alarms: &mut Vec<Alarm>) {
        if head.seq < self.highest {
            alarms.push(Alarm::Truncation { from: self.highest, to: head.seq });
        }
        self.highest = self.highest.max(head.seq);
        self.note_hash(head, alarms);
    }

    fn note_hash(&mut self, head: &LedgerHead, alarms: &mut Vec<Alarm>) {
        if head.seq == 0 {
            return;
        }
        let known = self.heads.entry(head.seq).or_insert_with(|| head.hash.clone());
        if *known != head.hash {
            alarms.push(Alarm::Fork { seq: head.seq });
        }
        while self.heads.len() > MAX_HEADS {
            self.heads.pop_first();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(seq: u64) -> String {
        format!("h{seq}")
    }

    fn beat(ledger: &str, seq: u64, hash: &str) -> Heartbeat {
        Heartbeat {
            host: "a".parse().unwrap(),
            at: 0,
            version: "0.1.0".to_owned(),
            mode: Mode::Normal,
            mode_epoch: 0,
            policy: 0,
            policy_state: String::new(),
            ledger: ledger.to_owned(),
            head: LedgerHead { seq, hash: hash.to_owned() },
            mirrored: 0,
        }
    }

    fn batch(first: u64, last: u64) -> BatchHeader {
        BatchHeader {
            host: "a".parse().unwrap(),
            ledger: "l".to_owned(),
            first,
            last: LedgerHead { seq: last, hash: hash(last) },
            previous: hash(first - 1),
            sha256: String::new(),
        }
    }

    /// Event of a case: a heartbeat or a batch.
    enum Event {
        Beat(Heartbeat),
        Batch(BatchHeader),
    }

    /// Asserts all alarms of events at one time.
    fn check(events: &[Event], expect: &[Alarm]) {
        let mut auditor = Auditor::default();
        let alarms = events.iter().flat_map(|event| match event {
            Event::Beat(beat) => auditor.heartbeat(beat, 0),
            Event::Batch(batch) => auditor.batch(batch, 0),
        });
        assert_eq!(alarms.collect::<Vec<_>>(), expect);
    }

    #[test]
    fn deviations_of_a_ledger_are_found() {
        let sent = |first, last| Event::Batch(batch(first, last));
        let alive = |seq: u64| Event::Beat(beat("l", seq, &hash(seq)));
        check(&[alive(0), sent(1, 5), alive(5), sent(6, 9), alive(9)], &[]);
        check(&[alive(9), sent(1, 5), sent(6, 9), alive(12)], &[]);
        check(&[sent(1, 5), alive(9), alive(8)], &[Alarm::Truncation { from: 9, to: 8 }]);
        check(&[sent(1, 5), sent(3, 9)], &[Alarm::Truncation { from: 5, to: 2 }]);
        check(&[sent(1, 5), sent(7, 9)], &[Alarm::Gap { expected: 6, found: 7 }]);
        check(&[sent(2, 5)], &[Alarm::Gap { expected: 1, found: 2 }]);
        let relinked = Event::Batch(BatchHeader { previous: "x".to_owned(), ..batch(6, 9) });
        check(&[sent(1, 5), relinked], &[Alarm::BrokenLink { seq: 6 }]);
        let fork = Event::Beat(beat("l", 9, "other"));
        check(&[sent(1, 9), fork], &[Alarm::Fork { seq: 9 }]);
        let other = || Event::Beat(beat("m", 1, "x"));
        check(&[sent(1, 9), other()], &[Alarm::UnknownLedger { ledger: "m".to_owned() }]);
    }

    #[test]
    fn silence_and_withheld_records_are_found() {
        let mut auditor = Auditor::default();
        let host: SubjectToken = "a".parse().unwrap();
        auditor.expect_host(&host, 0);
        assert_eq!(auditor.tick(ABSENT_AFTER_MS), []);
        let silence = Alarm::Silence { for_ms: ABSENT_AFTER_MS + 1 };
        assert_eq!(auditor.tick(ABSENT_AFTER_MS + 1), [(host, silence)]);
        assert_eq!(auditor.tick(ABSENT_AFTER_MS + 2), [], "once");
        let claimed = beat("l", 9, "h9");
        assert_eq!(auditor.heartbeat(&claimed, 50_000), []);
        assert_eq!(auditor.heartbeat(&claimed, 50_000 + MAX_LAG_MS), []);
        let late = auditor.heartbeat(&claimed, 50_001 + MAX_LAG_MS);
        assert_eq!(late, [Alarm::HeadWithoutRecords { claimed: 9, mirrored: 0 }]);
        assert_eq!(auditor.batch(&batch(1, 9), 300_000), []);
        assert_eq!(auditor.heartbeat(&claimed, 300_001 + MAX_LAG_MS), []);
    }
}
