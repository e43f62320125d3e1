//! What must still be written: the ends of calls that were begun, and reads that were let through while no record could
//! be taken. Kept in memory, bounded, and written as soon as records are taken again.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use jiff::Timestamp;

use crate::{
    LedgerError, Receipt,
    entry::{Call, Concluded, Decision, Entry, Outcome, Status},
    line::Body,
    shared::{SYNC_WITHIN, Shared, lock},
    writer::{Purpose, Writer},
};

/// How long whoever gave a call up has to record its end before the ledger does.
const GRACE: Duration = Duration::from_secs(2);
/// How many reads may be owed, and how much their decisions may take: beyond, reads are refused as well.
const MOST_READS: usize = 4096;
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// How safe the record of a call must be before the call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Care {
    /// It can do harm.
    OnDisk,
    /// It only looks.
    InKernel,
    /// It only looks, and may do so while nothing can be recorded.
    MayBeOwed,
}

/// What must still be written of one call.
#[derive(Debug)]
pub(crate) struct Owed {
    call: Arc<Call>,
    debt: Debt,
    /// Not before this: whoever gave the call up may be about to record its end.
    pub(crate) due: Instant,
}

#[derive(Debug)]
enum Debt {
    /// The end of a call whose decision is on record.
    End(Outcome),
    /// A read that was let through: its decision, and its end once there is one.
    Read { decision: Box<Entry>, bytes: usize, end: Option<Outcome> },
}

impl Shared {
    /// Lets a read through: its decision is written when records are taken again.
    pub(crate) fn owe(&self, mut decision: Decision) -> Result<Receipt, LedgerError> {
        decision.decided_at = Some(Timestamp::now());
        let call = Arc::clone(&decision.call);
        let entry = Entry::Decision(decision);
        let bytes = Body::new(&entry, &self.key)?.len();
        let mut writer = lock(&self.writer);
        let (reads, taken) = writer.owed_reads();
        if reads >= MOST_READS || taken + bytes > MOST_BYTES {
            let reason =
                writer.halt.as_ref().map_or_else(|| "it was down".into(), |halt| Arc::clone(&halt.reason));
            let reason = format!("{reason}; and {reads} reads already wait to be recorded").into();
            return Err(LedgerError::Unavailable { reason });
        }
        let debt = Debt::Read { decision: Box::new(entry), bytes, end: None };
        writer.owed.push(Owed { call, debt, due: Instant::now() });
        writer.reads_owed += 1;
        // The anchor needs no room: also on a full disk the number is in the kernel before the read is answered.
        writer.write_anchor();
        drop(writer);
        // Records may be taken again by now.
        lock(&self.queue).look_within(Duration::ZERO);
        self.bell.notify_one();
        Ok(Receipt::Owed)
    }

    /// Writes the end of a call, or keeps it until there is room.
    pub(crate) fn conclude(
        &self,
        call: &Arc<Call>,
        outcome: Outcome,
        care: Care,
    ) -> Result<Receipt, LedgerError> {
        let entry = Entry::Outcome(Concluded { call: Arc::clone(call), outcome });
        let body = Body::new(&entry, &self.key)?;
        let mut writer = lock(&self.writer);
        let already = LedgerError::AlreadyConcluded(call.call_id);
        if let (Some(end), Entry::Outcome(concluded)) = (writer.owed_end(call), &entry) {
            if end.is_some() {
                return Err(already);
            }
            *end = Some(concluded.outcome.clone());
            return Ok(Receipt::Owed);
        }
        if !writer.tracker.is_open(call.call_id) || writer.owes(call) {
            return Err(already);
        }
        let written = writer.append(&entry, body, Purpose::LastWords);
        if let (Err(LedgerError::Unavailable { .. }), Entry::Outcome(concluded)) = (&written, entry) {
            let (call, debt) = (concluded.call, Debt::End(concluded.outcome));
            writer.owed.push(Owed { call, debt, due: Instant::now() });
        }
        self.after_write(&writer);
        match written {
            Ok(seq) => Ok(Receipt::Written { seq }),
            Err(LedgerError::Unavailable { .. }) if care == Care::MayBeOwed => Ok(Receipt::Owed),
            Err(error) => Err(error),
        }
    }

