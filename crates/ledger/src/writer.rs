//! Writer of the ledger: the only place where lines are numbered, sealed and written. It is always used under
//! one lock on the caller's thread, with one `write(2)` per line. The `commit` module makes lines durable.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    LedgerError, LedgerOptions,
    anchor::{Anchor, AnchorFile, WriterState},
    chain::ChainPosition,
    deferred::DeferredRecord,
    disk::{self, LedgerDisk},
    entry::{AbandonedSegment, LedgerEntry, NoteEntry, RecordedEffect},
    key::LedgerKey,
    line::EntryBody,
    segment::{self, OpenSegment},
    tracker::LedgerStateTracker,
};

/// Purpose of an entry, which determines when it is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WritePurpose {
    /// New work: accepted only while the ledger is ready.
    NewWork,
    /// Final records, such as outcomes of started calls: on a full disk also accepted into the reserved
    /// space.
    FinalRecord,
}

/// Reason why the ledger accepts no entries.
#[derive(Clone, Debug)]
pub(crate) struct WriterHalt {
    pub(crate) reason: Arc<str>,
    pub(crate) since: Timestamp,
    pub(crate) kind: HaltKind,
}

/// Cause of a halt, which determines the state of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HaltKind {
    /// The disk is full; the segment is complete.
    Full,
    /// The segment can no longer be trusted.
    Broken,
    /// A new segment is being created: not even final records are accepted.
    Resuming,
    /// The ledger was closed.
    Closed,
}

/// End of the ledger and everything needed to append to it.
#[derive(Debug)]
pub(crate) struct LedgerWriter {
    pub(crate) folder: PathBuf,
    pub(crate) options: LedgerOptions,
    pub(crate) disk: Arc<dyn LedgerDisk>,
    pub(crate) key: LedgerKey,
    pub(crate) chain: ChainPosition,
    pub(crate) active: OpenSegment,
    pub(crate) tracker: LedgerStateTracker,
    pub(crate) halt: Option<WriterHalt>,
    /// Segments that have a successor and are not durable yet.
    pub(crate) unsynced_segments: Vec<OpenSegment>,
    /// Open folder, so that syncing file names needs no new descriptor.
    pub(crate) folder_file: Arc<File>,
    /// The folder has file names that are not durable yet.
    pub(crate) names_changed: bool,
    /// Retention should check for old segments.
    pub(crate) retention_due: bool,
    pub(crate) synced: u64,
    pub(crate) deferred: Vec<DeferredRecord>,
    /// Allowed read-only calls whose decisions are not written yet.
    pub(crate) deferred_reads: u64,
    pub(crate) rejected: u64,
    /// Value of `rejected` when the halt began.
    pub(crate) rejected_before_halt: u64,
    pub(crate) lost_records: u64,
    pub(crate) anchor: Anchor,
    pub(crate) anchor_file: AnchorFile,
    pub(crate) anchor_failing: bool,
    /// Length at which the next rotation is attempted.
    pub(crate) rotate_at: u64,
}

impl LedgerWriter {
    /// Writes one entry and returns its sequence number.
    pub(crate) fn append(
        &mut self,
        entry: &LedgerEntry,
        body: EntryBody,
        purpose: WritePurpose,
    ) -> Result<u64, LedgerError> {
        self.admit(purpose)?;
        if self.active.length >= self.rotate_at {
            self.rotate();
        }
        let (seq, time) = (self.chain.next, Timestamp::now());
        let line = body.into_sealed_line(&self.key, seq, time, &self.chain.prev);
        if let Err(error) = self.active.write(&*self.disk, &line.bytes) {
            return Err(self.handle_write_failure(&error, purpose));
        }
        self.chain.advance(line.hash);
        self.tracker.apply(entry, time);
        if !is_anchored_later(entry) {
            self.write_anchor();
        }
        Ok(seq)
    }

    fn admit(&mut self, purpose: WritePurpose) -> Result<(), LedgerError> {
        let Some(halt) = &self.halt else { return Ok(()) };
        match halt.kind {
            HaltKind::Closed => return Err(LedgerError::Closed),
            HaltKind::Full if purpose == WritePurpose::FinalRecord => return Ok(()),
            HaltKind::Full | HaltKind::Broken | HaltKind::Resuming => {}
        }
        Err(self.reject(purpose))
    }

    fn reject(&mut self, purpose: WritePurpose) -> LedgerError {
        // Final records that cannot be written are deferred, not rejected.
        if purpose == WritePurpose::NewWork {
            self.rejected += 1;
        }
        let reason = self.halt.as_ref().map_or_else(|| "it failed".into(), |halt| Arc::clone(&halt.reason));
        LedgerError::Unavailable { reason }
    }

    /// Removes a partly written line, so that the segment stays complete.
    fn handle_write_failure(&mut self, error: &io::Error, purpose: WritePurpose) -> LedgerError {
        let reason = format!("cannot write {}: {error}", self.active.segment.name());
        let whole = self.disk.truncate(&self.active.file, self.active.length).is_ok();
        if !whole || !disk::is_disk_full(error) {
            self.halt_writing(HaltKind::Broken, &reason);
        } else if self.halt.is_none() {
            self.halt_writing(HaltKind::Full, &reason);
            self.record_halt_reason(&reason);
        }
        self.reject(purpose)
    }

