//! Public interface of the ledger for the other crates of Sinew.

use std::{
    fs::File,
    path::Path,
    sync::{Arc, Condvar, Mutex, atomic::AtomicBool, atomic::AtomicU64, atomic::Ordering},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::watch;
use tool::caller::EndpointParty;
use tool::{RiskLevel, canonical};

use crate::{
    Intent, LedgerError, LedgerHealthReport, LedgerOptions, LedgerOutcome, LedgerReader, LedgerRecord,
    LedgerRecovery, LedgerState, LedgerStateWatch, RecordFilter, SizeLimitPressure, UnavailablePolicy,
    VerifyReport,
    commit::Committer,
    deferred::RequiredDurability,
    disk::{LedgerDisk, SystemDisk},
    entry::{LedgerEntry, RecordedDecision, RecordedEffect},
    index::fill,
    intent::{IntentDecision, PendingDecision},
    open::{self, OpenedLedger},
    shared::{CommitQueue, LedgerShared, lock},
    writer::WritePurpose,
};

/// Proof that the ledger accepted an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordReceipt {
    /// The entry is written to a segment.
    Written {
        /// Sequence number of the record.
        seq: u64,
    },
    /// The entry is in memory and is written once the ledger accepts records again.
    Deferred,
}

impl RecordReceipt {
    /// Returns the sequence number of a written record.
    pub fn seq(self) -> Option<u64> {
        match self {
            RecordReceipt::Written { seq } => Some(seq),
            RecordReceipt::Deferred => None,
        }
    }
}

/// Ledger opened for writing, at most one per folder and in one process.
///
/// Entries are written on the caller's thread, which takes a few microseconds. A caller waits only for
/// entries that must be durable first, and all waiting callers share one sync of the disk. Reading is
/// blocking work.
pub struct Ledger {
    pub(crate) shared: Arc<LedgerShared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    when_unavailable: UnavailablePolicy,
    recovery_duration: Duration,
    reads_limit: u64,
    /// Lock file, locked until the ledger is dropped. The kernel also releases the lock when the process
    /// dies.
    _lock: File,
}

impl Ledger {
    /// Opens the ledger in `folder`, creates it if there is none, and repairs the state the last writer left.
    /// Blocking.
    pub fn open(
        folder: &Path,
        options: &LedgerOptions,
    ) -> Result<(Arc<Ledger>, LedgerRecovery), LedgerError> {
        Ledger::open_with_disk(Arc::new(SystemDisk), folder, options)
    }

    /// Returns what opening the ledger in `folder` would find, without changing anything. No process may have
    /// it open for writing. Blocking.
    pub fn inspect(folder: &Path, options: &LedgerOptions) -> Result<LedgerRecovery, LedgerError> {
        open::inspect(folder, options)
    }

    pub(crate) fn open_with_disk(
        disk: Arc<dyn LedgerDisk>,
        folder: &Path,
        options: &LedgerOptions,
    ) -> Result<(Arc<Ledger>, LedgerRecovery), LedgerError> {
        let begun = Instant::now();
        let OpenedLedger { writer, witness, lock: lock_file, recovery } = open::open(disk, folder, options)?;
        let recovery_duration = begun.elapsed();
        let shared = Arc::new(LedgerShared {
            folder: folder.to_owned(),
            key: writer.key.clone(),
            writer: Mutex::new(writer),
            queue: Mutex::new(CommitQueue::default()),
            work_available: Condvar::new(),
            state: watch::Sender::new(LedgerState::Ready),
            resume_attempts: watch::Sender::new(0),
            unsynced: AtomicBool::new(false),
            syncs: AtomicU64::new(0),
            indexed: AtomicU64::new(0),
            index_wanted: AtomicBool::new(false),
            older_bytes: AtomicU64::new(0),
            pressure: watch::Sender::new(SizeLimitPressure::default()),
            closing: AtomicBool::new(false),
        });
        let (index_wakeup, wakeups) = std::sync::mpsc::sync_channel(1);
        let committer = Committer {
            shared: Arc::clone(&shared),
            witness,
            last_anchor_sync: Instant::now(),
            last_retention: Instant::now(),
            index_wakeup,
        };
        let filled = Arc::clone(&shared);
        // The first pass checks for expired segments and for records missing from the index.
        lock(&shared.queue).schedule_pass_within(Duration::ZERO);
        let threads = vec![
            spawn("ledger-commit", folder, move || committer.run())?,
            spawn("ledger-index", folder, move || fill::run(&filled, &wakeups))?,
        ];
        let (threads, when_unavailable) = (Mutex::new(threads), options.when_unavailable);
        let reads_limit = options.reads_limit();
        let ledger =
            Ledger { shared, threads, when_unavailable, recovery_duration, reads_limit, _lock: lock_file };
        Ok((Arc::new(ledger), recovery))
    }

