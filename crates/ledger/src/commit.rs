//! Commit thread: makes written lines durable in groups, and resumes a halted ledger.
//!
//! While one sync runs, lines and waiters gather for the next (group commit). A failed sync is final for its
//! segment: the state of the kernel's pages is then unknown, and a later successful sync proves nothing.

use std::{
    fs::File,
    sync::{Arc, atomic::Ordering, mpsc::SyncSender},
    time::{Duration, Instant},
};

use jiff::Timestamp;

use crate::{
    anchor::AnchorFile,
    entry::LedgerEntry,
    health::SizeLimitPressure,
    resume, retention,
    shared::{CommitQueue, LedgerShared, RESUME_INTERVAL, lock},
    writer::{HaltKind, WritePurpose, WriterHalt},
};

/// Interval of syncing the anchors; in between they are only in the kernel.
const ANCHOR_SYNC_INTERVAL: Duration = Duration::from_secs(5);

/// Interval of retention checks by age; a new segment triggers a check too.
const RETENTION_INTERVAL: Duration = Duration::from_secs(3600);

/// State of the commit thread.
pub(crate) struct Committer {
    pub(crate) shared: Arc<LedgerShared>,
    pub(crate) witness: Option<AnchorFile>,
    pub(crate) last_anchor_sync: Instant,
    pub(crate) last_retention: Instant,
    /// Wakes the index thread after every pass.
    pub(crate) index_wakeup: SyncSender<()>,
}

enum StopRequested {
    Yes,
    No,
}

/// Fails all waiters when the commit thread panics, because nothing would complete them any more.
impl Drop for Committer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = "the commit thread of the ledger ended unexpectedly";
            let mut writer = lock(&self.shared.writer);
            writer.halt_writing(HaltKind::Broken, reason);
            self.shared.publish_state(&writer);
            lock(&self.shared.queue).stop = true;
            self.fail_all_waiters(&reason.into());
            self.shared.resume_attempts.send_modify(|count| *count += 1);
        }
    }
}

impl Committer {
    /// Runs until the ledger is closed.
    pub(crate) fn run(mut self) {
        loop {
            let stop = self.wait();
            self.sync();
            if self.is_halted() {
                self.try_to_resume();
            }
            // Incremented after every pass, because a caller may have requested an attempt when none was
            // needed any more.
            self.shared.resume_attempts.send_modify(|count| *count += 1);
            self.shared.write_deferred();
            self.apply_retention();
            self.write_witness();
            // A full channel is enough: one message covers any number of passes.
            let _ = self.index_wakeup.try_send(());
            if let StopRequested::Yes = stop {
                self.close();
                return;
            }
        }
    }

    fn wait(&self) -> StopRequested {
        let mut queue = lock(&self.shared.queue);
        loop {
            let CommitQueue { waiters, next_pass, resume_requested, stop } = &*queue;
            let now = Instant::now();
            if *stop {
                return StopRequested::Yes;
            }
            if *resume_requested || !waiters.is_empty() || next_pass.is_some_and(|at| at <= now) {
                queue.next_pass = None;
                queue.resume_requested = false;
                return StopRequested::No;
            }
            let work_available = &self.shared.work_available;
            queue = match *next_pass {
                Some(at) => work_available
                    .wait_timeout(queue, at - now)
                    .map_or_else(|e| e.into_inner().0, |(queue, _)| queue),
                None => work_available.wait(queue).unwrap_or_else(std::sync::PoisonError::into_inner),
            };
        }
    }

    fn is_halted(&self) -> bool {
        lock(&self.shared.writer).halt.is_some()
    }

    /// Syncs everything written so far.
    fn sync(&self) {
        let shared = &self.shared;
        shared.unsynced.store(false, Ordering::Release);
        let mut writer = lock(&shared.writer);
        if let Some(WriterHalt { kind: HaltKind::Broken, reason, .. }) = writer.halt.clone() {
            drop(writer);
            return self.fail_all_waiters(&reason);
        }
        if let Some(tampering) = writer.detect_tampering() {
            writer.halt_writing(HaltKind::Broken, &tampering);
            shared.publish_state(&writer);
            return self.fail_all_waiters(&tampering.into());
        }
        let (upto, names, retired) =
            (writer.chain.head(), writer.names_changed, writer.unsynced_segments.len());
        if upto == writer.synced && !names {
            drop(writer);
            return self.notify_durable(upto);
        }
        let mut files: Vec<Arc<File>> =
            writer.unsynced_segments.iter().map(|active| Arc::clone(&active.file)).collect();
        files.push(Arc::clone(&writer.active.file));
        let (disk, folder) = (Arc::clone(&writer.disk), Arc::clone(&writer.folder_file));
        drop(writer);

        shared.syncs.fetch_add(1, Ordering::Relaxed);
        let synced = files.iter().try_for_each(|file| disk.sync(file));
        let result = if names { synced.and_then(|()| disk.sync_folder(&folder)) } else { synced };

        let mut writer = lock(&shared.writer);
        match result {
            Ok(()) => {
                writer.synced = upto;
                let done = retired.min(writer.unsynced_segments.len());
                writer.unsynced_segments.drain(..done);
                writer.names_changed = writer.names_changed && !writer.unsynced_segments.is_empty();
                writer.write_anchor();
                drop(writer);
                self.notify_durable(upto);
            }
            Err(error) => {
                let reason = format!("cannot make {} durable: {error}", writer.active.segment.name());
                writer.halt_writing(HaltKind::Broken, &reason);
                shared.publish_state(&writer);
                // The writer's lock is still taken, so every entry written before the halt is in the queue.
                self.fail_all_waiters(&reason.into());
            }
        }
    }