    /// Frees the reserve and records in that space why the ledger stops.
    fn record_halt_reason(&mut self, reason: &str) {
        let _ = fs::remove_file(self.reserve_path());
        let note = NoteEntry {
            about: "ledger".into(),
            text: format!("records stop: {reason}"),
            data: serde_json::Value::Null,
        };
        let entry = LedgerEntry::Note(note);
        let text = EntryBody::new(&entry, &self.key)
            .and_then(|body| self.append(&entry, body, WritePurpose::FinalRecord));
        if let Err(error) = text {
            tracing::error!(%error, "no space is left for final records of the ledger");
        }
    }

    pub(crate) fn reserve_path(&self) -> PathBuf {
        self.folder.join("reserve")
    }

    /// Accepts no more entries until a new segment exists.
    pub(crate) fn halt_writing(&mut self, kind: HaltKind, reason: &str) {
        match kind {
            HaltKind::Closed => tracing::debug!("the ledger is closed"),
            _ => tracing::error!(reason, "the ledger accepts no more records"),
        }
        let since = self.halt.as_ref().map_or_else(Timestamp::now, |halt| halt.since);
        if self.halt.is_none() {
            self.rejected_before_halt = self.rejected;
        }
        self.halt = Some(WriterHalt { reason: reason.into(), since, kind });
        if kind == HaltKind::Broken {
            self.write_anchor();
        }
    }

    /// Starts a new segment. On failure the old segment continues to grow, and rotation is retried later.
    pub(crate) fn rotate(&mut self) {
        let begun =
            EntryBody::unshortened(&LedgerEntry::Checkpoint(self.tracker.checkpoint(Timestamp::now())))
                .map_err(io::Error::other)
                .and_then(|body| {
                    segment::create_segment(&*self.disk, &self.folder, self.chain, &self.key, [body])
                });
        match begun {
            Ok((active, chain)) => {
                self.unsynced_segments.push(std::mem::replace(&mut self.active, active));
                self.chain = chain;
                self.names_changed = true;
                self.retention_due = true;
                self.rotate_at = self.options.segment_limit();
            }
            Err(error) => {
                tracing::warn!(%error, "cannot begin a new ledger segment; the old one is continued");
                self.rotate_at = self.active.length + self.options.segment_limit() / 16;
            }
        }
    }

    /// Updates the anchor with the end of the ledger. A failure does not invalidate the ledger, because the
    /// lines themselves are sealed.
    pub(crate) fn write_anchor(&mut self) {
        let state = self.state();
        let anchor = &mut self.anchor;
        anchor.seq = self.chain.head();
        anchor.hash = self.chain.prev;
        anchor.segment = self.active.segment.first;
        anchor.end = self.active.length;
        anchor.synced = self.synced;
        anchor.deferred = self.deferred_reads;
        anchor.writer = state;
        match self.anchor_file.write(&anchor.render(&self.key)) {
            Ok(()) => self.anchor_failing = false,
            Err(error) if !self.anchor_failing => {
                tracing::warn!(%error, "cannot update the ledger's anchor");
                self.anchor_failing = true;
            }
            Err(_) => {}
        }
    }

    fn state(&self) -> WriterState {
        match self.halt.as_ref().map(|halt| halt.kind) {
            None | Some(HaltKind::Full) => WriterState::Open,
            Some(HaltKind::Broken | HaltKind::Resuming) => WriterState::Halted,
            Some(HaltKind::Closed) => WriterState::Closed,
        }
    }

    /// Describes the segment that is abandoned.
    pub(crate) fn abandoned_segment(&self) -> AbandonedSegment {
        AbandonedSegment {
            segment: self.active.segment.name(),
            bytes: self.active.length,
            synced: self.synced,
            written: self.chain.head(),
        }
    }

    /// Describes a change of the open segment by another process, if there is one.
    pub(crate) fn detect_tampering(&self) -> Option<String> {
        let name = self.active.segment.name();
        let ours = self.active.file.metadata().ok()?;
        if ours.len() != self.active.length {
            let (found, length) = (ours.len(), self.active.length);
            return Some(format!(
                "{name} has {found} bytes where {length} were written: another process changed it"
            ));
        }
        match fs::symlink_metadata(&self.active.segment.path) {
            Ok(named) if (named.dev(), named.ino()) == (ours.dev(), ours.ino()) => None,
            Ok(_) => Some(format!("{name} was replaced by another file")),
            Err(error) => Some(format!("{name} is missing from its folder: {error}")),
        }
    }
}

/// Returns true if the anchor may count this entry later. This holds for the records of a read-only call: its reply
/// has not left the daemon yet. [`Ledger::anchor_records`](crate::Ledger::anchor_records) counts it before that, and the
/// next sync does so if the call takes long.
fn is_anchored_later(entry: &LedgerEntry) -> bool {
    match entry {
        LedgerEntry::Call(_) => true,
        LedgerEntry::Decision(decision) => decision.effect == RecordedEffect::Reads,
        _ => false,
    }
}