    /// Records a decision and returns its value as an intent, which an executor requires to run the call.
    ///
    /// When this returns, the decision on a read-only call is written to the kernel, and the decision on a
    /// call that changes something is on disk. On an error the value is dropped, so that the call cannot run.
    /// With [`UnavailablePolicy::AllowReads`] the decision on a read-only call may stay in memory while the
    /// ledger is unavailable.
    pub async fn intend<T>(&self, decision: RecordedDecision, value: T) -> Result<Intent<T>, LedgerError> {
        self.check_read_limit(&decision)?;
        let call = Arc::clone(&decision.call);
        let care = self.required_durability(&decision);
        let entry = LedgerEntry::Decision(decision);
        let mut pending = PendingDecision {
            call: Arc::clone(&call),
            shared: Arc::clone(&self.shared),
            reason: "abandoned before it was synced to disk",
            armed: true,
        };
        let recorded = match care {
            RequiredDurability::OnDisk => self.append_durably_with_retry(&entry, WritePurpose::NewWork).await,
            RequiredDurability::InKernel | RequiredDurability::Deferrable => {
                self.append_with_retry(&entry).await
            }
        };
        let receipt = match (recorded, entry) {
            (Ok(seq), _) => RecordReceipt::Written { seq },
            (Err(LedgerError::Unavailable { .. }), LedgerEntry::Decision(decision))
                if care == RequiredDurability::Deferrable =>
            {
                self.shared.defer_read(decision)?
            }
            (Err(error), _) => return Err(error),
        };
        pending.armed = false;
        let decision = IntentDecision::Recorded(receipt);
        Ok(Intent::new(value, call, decision, care, Arc::clone(&self.shared)))
    }

    /// Like `intend`, for a call that only reads inside the daemon: its decision is recorded together with its
    /// outcome. The caller must not let the result leave the daemon before [`Ledger::conclude`] has returned `Ok`.
    ///
    /// A decision that must be on record before the call runs (a change, a high risk, an idempotency key, an
    /// approval) is still recorded at once. So is every decision while the ledger is unavailable.
    pub async fn intend_read<T>(
        &self,
        decision: RecordedDecision,
        value: T,
    ) -> Result<Intent<T>, LedgerError> {
        let care = self.required_durability(&decision);
        let needs_record = care == RequiredDurability::OnDisk || decision.approval_id.is_some();
        if needs_record || *self.shared.state.borrow() != LedgerState::Ready {
            return self.intend(decision, value).await;
        }
        self.check_read_limit(&decision)?;
        let call = Arc::clone(&decision.call);
        let decision = IntentDecision::WithOutcome(Mutex::new(Some(Box::new(decision))));
        Ok(Intent::new(value, call, decision, care, Arc::clone(&self.shared)))
    }

