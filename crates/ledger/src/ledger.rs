//! The ledger as the rest of Sinew sees it.

use std::{
    fs::File,
    path::Path,
    sync::{Arc, Condvar, Mutex, atomic::AtomicBool, atomic::AtomicU64, atomic::Ordering},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::watch;
use tool::{RiskLevel, canonical};

use crate::{
    Filter, Health, Intent, LedgerError, Options, Outcome, Reader, Record, Recovery, State, StateWatch,
    VerifyReport, WhenUnavailable,
    commit::Committer,
    disk::{Disk, Real},
    entry::{Decision, Effect, Entry},
    index::fill,
    intent::Pending,
    open::{self, Opened},
    owed::Care,
    shared::{Queue, Shared, lock},
    writer::Purpose,
};

/// Proof that an entry was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// It is in the record.
    Written {
        /// Its number there.
        seq: u64,
    },
    /// It waits in memory until records are taken again.
    Owed,
}

impl Receipt {
    /// Its number, where it is in the record.
    pub fn seq(self) -> Option<u64> {
        match self {
            Receipt::Written { seq } => Some(seq),
            Receipt::Owed => None,
        }
    }
}

/// The record of everything that was decided and done, open for writing. One per folder, in one process.
///
/// Writing happens on the caller's thread and costs a few microseconds; only what must be durable first is waited
/// for, and all who wait share one sync of the disk. Reading is blocking work.
pub struct Ledger {
    pub(crate) shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    when_unavailable: WhenUnavailable,
    recovered_in: Duration,
    /// Held until the ledger is dropped: the kernel lets go of it also when the process dies.
    _lock: File,
}

impl Ledger {
    /// Opens the ledger in `folder`, creates it where there is none, and puts right what the last writer left.
    /// Blocking.
    pub fn open(folder: &Path, options: &Options) -> Result<(Arc<Ledger>, Recovery), LedgerError> {
        Ledger::open_on(Arc::new(Real), folder, options)
    }

    /// What opening the ledger in `folder` would find, without a change to anything. Nobody may have it open. Blocking.
    pub fn look(folder: &Path, options: &Options) -> Result<Recovery, LedgerError> {
        open::look(folder, options)
    }

    pub(crate) fn open_on(
        disk: Arc<dyn Disk>,
        folder: &Path,
        options: &Options,
    ) -> Result<(Arc<Ledger>, Recovery), LedgerError> {
        let begun = Instant::now();
        let Opened { writer, witness, lock: lock_file, recovery } = open::open(disk, folder, options)?;
        let recovered_in = begun.elapsed();
        let shared = Arc::new(Shared {
            folder: folder.to_owned(),
            key: writer.key.clone(),
            writer: Mutex::new(writer),
            queue: Mutex::new(Queue::default()),
            bell: Condvar::new(),
            state: watch::Sender::new(State::Ready),
            tries: watch::Sender::new(0),
            unsynced: AtomicBool::new(false),
            syncs: AtomicU64::new(0),
            indexed: AtomicU64::new(0),
            closing: AtomicBool::new(false),
        });
        // One ring is enough however many passes it stands for.
        let (ring, rings) = std::sync::mpsc::sync_channel(1);
        let committer = Committer {
            shared: Arc::clone(&shared),
            witness,
            anchors_synced: Instant::now(),
            retained: Instant::now(),
            after_pass: Box::new(move || {
                let _ = ring.try_send(());
            }),
        };
        let filled = Arc::clone(&shared);
        // The first pass looks for old segments and for records without an index.
        lock(&shared.queue).look_within(Duration::ZERO);
        let threads = vec![
            spawn("ledger-commit", folder, move || committer.run())?,
            spawn("ledger-index", folder, move || fill::run(&filled, &rings))?,
        ];
        let (threads, when_unavailable) = (Mutex::new(threads), options.when_unavailable);
        Ok((Arc::new(Ledger { shared, threads, when_unavailable, recovered_in, _lock: lock_file }), recovery))
    }

    /// Records a decision and returns what was decided on as an intent, which is what an executor takes.
    ///
    /// A call that only reads is in the kernel when this returns, one that changes something is on disk. On an error
    /// the value is gone with the permission to act on it: nothing may run. Where reads are let through
    /// ([`WhenUnavailable::AllowReads`]) the record of one can be owed instead.
    pub async fn intend<T>(&self, decision: Decision, value: T) -> Result<Intent<T>, LedgerError> {
        let call = Arc::clone(&decision.call);
        let care = self.care(&decision);
        let entry = Entry::Decision(decision);
        let mut pending = Pending {
            call: Arc::clone(&call),
            shared: Arc::clone(&self.shared),
            why: "given up before it was known to be on disk",
            armed: true,
        };
        let recorded = match care {
            Care::OnDisk => self.record_durably(&entry).await,
            Care::InKernel | Care::MayBeOwed => self.record(&entry).await,
        };
        let receipt = match (recorded, entry) {
            (Ok(seq), _) => Receipt::Written { seq },
            (Err(LedgerError::Unavailable { .. }), Entry::Decision(decision)) if care == Care::MayBeOwed => {
                self.shared.owe(decision)?
            }
            (Err(error), _) => return Err(error),
        };
        pending.armed = false;
        Ok(Intent::new(value, call, receipt, care, Arc::clone(&self.shared)))
    }