    /// Notes that nobody will conclude this call. Its end is recorded unless somebody does after all.
    pub(crate) fn abandon(&self, call: &Arc<Call>, status: Status, why: &str) {
        let mut writer = lock(&self.writer);
        let outcome = Outcome { message: Some(why.to_owned()), ..Outcome::new(status, Duration::ZERO) };
        if let Some(end) = writer.owed_end(call) {
            end.get_or_insert(outcome);
            return;
        }
        if !writer.tracker.is_open(call.call_id) || writer.owes(call) {
            return;
        }
        let debt = Debt::End(outcome);
        writer.owed.push(Owed { call: Arc::clone(call), debt, due: Instant::now() + GRACE });
        drop(writer);
        lock(&self.queue).look_within(GRACE);
        self.bell.notify_one();
    }

    /// Writes what is owed and due.
    pub(crate) fn settle(&self) {
        let mut writer = lock(&self.writer);
        if writer.halt.is_some() || writer.owed.is_empty() {
            return;
        }
        let now = Instant::now();
        let due: Vec<Owed> = writer.owed.extract_if(.., |owed| owed.due <= now).collect();
        for owed in due {
            if let Some(still) = writer.pay(owed) {
                writer.owed.push(still);
            }
        }
        if let Some(next) = writer.owed.iter().map(|owed| owed.due).min() {
            lock(&self.queue).look_within(next.saturating_duration_since(now).max(Duration::from_millis(50)));
        }
        if !self.unsynced.swap(true, Ordering::AcqRel) {
            lock(&self.queue).look_within(SYNC_WITHIN);
        }
        self.publish(&writer);
    }
}

impl Writer {
    /// Writes what is owed of one call and returns what still is.
    fn pay(&mut self, owed: Owed) -> Option<Owed> {
        let Owed { call, debt, due } = owed;
        match debt {
            // Somebody may have recorded an end after all.
            Debt::End(_) if !self.tracker.is_open(call.call_id) => None,
            Debt::End(outcome) => {
                let entry = Entry::Outcome(Concluded { call: Arc::clone(&call), outcome: outcome.clone() });
                self.pay_entry(&entry).is_err().then(|| Owed { call, debt: Debt::End(outcome), due })
            }
            Debt::Read { decision, bytes, end } => {
                // The line and the number change together, or a crash in between would count it twice or never.
                self.reads_owed = self.reads_owed.saturating_sub(1);
                if self.pay_entry(&decision).is_err() {
                    self.reads_owed += 1;
                    return Some(Owed { call, debt: Debt::Read { decision, bytes, end }, due });
                }
                // Without an end it is from here on a call like any other.
                self.pay(Owed { call, debt: Debt::End(end?), due })
            }
        }
    }

    fn pay_entry(&mut self, entry: &Entry) -> Result<(), LedgerError> {
        let written =
            Body::new(entry, &self.key).and_then(|body| self.append(entry, body, Purpose::LastWords));
        written
            .map(drop)
            .inspect_err(|error| tracing::warn!(%error, "a record waits until it can be written"))
    }

    fn owes(&self, call: &Call) -> bool {
        self.owed.iter().any(|owed| owed.call.call_id == call.call_id)
    }

    /// Where the end of an owed read goes. A call that was overtaken before it began is decided again: the newest
    /// decision is the one that is still without an end.
    fn owed_end(&mut self, call: &Call) -> Option<&mut Option<Outcome>> {
        self.owed.iter_mut().rev().find_map(|owed| match &mut owed.debt {
            Debt::Read { end, .. } if owed.call.call_id == call.call_id => Some(end),
            Debt::Read { .. } | Debt::End(_) => None,
        })
    }

    /// How many reads are owed, and how many bytes their decisions take.
    fn owed_reads(&self) -> (usize, usize) {
        self.owed.iter().fold((0, 0), |(reads, taken), owed| match &owed.debt {
            Debt::Read { bytes, .. } => (reads + 1, taken + bytes),
            Debt::End(_) => (reads, taken),
        })
    }
}