    /// Refuses an agent's read-only call once only the share of the size limit reserved for records of
    /// changes is left.
    fn check_read_limit(&self, decision: &RecordedDecision) -> Result<(), LedgerError> {
        let is_agents = decision.call.caller.endpoint.party() == EndpointParty::Agents;
        let bytes = self.shared.older_bytes.load(Ordering::Relaxed);
        if decision.effect == RecordedEffect::Changes || !is_agents || bytes < self.reads_limit {
            return Ok(());
        }
        Err(LedgerError::ReadsRefused { bytes, max_bytes: self.reads_limit / 3 * 4 })
    }

    /// Returns the durability that the decision record needs before the call runs.
    fn required_durability(&self, decision: &RecordedDecision) -> RequiredDurability {
        // A repeated call must find the decision, even after a crash.
        let must_be_found = decision.idempotency_key.is_some();
        if decision.effect == RecordedEffect::Changes || decision.risk == RiskLevel::High || must_be_found {
            return RequiredDurability::OnDisk;
        }
        match self.when_unavailable {
            UnavailablePolicy::Refuse => RequiredDurability::InKernel,
            UnavailablePolicy::AllowReads => RequiredDurability::Deferrable,
        }
    }

    /// Records the outcome of an intended call, in the ledger that recorded its intent.
    ///
    /// While the ledger cannot write, it keeps the outcome in memory and records it as soon as it can. It
    /// then returns an error, or `Receipt::Owed` for a read-only call that was allowed while unavailable.
    pub fn conclude<T>(
        &self,
        intent: &Intent<T>,
        outcome: LedgerOutcome,
    ) -> Result<RecordReceipt, LedgerError> {
        intent.conclude(outcome)
    }

    /// Counts all records in the anchor. The records of reads are not counted when they are written: a caller that
    /// sends several replies together counts them once, before the replies leave the daemon.
    pub fn anchor_records(&self) {
        let mut writer = lock(&self.shared.writer);
        if writer.anchor.seq < writer.chain.head() {
            writer.write_anchor();
        }
    }

    /// Records an entry. It is written to the kernel when this returns, and synced to disk within a second.
    pub fn append(&self, entry: &LedgerEntry) -> Result<RecordReceipt, LedgerError> {
        self.shared.write(entry, WritePurpose::NewWork).map(|seq| RecordReceipt::Written { seq })
    }

    /// Records an entry. It is on disk when this returns.
    pub async fn append_durably(&self, entry: &LedgerEntry) -> Result<RecordReceipt, LedgerError> {
        self.append_durably_with_retry(entry, WritePurpose::NewWork)
            .await
            .map(|seq| RecordReceipt::Written { seq })
    }

    /// Records an entry that must not be lost even when the ledger accepts no other entries: on a full disk
    /// it uses the reserved space. It is on disk when this returns.
    pub async fn append_final(&self, entry: &LedgerEntry) -> Result<RecordReceipt, LedgerError> {
        self.append_durably_with_retry(entry, WritePurpose::FinalRecord)
            .await
            .map(|seq| RecordReceipt::Written { seq })
    }

    /// Returns a keyed digest of content that must not appear in the ledger. Equal content has equal digests
    /// in one ledger, and without the key the content cannot be guessed by trial.
    pub fn keyed_digest(&self, content: &[u8]) -> String {
        canonical::hex(&self.shared.key.digest(content).0)
    }

    /// Returns the digest of `keyed_digest` for the ledger in `folder`, which is not opened. Blocking.
    pub fn keyed_digest_of(
        folder: &Path,
        options: &LedgerOptions,
        content: &[u8],
    ) -> Result<String, LedgerError> {
        open::load_key(folder, options).map(|key| canonical::hex(&key.digest(content).0))
    }