    fn notify_durable(&self, upto: u64) {
        let mut queue = lock(&self.shared.queue);
        for waiter in queue.waiters.extract_if(.., |waiter| waiter.seq <= upto) {
            // Sending fails if the call was cancelled; its guard records that.
            let _ = waiter.result_sender.send(Ok(()));
        }
    }

    fn fail_all_waiters(&self, reason: &Arc<str>) {
        for waiter in std::mem::take(&mut lock(&self.shared.queue).waiters) {
            let _ = waiter.result_sender.send(Err(Arc::clone(reason)));
        }
    }

    fn try_to_resume(&self) {
        if let Err(error) = resume::resume(&self.shared) {
            tracing::warn!(%error, "the ledger cannot resume yet");
            lock(&self.shared.queue).schedule_pass_within(RESUME_INTERVAL);
        }
    }

    /// Removes old segments once the retention entry is durable.
    fn apply_retention(&mut self) {
        let shared = Arc::clone(&self.shared);
        let due = std::mem::take(&mut lock(&shared.writer).retention_due)
            || self.last_retention.elapsed() >= RETENTION_INTERVAL;
        if !due || self.is_halted() {
            return;
        }
        self.last_retention = Instant::now();
        let (options, open, removed) = {
            let mut writer = lock(&shared.writer);
            if retention::should_rotate_by_age(&writer.active, &writer.options, Timestamp::now()) {
                writer.rotate();
            }
            let open = retention::OpenSegmentSize {
                first: writer.active.segment.first,
                length: writer.active.length,
            };
            (writer.options.clone(), open, writer.tracker.removed())
        };
        let survey = match retention::survey(&shared.folder, open, &options, removed, Timestamp::now()) {
            Ok(survey) => survey,
            Err(error) => return tracing::warn!(%error, "cannot look for old ledger segments"),
        };
        shared.older_bytes.store(survey.older_bytes, Ordering::Relaxed);
        let pressure = SizeLimitPressure {
            removed_segments: removed.under_pressure,
            reads_refused: survey.older_bytes >= options.reads_limit(),
        };
        shared.report_pressure(pressure);
        let Some(plan) = survey.plan else { return };
        match shared.write(&LedgerEntry::Retention(plan.entry.clone()), WritePurpose::NewWork) {
            Ok(seq) => {
                self.sync();
                if lock(&shared.writer).synced >= seq {
                    plan.execute();
                    let removed_segments = plan.entry.total.under_pressure;
                    shared.report_pressure(SizeLimitPressure { removed_segments, ..pressure });
                }
            }
            Err(error) => {
                tracing::warn!(%error, "old ledger segments are not removed: their removal could not be recorded")
            }
        }
    }

    fn write_witness(&mut self) {
        let Some(witness) = &self.witness else { return };
        let rendered = {
            let writer = lock(&self.shared.writer);
            writer.anchor.render(&self.shared.key)
        };
        if let Err(error) = witness.write(&rendered) {
            tracing::warn!(%error, "cannot update the ledger's second anchor");
        }
        if self.last_anchor_sync.elapsed() >= ANCHOR_SYNC_INTERVAL {
            self.sync_anchors();
        }
    }

    fn sync_anchors(&mut self) {
        self.last_anchor_sync = Instant::now();
        let ours = lock(&self.shared.writer).anchor_file.try_clone();
        let synced = ours.and_then(|ours| ours.sync());
        let witness = self.witness.as_ref().map_or(Ok(()), AnchorFile::sync);
        if let Err(error) = synced.and(witness) {
            tracing::warn!(%error, "cannot make the ledger's anchors durable");
        }
    }

    /// Runs the last pass; the ledger accepts nothing after it.
    fn close(&mut self) {
        lock(&self.shared.writer).deferred.iter_mut().for_each(|owed| owed.due = Instant::now());
        if !self.is_halted() {
            self.shared.write_deferred();
            self.sync();
        }
        let mut writer = lock(&self.shared.writer);
        let in_good_order = writer.halt.is_none();
        if !writer.deferred.is_empty() {
            tracing::error!(
                records = writer.deferred.len(),
                "the ledger closes with deferred records, which are lost"
            );
        }
        writer.halt_writing(HaltKind::Closed, "it was closed");
        if in_good_order {
            writer.write_anchor();
        }
        self.shared.publish_state(&writer);
        self.fail_all_waiters(&"it was closed".into());
        drop(writer);
        self.write_witness();
        self.sync_anchors();
        self.shared.resume_attempts.send_modify(|count| *count += 1);
    }
}
