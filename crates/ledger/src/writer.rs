//! The one place where lines are numbered, sealed and written. Always used under one lock and on the caller's thread: one
//! `pwrite(2)` a line, and another where it leaves no room behind it. Making lines durable is the work of `commit`.

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

/// What an entry is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// New work: taken only while all is well.
    Work,
    /// The end of work that was begun: also taken into the space kept back on a full disk.
    LastWords,
}

/// Why nothing is taken.
#[derive(Clone, Debug)]
pub(crate) struct Halt {
    pub(crate) reason: Arc<str>,
    pub(crate) since: Timestamp,
    pub(crate) kind: HaltKind,
}

/// What is left of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HaltKind {
    /// The disk is full; the segment is whole.
    Full,
    /// The segment cannot be trusted any more.
    Broken,
    /// A new segment is being made: not even last words.
    Resuming,
    /// The ledger was closed.
    Closed,
}

/// The end of the record and everything needed to add to it.
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
    /// Segments that were followed by another and are not durable yet.
    pub(crate) retired: Vec<Active>,
    /// Kept open: making names durable must not need a new descriptor.
    pub(crate) folder_file: Arc<File>,
    /// Whether the folder has names that are not durable yet.
    pub(crate) names_changed: bool,
    /// Whether old segments may have to go.
    pub(crate) rotated: bool,
    pub(crate) synced: u64,
    pub(crate) owed: Vec<Owed>,
    /// Reads that were let through and whose decisions are not written yet.
    pub(crate) reads_owed: u64,
    pub(crate) turned_away: u64,
    /// What was turned away since the halt began.
    pub(crate) turned_away_before: u64,
    pub(crate) lost: u64,
    pub(crate) anchor: Anchor,
    pub(crate) anchor_file: AnchorFile,
    pub(crate) anchor_failing: bool,
    /// The length at which the next try to begin a new segment is made.
    pub(crate) rotate_at: u64,
}

impl Writer {
    /// Writes one entry and returns its number.
    pub(crate) fn append(&mut self, entry: &Entry, body: Body, purpose: Purpose) -> Result<u64, LedgerError> {
        self.admit(purpose)?;
        if self.active.length >= self.rotate_at {
            self.rotate();
        }
        let (seq, time) = (self.chain.next, Timestamp::now());
        let line = body.sealed(&self.key, seq, time, &self.chain.prev);
        if let Err(error) = self.active.write(&*self.disk, line.bytes()) {
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
        // Last words that find no room are owed, not turned away.
        if purpose == Purpose::Work {
            self.turned_away += 1;
        }
        let reason = self.halt.as_ref().map_or_else(|| "it failed".into(), |halt| Arc::clone(&halt.reason));
        LedgerError::Unavailable { reason }
    }

    /// A line that was not written whole is taken back, so that nothing is torn.
    fn write_failed(&mut self, error: &io::Error, purpose: Purpose) -> LedgerError {
        let reason = format!("cannot write {}: {error}", self.active.segment.name());
        let whole = self.active.cut(&*self.disk).is_ok();
        if !whole || !disk::is_full(error) {
            self.stop(HaltKind::Broken, &reason);
        } else if self.halt.is_none() {
            self.stop(HaltKind::Full, &reason);
            self.say_last_words(&reason);
        }
        self.turn_away(purpose)
    }

    /// Gives the reserve back to the disk and says in it why the record stops here.
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

    /// Takes nothing more until a new segment exists.
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

    /// Begins a new segment. Where that fails, the old one simply grows on and it is tried again later.
    pub(crate) fn rotate(&mut self) {
        let begun = Body::whole(&Entry::Checkpoint(self.tracker.checkpoint(Timestamp::now())))
            .map_err(io::Error::other)
            // Before there is another: only the last segment may have room. What somebody else put there is for the next sync
            // to find, not to be taken off.
            .and_then(|body| {
                if self.active.has_blank_room()? { Ok(body) } else { Err(io::ErrorKind::InvalidData.into()) }
            })
            .and_then(|body| self.active.cut(&*self.disk).map(|()| body))
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

    /// Notes the end of the record. A failure is not the record's failure: the lines themselves are sealed.
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

    /// The state of the segment that had to be left.
    pub(crate) fn sealed(&self) -> Sealed {
        Sealed {
            segment: self.active.segment.name(),
            bytes: self.active.length,
            synced: self.synced,
            written: self.chain.head(),
        }
    }

    /// What somebody else did to the segment we write, if anything.
    pub(crate) fn tampering(&self) -> Option<String> {
        let name = self.active.segment.name();
        let ours = self.active.file.metadata().ok()?;
        if ours.len() != self.active.end {
            let (found, length) = (ours.len(), self.active.end);
            return Some(format!(
                "{name} has {found} bytes where {length} were written: somebody else changed it"
            ));
        }
        match self.active.has_blank_room() {
            Ok(true) => {}
            Ok(false) => {
                return Some(format!("there is something in the room of {name}: somebody else wrote it"));
            }
            Err(error) => return Some(format!("the room of {name} cannot be read: {error}")),
        }
        match fs::symlink_metadata(&self.active.segment.path) {
            Ok(named) if (named.dev(), named.ino()) == (ours.dev(), ours.ino()) => None,
            Ok(_) => Some(format!("{name} was replaced by another file")),
            Err(error) => Some(format!("{name} is gone from its folder: {error}")),
        }
    }
}

/// Whether an entry may wait for the next one to be counted by the anchor. The decision of a call that only looks: nobody
/// has been told anything yet, its end counts both, and where that takes long the next sync does.
fn is_followed_by_its_end(entry: &Entry) -> bool {
    matches!(entry, Entry::Decision(decision) if decision.effect == Effect::Reads)
}
