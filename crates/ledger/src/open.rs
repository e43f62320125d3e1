//! Opens a ledger for writing: takes the lock, loads the key, recovers the state of the last writer and
//! writes the first records of this one.

use std::{
    fs::{File, TryLockError},
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use crate::{
    LedgerError, Options,
    anchor::{self, Anchor, AnchorFile, AnchorFlaw, WriterState},
    disk::Disk,
    entry::{Approval, Call, Concluded, Entry, Executed, Missing, Outcome, Recovered, Status, Torn},
    key::Key,
    line::Body,
    private_file,
    recover::{self, Found, Remains},
    resume, segment,
    segment::Active,
    writer::{Purpose, Writer},
};

/// Findings of a start, for the components that continue where the last daemon stopped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recovery {
    /// There was no record before this start.
    pub first_start: bool,
    /// The last writer did not close the ledger.
    pub crashed: bool,
    /// Torn ends of segments that recovery removed.
    pub torn: Vec<Torn>,
    /// Records that an anchor counts and no segment contains.
    pub missing: Option<Missing>,
    /// Descriptions of further damage, with its position.
    pub damage: Vec<String>,
    /// Read-only calls that were answered while the ledger was unavailable, and whose records were lost with
    /// the last daemon.
    pub unrecorded_reads: u64,
    /// Calls that were running; each is now recorded as `unknown`.
    pub interrupted: Vec<Arc<Call>>,
    /// Mode that applied last.
    pub mode: Option<tool::Mode>,
    /// Runs of the last hour, including interrupted calls.
    pub executed: Vec<Executed>,
    /// Events of approvals that can still be decided or used, in order.
    pub approvals: Vec<Approval>,
    /// Time of the last record in the last segment.
    pub last_record: Option<Timestamp>,
}

/// Parts of an opened ledger.
pub(crate) struct Opened {
    pub(crate) writer: Writer,
    pub(crate) witness: Option<AnchorFile>,
    pub(crate) lock: File,
    pub(crate) recovery: Recovery,
}

pub(crate) fn key_path(folder: &Path, options: &Options) -> PathBuf {
    options.key_file.clone().unwrap_or_else(|| folder.join("key"))
}

/// Returns the path of the anchor stored next to the segments.
pub(crate) fn anchor_path(folder: &Path) -> PathBuf {
    folder.join("anchor")
}

/// Returns the path of the file that the writer keeps locked.
pub(crate) fn lock_path(folder: &Path) -> PathBuf {
    folder.join("lock")
}

pub(crate) fn open(disk: Arc<dyn Disk>, folder: &Path, options: &Options) -> Result<Opened, LedgerError> {
    private_file::prepare_folder(folder)?;
    let lock = take_lock(folder)?;
    let key = load_or_create_key(folder, options)?;
    let boot = anchor::boot_id();
    let anchors = anchors(folder, options, &key);
    let found = recover::recover(folder, &key, &anchors, &boot, Remains::TakenOff)?;
    resume::fill_reserve(&*disk, &folder.join("reserve"), options.reserve_bytes)
        .map_err(LedgerError::io("keep space back in", folder))?;
    let witness = options.witness.as_ref().map(|path| open_anchor(path)).transpose()?;
    let mut recovery = Recovery::of(&found);
    let mut writer = build(disk, folder, options, key, found, boot)?;
    record_recovery(&mut writer, &recovery)?;
    recovery.executed = writer.tracker.executed(Timestamp::now());
    settle(&mut writer, folder, witness.as_ref())?;
    Ok(Opened { writer, witness, lock, recovery })
}

/// Returns what opening would find, without creating or changing anything. No process may write meanwhile, or
/// its unfinished line would be reported as torn.
pub(crate) fn look(folder: &Path, options: &Options) -> Result<Recovery, LedgerError> {
    let key = match Key::load(&key_path(folder, options)) {
        Err(LedgerError::KeyMissing { .. }) if recover::segments(folder, Remains::Left)?.is_empty() => {
            return Ok(Recovery { first_start: true, ..Recovery::default() });
        }
        loaded => loaded?,
    };
    let anchors = anchors(folder, options, &key);
    let found = recover::recover(folder, &key, &anchors, &anchor::boot_id(), Remains::Left)?;
    Ok(Recovery { executed: found.tracker.executed(Timestamp::now()), ..Recovery::of(&found) })
}

fn anchors(folder: &Path, options: &Options, key: &Key) -> Vec<Result<Anchor, AnchorFlaw>> {
    let paths = [Some(anchor_path(folder)), options.witness.clone()];
    paths.into_iter().flatten().map(|path| Anchor::read(&path, key)).collect()
}

impl Recovery {
    /// Copies everything except `executed`, which must include the outcomes that are recorded afterwards.
    fn of(found: &Found) -> Self {
        Recovery {
            first_start: found.last.is_none() && found.missing.is_none() && found.damage.is_empty(),
            crashed: found.writer.is_some_and(|writer| writer != WriterState::Closed),
            torn: found.torn.clone(),
            missing: found.missing.clone(),
            damage: found.damage.clone(),
            unrecorded_reads: found.unrecorded_reads,
            interrupted: found.tracker.open_calls(),
            mode: found.tracker.mode(),
            executed: Vec::new(),
            approvals: found.tracker.approvals(),
            last_record: found.tracker.last_record(),
        }
    }
}