    /// Returns the current state and counters of the ledger.
    pub fn health(&self) -> LedgerHealthReport {
        let writer = lock(&self.shared.writer);
        LedgerHealthReport {
            state: self.shared.state.borrow().clone(),
            head: writer.chain.head(),
            synced: writer.synced,
            recovery_duration: self.recovery_duration,
            open_intents: u64::try_from(writer.tracker.open_count()).unwrap_or(u64::MAX),
            lost_records: writer.lost_records,
            rejected_entries: writer.rejected,
            deferred_records: u64::try_from(writer.deferred.len()).unwrap_or(u64::MAX),
            syncs: self.shared.syncs.load(Ordering::Relaxed),
            segment_bytes: writer.active.length,
            bytes: self.shared.older_bytes.load(Ordering::Relaxed) + writer.active.length,
            removed: writer.tracker.removed(),
            pressure: *self.shared.pressure.borrow(),
            indexed: self.shared.indexed.load(Ordering::Relaxed),
        }
    }

    /// Subscribes to changes between accepting and not accepting records.
    pub fn watch(&self) -> LedgerStateWatch {
        LedgerStateWatch::new(self.shared.state.subscribe())
    }

    /// Returns the size limit of all segments together.
    pub fn max_bytes(&self) -> Option<u64> {
        lock(&self.shared.writer).options.max_bytes
    }

    /// Subscribes to the effects of the size limit.
    pub fn watch_pressure(&self) -> watch::Receiver<SizeLimitPressure> {
        self.shared.pressure.subscribe()
    }

    /// Returns the last `count` records, oldest first. Blocking.
    pub fn tail(&self, count: usize) -> Result<Vec<LedgerRecord>, LedgerError> {
        self.reader().tail(count)
    }

    /// Returns matching records, newest first. Blocking.
    pub fn query(&self, filter: &RecordFilter) -> Result<Vec<LedgerRecord>, LedgerError> {
        self.reader().query(filter)
    }

    /// Verifies every byte of the ledger. Blocking.
    pub fn verify(&self) -> Result<VerifyReport, LedgerError> {
        let options = lock(&self.shared.writer).options.clone();
        crate::verify(&self.shared.folder, &options)
    }

    /// Returns a reader of this folder. Its queries read the records that are not indexed from the segments, so
    /// the index is filled soon, even under load.
    pub fn reader(&self) -> LedgerReader {
        self.shared.index_wanted.store(true, Ordering::Relaxed);
        LedgerReader::new(&self.shared.folder)
    }

    /// Makes all records durable and accepts no further ones. Blocking. Dropping the ledger does this too.
    pub fn close(&self) {
        lock(&self.shared.queue).stop = true;
        self.shared.closing.store(true, Ordering::Relaxed);
        self.shared.work_available.notify_all();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            if thread.join().is_err() {
                tracing::error!("a thread of the ledger panicked");
            }
        }
    }

    /// A halted ledger may be able to resume by now, so an async caller waits for one attempt.
    async fn append_with_retry(&self, entry: &LedgerEntry) -> Result<u64, LedgerError> {
        match self.shared.write(entry, WritePurpose::NewWork) {
            Err(LedgerError::Unavailable { .. }) => {
                self.shared.wait_for_resume_attempt().await;
                self.shared.write(entry, WritePurpose::NewWork)
            }
            written => written,
        }
    }

    async fn append_durably_with_retry(
        &self,
        entry: &LedgerEntry,
        purpose: WritePurpose,
    ) -> Result<u64, LedgerError> {
        let ticket = match self.shared.write_and_queue(entry, purpose) {
            Err(LedgerError::Unavailable { .. }) => {
                self.shared.wait_for_resume_attempt().await;
                self.shared.write_and_queue(entry, purpose)
            }
            written => written,
        };
        ticket?.wait_durable().await
    }
}

fn spawn(
    name: &str,
    folder: &Path,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, LedgerError> {
    let spawned = std::thread::Builder::new().name(name.into()).spawn(work);
    spawned.map_err(LedgerError::io("start a thread for", folder))
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ledger").field("folder", &self.shared.folder).finish_non_exhaustive()
    }
}
