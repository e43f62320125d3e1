//! Deferred records: outcomes of calls that were started, and read-only calls that were allowed while the
//! ledger was unavailable. They are kept in memory with a bound, and written as soon as the ledger accepts
//! records again.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use jiff::Timestamp;

use crate::{
    LedgerError, RecordReceipt,
    entry::{
        CallHeader, LedgerEntry, LedgerOutcome, OutcomeStatus, RecordedDecision, RecordedOutcome,
        RecordedRead,
    },
    line::EntryBody,
    shared::{LedgerShared, MAX_UNSYNCED_TIME, lock},
    writer::{LedgerWriter, WritePurpose},
};

/// Time that the caller of an abandoned call has to record its outcome before the ledger records one.
const ABANDONED_GRACE: Duration = Duration::from_secs(2);
/// Limits of deferred read-only calls: their number, and the bytes of their decisions. Beyond them, read-only
/// calls are refused too.
const MAX_DEFERRED_READS: usize = 4096;
const MAX_DEFERRED_BYTES: usize = 4 * 1024 * 1024;

/// Durability that the decision record of a call needs before the call runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequiredDurability {
    /// The call can do harm: the record must be on disk.
    OnDisk,
    /// The call is read-only: the record must be written to the kernel.
    InKernel,
    /// The call is read-only and may run while the ledger is unavailable.
    Deferrable,
}

/// Deferred records of one call.
#[derive(Debug)]
pub(crate) struct DeferredRecord {
    call: Arc<CallHeader>,
    content: DeferredContent,
    /// Earliest time to write the record, because the caller of an abandoned call may still record its
    /// outcome.
    pub(crate) due: Instant,
}

#[derive(Debug)]
enum DeferredContent {
    /// Outcome of a call whose decision is recorded.
    Outcome(LedgerOutcome),
    /// Allowed read-only call: its decision, and its outcome once there is one.
    ReadOnlyCall { decision: Box<LedgerEntry>, bytes: usize, end: Option<LedgerOutcome> },
}

impl LedgerShared {
    /// Allows a read-only call and defers its decision until the ledger accepts records again.
    pub(crate) fn defer_read(&self, mut decision: RecordedDecision) -> Result<RecordReceipt, LedgerError> {
        decision.decided_at = Some(Timestamp::now());
        let call = Arc::clone(&decision.call);
        let entry = LedgerEntry::Decision(decision);
        let bytes = EntryBody::new(&entry, &self.key)?.len();
        let mut writer = lock(&self.writer);
        let (reads, taken) = writer.deferred_read_totals();
        if reads >= MAX_DEFERRED_READS || taken + bytes > MAX_DEFERRED_BYTES {
            let reason =
                writer.halt.as_ref().map_or_else(|| "it was down".into(), |halt| Arc::clone(&halt.reason));
            let reason = format!("{reason}; {reads} reads are already waiting to be recorded").into();
            return Err(LedgerError::Unavailable { reason });
        }
        let content = DeferredContent::ReadOnlyCall { decision: Box::new(entry), bytes, end: None };
        writer.deferred.push(DeferredRecord { call, content, due: Instant::now() });
        writer.deferred_reads += 1;
        // The anchor needs no new disk blocks, so even on a full disk the count reaches the kernel before the
        // call is answered.
        writer.write_anchor();
        drop(writer);
        // The ledger may be able to accept records by now.
        lock(&self.queue).schedule_pass_within(Duration::ZERO);
        self.work_available.notify_one();
        Ok(RecordReceipt::Deferred)
    }