fn take_lock(folder: &Path) -> Result<File, LedgerError> {
    let path = lock_path(folder);
    let failed = |error| LedgerError::io("lock", &path)(error);
    let mut file = private_file::open_to_overwrite(&path).map_err(failed)?;
    // A reader takes the lock briefly to check whether a writer exists.
    for _ in 0..50 {
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
                return Ok(file);
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
    let mut holder = String::new();
    let _ = file.rewind().and_then(|()| file.take(32).read_to_string(&mut holder));
    let holder = match holder.trim() {
        "" => "unknown".to_owned(),
        pid => format!("pid {pid}"),
    };
    Err(LedgerError::Locked { folder: folder.to_owned(), holder })
}

fn load_or_create_key(folder: &Path, options: &Options) -> Result<Key, LedgerError> {
    let path = key_path(folder, options);
    match Key::load(&path) {
        // No key can have sealed anything in a ledger without records.
        Err(LedgerError::KeyMissing { .. }) if segment::list(folder)?.is_empty() => {
            if let Some(parent) = options.key_file.as_ref().and_then(|path| path.parent()) {
                private_file::prepare_folder(parent)?;
            }
            Key::create(&path)
        }
        loaded => loaded,
    }
}

fn open_anchor(path: &Path) -> Result<AnchorFile, LedgerError> {
    AnchorFile::open(path).map_err(LedgerError::io("open the anchor", path))
}

fn build(
    disk: Arc<dyn Disk>,
    folder: &Path,
    options: &Options,
    key: Key,
    found: Found,
    boot: String,
) -> Result<Writer, LedgerError> {
    let halted = found.writer == Some(WriterState::Halted);
    let mut chain = found.chain;
    let anchor = Anchor {
        seq: chain.head(),
        hash: chain.prev,
        segment: chain.next,
        end: 0,
        synced: chain.head(),
        owed: 0,
        writer: WriterState::Open,
        boot,
    };
    let anchor_file = open_anchor(&anchor_path(folder))?;
    if found.last.is_none() {
        // The anchor is written before the first record, because a record without an anchor looks as if the
        // anchor was removed.
        let written = anchor_file.write(&anchor.render(&key)).and_then(|()| anchor_file.sync());
        written.map_err(LedgerError::io("write the anchor of", folder))?;
    }
    // A segment whose writer halted is never appended to, because its content is uncertain.
    let (active, names_changed) = match found.last {
        Some((segment, length)) if !halted => {
            let file = private_file::open_to_append(&segment.path)
                .map_err(LedgerError::io("open", &segment.path))?;
            (Active { segment, file: Arc::new(file), length }, false)
        }
        Some(_) | None => {
            let checkpoint = Body::whole(&Entry::Checkpoint(found.tracker.checkpoint(Timestamp::now())))?;
            let begun = segment::begin(&*disk, folder, chain, &key, [checkpoint]);
            let (active, after) = begun.map_err(LedgerError::io("begin a segment in", folder))?;
            chain = after;
            (active, true)
        }
    };
    let folder_file = File::open(folder).map_err(LedgerError::io("open", folder))?;
    Ok(Writer {
        folder: folder.to_owned(),
        folder_file: Arc::new(folder_file),
        disk,
        key,
        chain,
        tracker: found.tracker,
        halt: None,
        retired: Vec::new(),
        names_changed,
        rotated: true,
        synced: 0,
        owed: Vec::new(),
        reads_owed: 0,
        turned_away: 0,
        turned_away_before: 0,
        lost: 0,
        anchor,
        anchor_file,
        anchor_failing: false,
        rotate_at: options.segment_limit(),
        options: options.clone(),
        active,
    })
}

/// Records the findings of recovery and an outcome for every interrupted call.
fn record_recovery(writer: &mut Writer, recovery: &Recovery) -> Result<(), LedgerError> {
    let Recovery { crashed, torn, missing, damage, interrupted, unrecorded_reads, .. } = recovery;
    let lost = !torn.is_empty() || missing.is_some() || !damage.is_empty() || *unrecorded_reads > 0;
    if *crashed || lost || !interrupted.is_empty() {
        let entry = Entry::Recovered(Recovered {
            crashed: *crashed,
            torn: torn.clone(),
            missing: missing.clone(),
            damage: damage.clone(),
            unrecorded_reads: *unrecorded_reads,
            interrupted: u64::try_from(interrupted.len()).unwrap_or(u64::MAX),
        });
        write(writer, &entry)?;
    }
    for call in interrupted {
        let outcome = Outcome {
            message: Some("interrupted: the daemon ended while the call was under way".into()),
            ..Outcome::new(Status::Unknown, Duration::ZERO)
        };
        write(writer, &Entry::Outcome(Concluded { call: Arc::clone(call), outcome }))?;
    }
    Ok(())
}

fn write(writer: &mut Writer, entry: &Entry) -> Result<u64, LedgerError> {
    let body = Body::new(entry, &writer.key)?;
    writer.append(entry, body, Purpose::LastWords)
}

/// Makes the first records and the anchors durable before the ledger is used.
fn settle(writer: &mut Writer, folder: &Path, witness: Option<&AnchorFile>) -> Result<(), LedgerError> {
    let disk = Arc::clone(&writer.disk);
    let files = writer.retired.iter().chain([&writer.active]).map(|active| Arc::clone(&active.file));
    files
        .into_iter()
        .try_for_each(|file| disk.sync(&file))
        .and_then(|()| disk.sync_folder(&writer.folder_file))
        .map_err(LedgerError::io("make durable", folder))?;
    writer.retired.clear();
    writer.names_changed = false;
    writer.synced = writer.chain.head();
    writer.write_anchor();
    let rendered = writer.anchor.render(&writer.key);
    let failed = |error| LedgerError::io("write the anchor of", folder)(error);
    for anchor in [Some(&writer.anchor_file), witness].into_iter().flatten() {
        anchor.write(&rendered).and_then(|()| anchor.trim()).and_then(|()| anchor.sync()).map_err(failed)?;
    }
    Ok(())
}
