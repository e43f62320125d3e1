//! Deferred records: outcomes of calls that were started, and read-only calls that were allowed while the
//! ledger was unavailable. They are kept in memory with a bound, and written as soon as the ledger accepts
//! records again.

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

/// Time that the caller of an abandoned call has to record its outcome before the ledger records one.
const GRACE: Duration = Duration::from_secs(2);
/// Limits of deferred read-only calls: their number, and the bytes of their decisions. Beyond them, read-only
/// calls are refused too.
const MOST_READS: usize = 4096;
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// Durability that the decision record of a call needs before the call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Care {
    /// The call can do harm: the record must be on disk.
    OnDisk,
    /// The call is read-only: the record must be written to the kernel.
    InKernel,
    /// The call is read-only and may run while the ledger is unavailable.
    MayBeOwed,
}

/// Deferred records of one call.
#[derive(Debug)]
pub(crate) struct Owed {
    call: Arc<Call>,
    debt: Debt,
    /// Earliest time to write the record, because the caller of an abandoned call may still record its
    /// outcome.
    pub(crate) due: Instant,
}

#[derive(Debug)]
enum Debt {
    /// Outcome of a call whose decision is recorded.
    End(Outcome),
    /// Allowed read-only call: its decision, and its outcome once there is one.
    Read { decision: Box<Entry>, bytes: usize, end: Option<Outcome> },
}

impl Shared {
    /// Allows a read-only call and defers its decision until the ledger accepts records again.
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
        // The anchor needs no new disk blocks, so even on a full disk the count reaches the kernel before the
        // call is answered.
        writer.write_anchor();
        drop(writer);
        // The ledger may be able to accept records by now.
        lock(&self.queue).look_within(Duration::ZERO);
        self.bell.notify_one();
        Ok(Receipt::Owed)
    }

    /// Writes the outcome of a call, or defers it until the ledger can write.
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

    /// Marks a call as abandoned by its caller. The ledger records this outcome after `GRACE`, unless another
    /// one is recorded before.
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

    /// Writes the deferred records that are due.
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
    /// Writes the deferred records of one call and returns those that could not be written.
    fn pay(&mut self, owed: Owed) -> Option<Owed> {
        let Owed { call, debt, due } = owed;
        match debt {
            // The caller may have recorded an outcome in the meantime.
            Debt::End(_) if !self.tracker.is_open(call.call_id) => None,
            Debt::End(outcome) => {
                let entry = Entry::Outcome(Concluded { call: Arc::clone(&call), outcome: outcome.clone() });
                self.pay_entry(&entry).is_err().then(|| Owed { call, debt: Debt::End(outcome), due })
            }
            Debt::Read { decision, bytes, end } => {
                // The line and the count change together; a crash in between would count the call twice or
                // not at all.
                self.reads_owed = self.reads_owed.saturating_sub(1);
                if self.pay_entry(&decision).is_err() {
                    self.reads_owed += 1;
                    return Some(Owed { call, debt: Debt::Read { decision, bytes, end }, due });
                }
                // Without an outcome it is an ordinary open call from here on.
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

    /// Returns the place for the outcome of a deferred read-only call. A call that was superseded before it
    /// started is decided again, so the newest decision is the one without an outcome.
    fn owed_end(&mut self, call: &Call) -> Option<&mut Option<Outcome>> {
        self.owed.iter_mut().rev().find_map(|owed| match &mut owed.debt {
            Debt::Read { end, .. } if owed.call.call_id == call.call_id => Some(end),
            Debt::Read { .. } | Debt::End(_) => None,
        })
    }

    /// Returns the number of deferred read-only calls and the bytes of their decisions.
    fn owed_reads(&self) -> (usize, usize) {
        self.owed.iter().fold((0, 0), |(reads, taken), owed| match &owed.debt {
            Debt::Read { bytes, .. } => (reads + 1, taken + bytes),
            Debt::End(_) => (reads, taken),
        })
    }
}
