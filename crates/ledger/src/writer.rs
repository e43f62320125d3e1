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
    LedgerError, Options,
    anchor::{Anchor, AnchorFile, WriterState},
    chain::Chain,
    disk::{self, Disk},
    entry::{Effect, Entry, Note, Sealed},
    key::Key,
    line::Body,
    owed::Owed,
    segment::{self, Active},
    tracker::Tracker,
};

/// Purpose of an entry, which determines when it is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// New work: accepted only while the ledger is ready.
    Work,
    /// Final records, such as outcomes of started calls: on a full disk also accepted into the reserved
    /// space.
    LastWords,
}

/// Reason why the ledger accepts no entries.
#[derive(Clone, Debug)]
pub(crate) struct Halt {
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
pub(crate) struct Writer {
    pub(crate) folder: PathBuf,
    pub(crate) options: Options,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) key: Key,
    pub(crate) chain: Chain,
    pub(crate) active: Active,
    pub(crate) tracker: Tracker,
    pub(crate) halt: Option<Halt>,
    /// Segments that have a successor and are not durable yet.
    pub(crate) retired: Vec<Active>,
    /// Open folder, so that syncing file names needs no new descriptor.
    pub(crate) folder_file: Arc<File>,
    /// The folder has file names that are not durable yet.
    pub(crate) names_changed: bool,
    /// Retention should check for old segments.
    pub(crate) rotated: bool,
    pub(crate) synced: u64,
    pub(crate) owed: Vec<Owed>,
    /// Allowed read-only calls whose decisions are not written yet.
    pub(crate) reads_owed: u64,
    pub(crate) turned_away: u64,
    /// Value of `turned_away` when the halt began.
    pub(crate) turned_away_before: u64,
    pub(crate) lost: u64,
    pub(crate) anchor: Anchor,
    pub(crate) anchor_file: AnchorFile,
    pub(crate) anchor_failing: bool,
    /// Length at which the next rotation is attempted.
    pub(crate) rotate_at: u64,
}

impl Writer {
    /// Writes one entry and returns its sequence number.
    pub(crate) fn append(&mut self, entry: &Entry, body: Body, purpose: Purpose) -> Result<u64, LedgerError> {
        self.admit(purpose)?;
        if self.active.length >= self.rotate_at {
            self.rotate();
        }
        let (seq, time) = (self.chain.next, Timestamp::now());
        let line = body.sealed(&self.key, seq, time, &self.chain.prev);
        if let Err(error) = self.active.write(&*self.disk, &line.bytes) {
            return Err(self.write_failed(&error, purpose));
        }
        self.chain.advance(line.hash);
        self.tracker.note(entry, time);
        if !is_followed_by_its_end(entry) {
            self.write_anchor();
        }
        Ok(seq)
    }

    fn admit(&mut self, purpose: Purpose) -> Result<(), LedgerError> {
        let Some(halt) = &self.halt else { return Ok(()) };
        match halt.kind {
            HaltKind::Closed => return Err(LedgerError::Closed),
            HaltKind::Full if purpose == Purpose::LastWords => return Ok(()),
            HaltKind::Full | HaltKind::Broken | HaltKind::Resuming => {}
        }
        Err(self.turn_away(purpose))
    }

    fn turn_away(&mut self, purpose: Purpose) -> LedgerError {
        // Final records that cannot be written are deferred, not rejected.
        if purpose == Purpose::Work {
            self.turned_away += 1;
        }
        let reason = self.halt.as_ref().map_or_else(|| "it failed".into(), |halt| Arc::clone(&halt.reason));
        LedgerError::Unavailable { reason }
    }

    /// Removes a partly written line, so that the segment stays complete.
    fn write_failed(&mut self, error: &io::Error, purpose: Purpose) -> LedgerError {
        let reason = format!("cannot write {}: {error}", self.active.segment.name());
        let whole = self.disk.cut(&self.active.file, self.active.length).is_ok();
        if !whole || !disk::is_full(error) {
            self.stop(HaltKind::Broken, &reason);
        } else if self.halt.is_none() {
            self.stop(HaltKind::Full, &reason);
            self.say_last_words(&reason);
        }
        self.turn_away(purpose)
    }

    /// Frees the reserve and records in that space why the ledger stops.
    fn say_last_words(&mut self, reason: &str) {
        let _ = fs::remove_file(self.reserve());
        let note = Note {
            about: "ledger".into(),
            text: format!("records stop: {reason}"),
            data: serde_json::Value::Null,
        };
        let entry = Entry::Note(note);
        let said =
            Body::new(&entry, &self.key).and_then(|body| self.append(&entry, body, Purpose::LastWords));
        if let Err(error) = said {
            tracing::error!(%error, "no room for the ledger's last words");
        }
    }

    pub(crate) fn reserve(&self) -> PathBuf {
        self.folder.join("reserve")
    }

    /// Accepts no more entries until a new segment exists.
    pub(crate) fn stop(&mut self, kind: HaltKind, reason: &str) {
        match kind {
            HaltKind::Closed => tracing::debug!("the ledger is closed"),
            _ => tracing::error!(reason, "the ledger takes no more records"),
        }
        let since = self.halt.as_ref().map_or_else(Timestamp::now, |halt| halt.since);
        if self.halt.is_none() {
            self.turned_away_before = self.turned_away;
        }
        self.halt = Some(Halt { reason: reason.into(), since, kind });
        if kind == HaltKind::Broken {
            self.write_anchor();
        }
    }

    /// Starts a new segment. On failure the old segment continues to grow, and rotation is retried later.
    pub(crate) fn rotate(&mut self) {
        let begun = Body::whole(&Entry::Checkpoint(self.tracker.checkpoint(Timestamp::now())))
            .map_err(io::Error::other)
            .and_then(|body| segment::begin(&*self.disk, &self.folder, self.chain, &self.key, [body]));
        match begun {
            Ok((active, chain)) => {
                self.retired.push(std::mem::replace(&mut self.active, active));
                self.chain = chain;
                self.names_changed = true;
                self.rotated = true;
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
        anchor.owed = self.reads_owed;
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
    pub(crate) fn sealed(&self) -> Sealed {
        Sealed {
            segment: self.active.segment.name(),
            bytes: self.active.length,
            synced: self.synced,
            written: self.chain.head(),
        }
    }

    /// Describes a change of the open segment by another process, if there is one.
    pub(crate) fn tampering(&self) -> Option<String> {
        let name = self.active.segment.name();
        let ours = self.active.file.metadata().ok()?;
        if ours.len() != self.active.length {
            let (found, length) = (ours.len(), self.active.length);
            return Some(format!(
                "{name} has {found} bytes where {length} were written: somebody else changed it"
            ));
        }
        match fs::symlink_metadata(&self.active.segment.path) {
            Ok(named) if (named.dev(), named.ino()) == (ours.dev(), ours.ino()) => None,
            Ok(_) => Some(format!("{name} was replaced by another file")),
            Err(error) => Some(format!("{name} is gone from its folder: {error}")),
        }
    }
}

/// Returns true if the anchor may count this entry together with the next one. This holds for the decision on
/// a read-only call: the caller has no reply yet, the outcome updates the anchor for both, and the next sync
/// does so if the call takes long.
fn is_followed_by_its_end(entry: &Entry) -> bool {
    matches!(entry, Entry::Decision(decision) if decision.effect == Effect::Reads)
}