    /// Writes a read-only call as one record. While the ledger cannot write, a deferrable call is deferred, and any
    /// other is an error: its result must not leave the daemon.
    pub(crate) fn record_read(
        &self,
        call: RecordedRead,
        care: RequiredDurability,
    ) -> Result<RecordReceipt, LedgerError> {
        let entry = LedgerEntry::Call(call);
        match (self.write(&entry, WritePurpose::NewWork), entry) {
            (Ok(seq), _) => Ok(RecordReceipt::Written { seq }),
            (Err(LedgerError::Unavailable { .. }), LedgerEntry::Call(call))
                if care == RequiredDurability::Deferrable =>
            {
                let header = Arc::clone(&call.decision.call);
                self.defer_read(*call.decision)?;
                self.conclude(&header, call.outcome, care)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Writes the outcome of a call, or defers it until the ledger can write.
    pub(crate) fn conclude(
        &self,
        call: &Arc<CallHeader>,
        outcome: LedgerOutcome,
        care: RequiredDurability,
    ) -> Result<RecordReceipt, LedgerError> {
        let entry = LedgerEntry::Outcome(RecordedOutcome { call: Arc::clone(call), outcome });
        let body = EntryBody::new(&entry, &self.key)?;
        let mut writer = lock(&self.writer);
        let already = LedgerError::AlreadyConcluded(call.call_id);
        if let (Some(end), LedgerEntry::Outcome(concluded)) = (writer.deferred_outcome_mut(call), &entry) {
            if end.is_some() {
                return Err(already);
            }
            *end = Some(concluded.outcome.clone());
            return Ok(RecordReceipt::Deferred);
        }
        if !writer.tracker.is_open(call.call_id) || writer.has_deferred(call) {
            return Err(already);
        }
        let written = writer.append(&entry, body, WritePurpose::FinalRecord);
        if let (Err(LedgerError::Unavailable { .. }), LedgerEntry::Outcome(concluded)) = (&written, entry) {
            let (call, content) = (concluded.call, DeferredContent::Outcome(concluded.outcome));
            writer.deferred.push(DeferredRecord { call, content, due: Instant::now() });
        }
        self.after_write(&writer);
        match written {
            Ok(seq) => Ok(RecordReceipt::Written { seq }),
            Err(LedgerError::Unavailable { .. }) if care == RequiredDurability::Deferrable => {
                Ok(RecordReceipt::Deferred)
            }
            Err(error) => Err(error),
        }
    }

    /// Marks a call as abandoned by its caller. The ledger records this outcome after `GRACE`, unless another
    /// one is recorded before.
    pub(crate) fn abandon(&self, call: &Arc<CallHeader>, status: OutcomeStatus, why: &str) {
        let mut writer = lock(&self.writer);
        let outcome =
            LedgerOutcome { message: Some(why.to_owned()), ..LedgerOutcome::new(status, Duration::ZERO) };
        if let Some(end) = writer.deferred_outcome_mut(call) {
            end.get_or_insert(outcome);
            return;
        }
        if !writer.tracker.is_open(call.call_id) || writer.has_deferred(call) {
            return;
        }
        let content = DeferredContent::Outcome(outcome);
        writer.deferred.push(DeferredRecord {
            call: Arc::clone(call),
            content,
            due: Instant::now() + ABANDONED_GRACE,
        });
        drop(writer);
        lock(&self.queue).schedule_pass_within(ABANDONED_GRACE);
        self.work_available.notify_one();
    }

    /// Writes the deferred records that are due.
    pub(crate) fn write_deferred(&self) {
        let mut writer = lock(&self.writer);
        if writer.halt.is_some() || writer.deferred.is_empty() {
            return;
        }
        let now = Instant::now();
        let due: Vec<DeferredRecord> = writer.deferred.extract_if(.., |owed| owed.due <= now).collect();
        for owed in due {
            if let Some(still) = writer.write_deferred_record(owed) {
                writer.deferred.push(still);
            }
        }
        if let Some(next) = writer.deferred.iter().map(|owed| owed.due).min() {
            lock(&self.queue)
                .schedule_pass_within(next.saturating_duration_since(now).max(Duration::from_millis(50)));
        }
        if !self.unsynced.swap(true, Ordering::AcqRel) {
            lock(&self.queue).schedule_pass_within(MAX_UNSYNCED_TIME);
        }
        self.publish_state(&writer);
    }
}

impl LedgerWriter {
    /// Writes the deferred records of one call and returns those that could not be written.
    fn write_deferred_record(&mut self, owed: DeferredRecord) -> Option<DeferredRecord> {
        let DeferredRecord { call, content, due } = owed;
        match content {
            // The caller may have recorded an outcome in the meantime.
            DeferredContent::Outcome(_) if !self.tracker.is_open(call.call_id) => None,
            DeferredContent::Outcome(outcome) => {
                let entry = LedgerEntry::Outcome(RecordedOutcome {
                    call: Arc::clone(&call),
                    outcome: outcome.clone(),
                });
                self.write_deferred_entry(&entry).is_err().then(|| DeferredRecord {
                    call,
                    content: DeferredContent::Outcome(outcome),
                    due,
                })
            }
            DeferredContent::ReadOnlyCall { decision, bytes, end } => {
                // The line and the count change together; a crash in between would count the call twice or
                // not at all.
                self.deferred_reads = self.deferred_reads.saturating_sub(1);
                if self.write_deferred_entry(&decision).is_err() {
                    self.deferred_reads += 1;
                    return Some(DeferredRecord {
                        call,
                        content: DeferredContent::ReadOnlyCall { decision, bytes, end },
                        due,
                    });
                }
                // Without an outcome it is an ordinary open call from here on.
                self.write_deferred_record(DeferredRecord {
                    call,
                    content: DeferredContent::Outcome(end?),
                    due,
                })
            }
        }
    }

    fn write_deferred_entry(&mut self, entry: &LedgerEntry) -> Result<(), LedgerError> {
        let written = EntryBody::new(entry, &self.key)
            .and_then(|body| self.append(entry, body, WritePurpose::FinalRecord));
        written
            .map(drop)
            .inspect_err(|error| tracing::warn!(%error, "a record is deferred until it can be written"))
    }

    fn has_deferred(&self, call: &CallHeader) -> bool {
        self.deferred.iter().any(|owed| owed.call.call_id == call.call_id)
    }

    /// Returns the place for the outcome of a deferred read-only call. A call that was superseded before it
    /// started is decided again, so the newest decision is the one without an outcome.
    fn deferred_outcome_mut(&mut self, call: &CallHeader) -> Option<&mut Option<LedgerOutcome>> {
        self.deferred.iter_mut().rev().find_map(|owed| match &mut owed.content {
            DeferredContent::ReadOnlyCall { end, .. } if owed.call.call_id == call.call_id => Some(end),
            DeferredContent::ReadOnlyCall { .. } | DeferredContent::Outcome(_) => None,
        })
    }

    /// Returns the number of deferred read-only calls and the bytes of their decisions.
    fn deferred_read_totals(&self) -> (usize, usize) {
        self.deferred.iter().fold((0, 0), |(reads, taken), owed| match &owed.content {
            DeferredContent::ReadOnlyCall { bytes, .. } => (reads + 1, taken + bytes),
            DeferredContent::Outcome(_) => (reads, taken),
        })
    }
}