    /// How safe the record of a call must be before the call runs.
    fn care(&self, decision: &Decision) -> Care {
        // A repeat must find the decision, whatever happens meanwhile.
        let must_be_found = decision.idempotency_key.is_some();
        if decision.effect == Effect::Changes || decision.risk == RiskLevel::High || must_be_found {
            return Care::OnDisk;
        }
        match self.when_unavailable {
            WhenUnavailable::Refuse => Care::InKernel,
            WhenUnavailable::AllowReads => Care::MayBeOwed,
        }
    }

    /// Records how an intended call ended, in the ledger that holds its intent.
    ///
    /// While nothing can be written the outcome is kept in memory and recorded as soon as there is room; the error
    /// then tells that it is not in the record yet, or, for a read that may be let through, the receipt does.
    pub fn conclude<T>(&self, intent: &Intent<T>, outcome: Outcome) -> Result<Receipt, LedgerError> {
        intent.conclude(outcome)
    }

    /// Records an entry; it is in the kernel when this returns and on disk within a second.
    pub fn append(&self, entry: &Entry) -> Result<Receipt, LedgerError> {
        self.shared.write(entry, Purpose::Work).map(|seq| Receipt::Written { seq })
    }

    /// Records an entry; it is on disk when this returns.
    pub async fn append_durably(&self, entry: &Entry) -> Result<Receipt, LedgerError> {
        self.record_durably(entry).await.map(|seq| Receipt::Written { seq })
    }

    /// Records an entry that must not be lost even where nothing else is taken any more: on a full disk it goes into
    /// the space kept back for ends. It is on disk when this returns.
    pub async fn append_last(&self, entry: &Entry) -> Result<Receipt, LedgerError> {
        let ticket = match self.shared.write_and_queue(entry, Purpose::LastWords) {
            Err(LedgerError::Unavailable { .. }) => {
                self.shared.one_try().await;
                self.shared.write_and_queue(entry, Purpose::LastWords)
            }
            written => written,
        };
        ticket?.durable().await.map(|seq| Receipt::Written { seq })
    }

    /// Stands for a content that the record must not hold: the same content gives the same digest in this ledger,
    /// and without the key nobody can try contents out.
    pub fn keyed_digest(&self, content: &[u8]) -> String {
        canonical::hex(&self.shared.key.digest(content).0)
    }

    /// How the ledger is.
    pub fn health(&self) -> Health {
        let writer = lock(&self.shared.writer);
        Health {
            state: self.shared.state.borrow().clone(),
            head: writer.chain.head(),
            synced: writer.synced,
            recovered_in: self.recovered_in,
            open_intents: u64::try_from(writer.tracker.open_count()).unwrap_or(u64::MAX),
            lost_records: writer.lost,
            turned_away: writer.turned_away,
            owed: u64::try_from(writer.owed.len()).unwrap_or(u64::MAX),
            syncs: self.shared.syncs.load(Ordering::Relaxed),
            segment_bytes: writer.active.length,
            indexed: self.shared.indexed.load(Ordering::Relaxed),
        }
    }

    /// Follows whether records are taken.
    pub fn watch(&self) -> StateWatch {
        StateWatch::new(self.shared.state.subscribe())
    }

    /// The last `count` records, oldest first. Blocking.
    pub fn tail(&self, count: usize) -> Result<Vec<Record>, LedgerError> {
        self.reader().tail(count)
    }

    /// Matching records, newest first. Blocking.
    pub fn query(&self, filter: &Filter) -> Result<Vec<Record>, LedgerError> {
        self.reader().query(filter)
    }

    /// Checks every byte of the record. Blocking.
    pub fn verify(&self) -> Result<VerifyReport, LedgerError> {
        let options = lock(&self.shared.writer).options.clone();
        crate::verify(&self.shared.folder, &options)
    }

    /// Reads the same folder, beside the writer.
    pub fn reader(&self) -> Reader {
        Reader::beside(&self.shared)
    }

    /// Makes everything durable and takes nothing more. Blocking; dropping the ledger does the same.
    pub fn close(&self) {
        lock(&self.shared.queue).stop = true;
        self.shared.closing.store(true, Ordering::Relaxed);
        self.shared.bell.notify_all();
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            if thread.join().is_err() {
                tracing::error!("a thread of the ledger panicked");
            }
        }
    }

    /// A halted ledger may be able to go on by now, so an async caller lets it try once.
    async fn record(&self, entry: &Entry) -> Result<u64, LedgerError> {
        match self.shared.write(entry, Purpose::Work) {
            Err(LedgerError::Unavailable { .. }) => {
                self.shared.one_try().await;
                self.shared.write(entry, Purpose::Work)
            }
            written => written,
        }
    }

    async fn record_durably(&self, entry: &Entry) -> Result<u64, LedgerError> {
        let ticket = match self.shared.write_and_queue(entry, Purpose::Work) {
            Err(LedgerError::Unavailable { .. }) => {
                self.shared.one_try().await;
                self.shared.write_and_queue(entry, Purpose::Work)
            }
            written => written,
        };
        ticket?.durable().await
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
