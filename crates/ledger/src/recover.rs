//! Recovery at start: finds the end of the chain, torn and missing records, and calls that were running. It
//! reads only the last segment, so that the duration of a start does not depend on the size of the ledger.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

use sha2::{Digest, Sha256};

use crate::{
    LedgerError,
    anchor::{Anchor, AnchorFlaw, WriterState},
    chain::{ChainChecker, ChainPosition, CheckedLine},
    entry::{MissingCause, MissingRecords, TornBytes},
    key::LedgerKey,
    lines::SegmentLines,
    private_file,
    record::{CallRecordSummary, LedgerRecord},
    segment::{self, Segment},
    tracker::LedgerStateTracker,
};

/// Maximum number of damaged lines to report; `verify` lists the rest.
const MAX_DAMAGE_REPORTED: usize = 16;

/// State of a ledger that has no writer.
#[derive(Debug)]
pub(crate) struct RecoveredState {
    pub(crate) chain: ChainPosition,
    /// Segment to continue, and the bytes of it that are records.
    pub(crate) last: Option<(Segment, u64)>,
    pub(crate) tracker: LedgerStateTracker,
    pub(crate) torn: Vec<TornBytes>,
    pub(crate) missing: Option<MissingRecords>,
    pub(crate) damage: Vec<String>,
    pub(crate) writer: Option<WriterState>,
    pub(crate) unrecorded_reads: u64,
}

/// Treatment of bytes that a dead writer left after the last record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrailingBytesPolicy {
    /// They are removed, so that a writer can continue.
    Remove,
    /// They are ignored and stay.
    Keep,
}

/// Recovers the state of a folder.
pub(crate) fn recover(
    folder: &Path,
    key: &LedgerKey,
    anchors: &[Result<Anchor, AnchorFlaw>],
    boot: &str,
    policy: TrailingBytesPolicy,
) -> Result<RecoveredState, LedgerError> {
    let valid_anchors: Vec<&Anchor> = anchors.iter().flatten().collect();
    let excused_from = first_unsynced(&valid_anchors, boot);
    // The first anchor is written with every record; the second one follows it.
    let first = anchors.first().and_then(|first| first.as_ref().ok());
    let mut found = RecoveredState {
        chain: ChainPosition::START,
        last: None,
        tracker: LedgerStateTracker::default(),
        torn: Vec::new(),
        missing: None,
        damage: Vec::new(),
        writer: first.map(|anchor| anchor.writer),
        unrecorded_reads: first.map_or(0, |anchor| anchor.deferred),
    };
    let mut segments = list_segments(folder, policy)?;
    while let Some(segment) = segments.pop() {
        let scan = scan_segment(&segment, key, &valid_anchors, excused_from)
            .map_err(LedgerError::io("read", &segment.path))?;
        if policy == TrailingBytesPolicy::Remove {
            let torn = remove_trailing_bytes(folder, &segment, scan.end, scan.rest);
            found.torn.extend(
                torn.map_err(LedgerError::io("remove the bytes after the last record of", &segment.path))?,
            );
        }
        if let Some(chain) = scan.chain {
            found.chain = chain;
            found.tracker = scan.tracker;
            found.damage = scan.damage;
            found.last = Some((segment, scan.end));
            break;
        }
        // The segment contains no record: the process ended during a start or a rotation, before the first
        // line was complete.
        if policy == TrailingBytesPolicy::Remove {
            fs::remove_file(&segment.path).map_err(LedgerError::io("remove", &segment.path))?;
        }
    }
    found.missing = missing_records(found.chain.head(), &valid_anchors, boot);
    found.damage.extend(anchor_damage(anchors, found.chain.head()));
    Ok(found)
}

/// Lists the segments. A folder that does not exist has none; a writer has created it before.
pub(crate) fn list_segments(folder: &Path, policy: TrailingBytesPolicy) -> Result<Vec<Segment>, LedgerError> {
    let folder_exists = || folder.try_exists().map_err(LedgerError::io("look for", folder));
    if policy == TrailingBytesPolicy::Keep && !folder_exists()? {
        return Ok(Vec::new());
    }
    segment::list(folder)
}

/// Bytes after the last record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rest {
    #[default]
    Nothing,
    /// Unfinished line, as a writer that died leaves it.
    UnfinishedLine,
    More,
}

/// Content of one segment.
#[derive(Default)]
struct SegmentScan {
    /// Position after the last authentic line, if there is one.
    chain: Option<ChainPosition>,
    /// End of that line.
    end: u64,
    /// Bytes after that line.
    rest: Rest,
    tracker: LedgerStateTracker,
    damage: Vec<String>,
}

impl SegmentScan {
    /// Applies an authentic line to the tracked state.
    fn track(&mut self, kind: &str, text: &[u8]) {
        if !LedgerStateTracker::is_tracked_kind(kind) {
            return;
        }
        if let Some(CallRecordSummary { time, call, transition: step }) = CallRecordSummary::parse(text) {
            self.tracker.apply_call(&call, step, time);
        } else if let Some(record) = LedgerRecord::parse(text) {
            self.tracker.apply(&record.entry, record.time);
        }
    }
}

