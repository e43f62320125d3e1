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
    LedgerError, LedgerOptions,
    anchor::{self, Anchor, AnchorFile, AnchorFlaw, WriterState},
    disk::LedgerDisk,
    entry::{
        ApprovalEventEntry, CallHeader, ExecutionCounts, LedgerEntry, LedgerOutcome, MissingRecords,
        OutcomeStatus, RecordedOutcome, RecoveryEntry, TornBytes,
    },
    key::LedgerKey,
    line::EntryBody,
    private_file,
    recover::{self, RecoveredState, TrailingBytesPolicy},
    resume, segment,
    segment::OpenSegment,
    writer::{LedgerWriter, WritePurpose},
};

/// Findings of a start, for the components that continue where the last daemon stopped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LedgerRecovery {
    /// There was no record before this start.
    pub first_start: bool,
    /// The last writer did not close the ledger.
    pub crashed: bool,
    /// Torn ends of segments that recovery removed.
    pub torn: Vec<TornBytes>,
    /// Records that an anchor counts and no segment contains.
    pub missing: Option<MissingRecords>,
    /// Descriptions of further damage, with its position.
    pub damage: Vec<String>,
    /// Read-only calls that were answered while the ledger was unavailable, and whose records were lost with
    /// the last daemon.
    pub unrecorded_reads: u64,
    /// Calls that were running; each is now recorded as `unknown`.
    pub interrupted: Vec<Arc<CallHeader>>,
    /// Mode that applied last.
    pub mode: Option<tool::Mode>,
    /// Runs of the last hour, including interrupted calls.
    pub executed: Vec<ExecutionCounts>,
    /// Events of approvals that can still be decided or used, in order.
    pub approvals: Vec<ApprovalEventEntry>,
    /// Time of the last record in the last segment.
    pub last_record: Option<Timestamp>,
}

/// Parts of an opened ledger.
pub(crate) struct OpenedLedger {
    pub(crate) writer: LedgerWriter,
    pub(crate) witness: Option<AnchorFile>,
    pub(crate) lock: File,
    pub(crate) recovery: LedgerRecovery,
}

pub(crate) fn key_path(folder: &Path, options: &LedgerOptions) -> PathBuf {
    options.key_file.clone().unwrap_or_else(|| folder.join("key"))
}

/// Loads the key of an existing ledger.
pub(crate) fn load_key(folder: &Path, options: &LedgerOptions) -> Result<LedgerKey, LedgerError> {
    LedgerKey::load(&key_path(folder, options))
}

/// Returns the path of the anchor stored next to the segments.
pub(crate) fn anchor_path(folder: &Path) -> PathBuf {
    folder.join("anchor")
}

/// Returns the path of the file that the writer keeps locked.
pub(crate) fn lock_path(folder: &Path) -> PathBuf {
    folder.join("lock")
}

pub(crate) fn open(
    disk: Arc<dyn LedgerDisk>,
    folder: &Path,
    options: &LedgerOptions,
) -> Result<OpenedLedger, LedgerError> {
    private_file::prepare_folder(folder)?;
    let lock = take_lock(folder)?;
    let key = load_or_create_key(folder, options)?;
    let boot = anchor::boot_id();
    let anchors = read_anchors(folder, options, &key);
    let found = recover::recover(folder, &key, &anchors, &boot, TrailingBytesPolicy::Remove)?;
    resume::fill_reserve(&*disk, &folder.join("reserve"), options.reserve_bytes)
        .map_err(LedgerError::io("reserve space in", folder))?;
    let witness = options.second_anchor.as_ref().map(|path| open_anchor(path)).transpose()?;
    let mut recovery = LedgerRecovery::from_state(&found);
    let mut writer = build_writer(disk, folder, options, key, found, boot)?;
    record_recovery(&mut writer, &recovery)?;
    recovery.executed = writer.tracker.executed(Timestamp::now());
    sync_start(&mut writer, folder, witness.as_ref())?;
    Ok(OpenedLedger { writer, witness, lock, recovery })
}

/// Returns what opening would find, without creating or changing anything. No process may write meanwhile, or
/// its unfinished line would be reported as torn.
pub(crate) fn inspect(folder: &Path, options: &LedgerOptions) -> Result<LedgerRecovery, LedgerError> {
    let key = match load_key(folder, options) {
        Err(LedgerError::KeyMissing { .. })
            if recover::list_segments(folder, TrailingBytesPolicy::Keep)?.is_empty() =>
        {
            return Ok(LedgerRecovery { first_start: true, ..LedgerRecovery::default() });
        }
        loaded => loaded?,
    };
    let anchors = read_anchors(folder, options, &key);
    let found = recover::recover(folder, &key, &anchors, &anchor::boot_id(), TrailingBytesPolicy::Keep)?;
    Ok(LedgerRecovery {
        executed: found.tracker.executed(Timestamp::now()),
        ..LedgerRecovery::from_state(&found)
    })
}

fn read_anchors(folder: &Path, options: &LedgerOptions, key: &LedgerKey) -> Vec<Result<Anchor, AnchorFlaw>> {
    let paths = [Some(anchor_path(folder)), options.second_anchor.clone()];
    paths.into_iter().flatten().map(|path| Anchor::read(&path, key)).collect()
}

impl LedgerRecovery {
    /// Copies everything except `executed`, which must include the outcomes that are recorded afterwards.
    fn from_state(found: &RecoveredState) -> Self {
        LedgerRecovery {
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

fn load_or_create_key(folder: &Path, options: &LedgerOptions) -> Result<LedgerKey, LedgerError> {
    let path = key_path(folder, options);
    match LedgerKey::load(&path) {
        // No key can have sealed anything in a ledger without records.
        Err(LedgerError::KeyMissing { .. }) if segment::list(folder)?.is_empty() => {
            if let Some(parent) = options.key_file.as_ref().and_then(|path| path.parent()) {
                private_file::prepare_folder(parent)?;
            }
            LedgerKey::create(&path)
        }
        loaded => loaded,
    }
}

fn open_anchor(path: &Path) -> Result<AnchorFile, LedgerError> {
    AnchorFile::open(path).map_err(LedgerError::io("open the anchor", path))
}

fn build_writer(
    disk: Arc<dyn LedgerDisk>,
    folder: &Path,
    options: &LedgerOptions,
    key: LedgerKey,
    found: RecoveredState,
    boot: String,
) -> Result<LedgerWriter, LedgerError> {
    let halted = found.writer == Some(WriterState::Halted);
    let mut chain = found.chain;
    let anchor = Anchor {
        seq: chain.head(),
        hash: chain.prev,
        segment: chain.next,
        end: 0,
        synced: chain.head(),
        deferred: 0,
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
            (OpenSegment { segment, file: Arc::new(file), length }, false)
        }
        Some(_) | None => {
            let checkpoint =
                EntryBody::unshortened(&LedgerEntry::Checkpoint(found.tracker.checkpoint(Timestamp::now())))?;
            let begun = segment::create_segment(&*disk, folder, chain, &key, [checkpoint]);
            let (active, after) = begun.map_err(LedgerError::io("begin a segment in", folder))?;
            chain = after;
            (active, true)
        }
    };
    let folder_file = File::open(folder).map_err(LedgerError::io("open", folder))?;
    Ok(LedgerWriter {
        folder: folder.to_owned(),
        folder_file: Arc::new(folder_file),
        disk,
        key,
        chain,
        tracker: found.tracker,
        halt: None,
        unsynced_segments: Vec::new(),
        names_changed,
        retention_due: true,
        synced: 0,
        deferred: Vec::new(),
        deferred_reads: 0,
        rejected: 0,
        rejected_before_halt: 0,
        lost_records: 0,
        anchor,
        anchor_file,
        anchor_failing: false,
        rotate_at: options.segment_limit(),
        options: options.clone(),
        active,
    })
}

/// Records the findings of recovery and an outcome for every interrupted call.
fn record_recovery(writer: &mut LedgerWriter, recovery: &LedgerRecovery) -> Result<(), LedgerError> {
    let LedgerRecovery { crashed, torn, missing, damage, interrupted, unrecorded_reads, .. } = recovery;
    let lost = !torn.is_empty() || missing.is_some() || !damage.is_empty() || *unrecorded_reads > 0;
    if *crashed || lost || !interrupted.is_empty() {
        let entry = LedgerEntry::Recovered(RecoveryEntry {
            crashed: *crashed,
            torn: torn.clone(),
            missing: missing.clone(),
            damage: damage.clone(),
            unrecorded_reads: *unrecorded_reads,
            interrupted: u64::try_from(interrupted.len()).unwrap_or(u64::MAX),
        });
        append_final(writer, &entry)?;
    }
    for call in interrupted {
        let outcome = LedgerOutcome {
            message: Some("interrupted: the daemon ended while the call was running".into()),
            ..LedgerOutcome::new(OutcomeStatus::Unknown, Duration::ZERO)
        };
        append_final(writer, &LedgerEntry::Outcome(RecordedOutcome { call: Arc::clone(call), outcome }))?;
    }
    Ok(())
}

fn append_final(writer: &mut LedgerWriter, entry: &LedgerEntry) -> Result<u64, LedgerError> {
    let body = EntryBody::new(entry, &writer.key)?;
    writer.append(entry, body, WritePurpose::FinalRecord)
}

/// Makes the first records and the anchors durable before the ledger is used.
fn sync_start(
    writer: &mut LedgerWriter,
    folder: &Path,
    witness: Option<&AnchorFile>,
) -> Result<(), LedgerError> {
    let disk = Arc::clone(&writer.disk);
    let files =
        writer.unsynced_segments.iter().chain([&writer.active]).map(|active| Arc::clone(&active.file));
    files
        .into_iter()
        .try_for_each(|file| disk.sync(&file))
        .and_then(|()| disk.sync_folder(&writer.folder_file))
        .map_err(LedgerError::io("make durable", folder))?;
    writer.unsynced_segments.clear();
    writer.names_changed = false;
    writer.synced = writer.chain.head();
    writer.write_anchor();
    let rendered = writer.anchor.render(&writer.key);
    let failed = |error| LedgerError::io("write the anchor of", folder)(error);
    for anchor in [Some(&writer.anchor_file), witness].into_iter().flatten() {
        anchor
            .write(&rendered)
            .and_then(|()| anchor.truncate())
            .and_then(|()| anchor.sync())
            .map_err(failed)?;
    }
    Ok(())
}