/// Scans one segment. From the sequence number `excused_from` on, a bad line counts as lost in a power
/// failure.
fn scan_segment(
    segment: &Segment,
    key: &LedgerKey,
    anchors: &[&Anchor],
    excused_from: Option<u64>,
) -> io::Result<SegmentScan> {
    let mut lines = SegmentLines::open(segment)?;
    let mut follower = ChainChecker::new(segment.first, None);
    let mut scan = SegmentScan::default();
    // Damage that no authentic line follows is not damage but a torn end.
    let mut pending = Vec::new();
    while let Some(line) = lines.next_line()? {
        let (text, expected) = (line.without_newline().unwrap_or_default(), follower.next());
        let CheckedLine { parts, flaw } = follower.check_line(text, key);
        if flaw.is_some()
            && line.without_newline().is_some()
            && excused_from.is_some_and(|from| expected >= from)
        {
            // Later lines were not synced either, though some of them may have reached the disk.
            scan.rest = Rest::More;
            return Ok(scan);
        }
        if let Some(flaw) = flaw {
            let (name, number, offset) = (segment.name(), line.number, line.offset);
            pending.push(format!("{name}, line {number}, byte {offset}: {flaw}"));
        }
        let Some(parts) = parts else {
            // No record contains a control character. Zero bytes come from a page that was not written before
            // a power failure, so a later page may contain more than the rest of this line.
            let is_begun = line.without_newline().is_none() && !line.bytes.iter().any(u8::is_ascii_control);
            let is_all = scan.rest == Rest::Nothing && is_begun;
            scan.rest = if is_all { Rest::UnfinishedLine } else { Rest::More };
            continue;
        };
        scan.rest = Rest::Nothing;
        scan.damage.append(&mut pending);
        scan.damage.truncate(MAX_DAMAGE_REPORTED);
        scan.end = line.offset + u64::try_from(line.bytes.len()).unwrap_or_default();
        scan.chain = Some(follower.position());
        if anchors.iter().any(|anchor| anchor.seq == parts.seq && anchor.hash != parts.hash) {
            scan.damage.push(format!("record {} is not the one the anchor names", parts.seq));
        }
        scan.track(parts.kind, text);
    }
    Ok(scan)
}

/// Truncates the segment to `end`, the end of its last record.
fn remove_trailing_bytes(
    folder: &Path,
    segment: &Segment,
    end: u64,
    rest: Rest,
) -> io::Result<Option<TornBytes>> {
    if rest == Rest::Nothing {
        return Ok(None);
    }
    let mut file = private_file::open_to_append(&segment.path)?;
    let torn = keep(folder, segment, end, rest, &mut file)?;
    file.set_len(end)?;
    file.sync_all()?;
    Ok(Some(torn))
}

/// Describes the torn bytes, and saves them in a separate file if they are more than one unfinished line.
fn keep(folder: &Path, segment: &Segment, offset: u64, rest: Rest, file: &mut File) -> io::Result<TornBytes> {
    let saved_as = (rest == Rest::More).then(|| format!("cut-{}-{offset}.bin", segment.name()));
    let mut copy = match &saved_as {
        None => None,
        Some(name) => Some(private_file::open_to_overwrite(&folder.join(name))?),
    };
    let (mut hash, mut bytes, mut block) = (Sha256::new(), 0, vec![0; 64 * 1024]);
    file.seek(SeekFrom::Start(offset))?;
    loop {
        let count = file.read(&mut block)?;
        let read = block.get(..count).unwrap_or_default();
        if read.is_empty() {
            break;
        }
        hash.update(read);
        bytes += u64::try_from(count).unwrap_or_default();
        copy.iter_mut().try_for_each(|copy| copy.write_all(read))?;
    }
    copy.iter().try_for_each(File::sync_all)?;
    let sha256 = tool::canonical::hex(&hash.finalize());
    Ok(TornBytes { segment: segment.name(), offset, bytes, sha256, saved_as })
}

/// Describes defects of the anchors.
fn anchor_damage(anchors: &[Result<Anchor, AnchorFlaw>], head: u64) -> Vec<String> {
    let mut damage = Vec::new();
    for (name, anchor) in ["the anchor", "the second anchor"].iter().zip(anchors) {
        match anchor {
            Err(AnchorFlaw::Changed) => damage.push(format!("{name} was changed")),
            // The second anchor is missing when its path has just been configured.
            Err(AnchorFlaw::Missing) if *name == "the anchor" && head > 0 => {
                damage.push(format!("{name} is missing"))
            }
            Err(AnchorFlaw::Missing) | Ok(_) => {}
        }
    }
    damage
}

/// Returns the first record that may be incomplete on disk, if the machine went down since the last one was
/// written. Unsynced pages then have their old content in no particular order, so damage there is not
/// tampering.
fn first_unsynced(anchors: &[&Anchor], boot: &str) -> Option<u64> {
    let last = anchors.iter().max_by_key(|anchor| anchor.seq)?;
    let synced = anchors.iter().map(|anchor| anchor.synced).max()?;
    (!is_same_boot(last, boot)).then_some(synced + 1)
}

/// Returns the records that the anchors count beyond the head. Pure.
fn missing_records(head: u64, anchors: &[&Anchor], boot: &str) -> Option<MissingRecords> {
    let last = anchors.iter().max_by_key(|anchor| anchor.seq).filter(|anchor| anchor.seq > head)?;
    let synced = anchors.iter().any(|anchor| anchor.synced > head);
    let is_removed = synced || is_same_boot(last, boot);
    let cause = if is_removed { MissingCause::Removed } else { MissingCause::PowerFailure };
    Some(MissingRecords { from: head + 1, to: last.seq, cause })
}

/// Returns true if the machine has not rebooted since the anchor was written. Without a boot id this is
/// unknown and counts as false.
fn is_same_boot(anchor: &Anchor, boot: &str) -> bool {
    !boot.is_empty() && anchor.boot == boot
}
