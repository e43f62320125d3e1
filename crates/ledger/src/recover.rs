//! What a start finds: the end of the chain, what is torn, what is missing, what was going on. Reads the last
//! segment only, so that a start takes the same time however long the record is.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

use sha2::{Digest, Sha256};

use crate::{
    LedgerError,
    anchor::{Anchor, AnchorFlaw, WriterState},
    chain::{Chain, Follower, Step},
    entry::{Missing, MissingCause, Torn},
    key::Key,
    lines::Lines,
    private_file,
    record::{Passage, Record},
    room::{self, Extent},
    segment::{self, Segment},
    tracker::Tracker,
};

/// More places than this are left for `verify` to list.
const MOST_DAMAGE: usize = 16;

/// The state of a ledger that nobody writes.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) chain: Chain,
    /// The segment to go on with, and how many of its bytes are records.
    pub(crate) last: Option<(Segment, u64)>,
    pub(crate) tracker: Tracker,
    pub(crate) torn: Vec<Torn>,
    pub(crate) missing: Option<Missing>,
    pub(crate) damage: Vec<String>,
    pub(crate) writer: Option<WriterState>,
    pub(crate) unrecorded_reads: u64,
}

/// What is done about what a writer that died left behind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remains {
    /// It is taken off, so that a writer can go on.
    TakenOff,
    /// Nothing: it is looked past.
    Left,
}

/// Looks at a folder.
pub(crate) fn recover(
    folder: &Path,
    key: &Key,
    anchors: &[Result<Anchor, AnchorFlaw>],
    boot: &str,
    remains: Remains,
) -> Result<Found, LedgerError> {
    let good: Vec<&Anchor> = anchors.iter().flatten().collect();
    let doubtful = doubtful(&good, boot);
    // The first is written with every record; the second follows it.
    let first = anchors.first().and_then(|first| first.as_ref().ok());
    let mut found = Found {
        chain: Chain::START,
        last: None,
        tracker: Tracker::default(),
        torn: Vec::new(),
        missing: None,
        damage: Vec::new(),
        writer: first.map(|anchor| anchor.writer),
        unrecorded_reads: first.map_or(0, |anchor| anchor.owed),
    };
    let mut segments = segments(folder, remains)?;
    while let Some(segment) = segments.pop() {
        let scan = scan(&segment, key, &good, doubtful).map_err(LedgerError::io("read", &segment.path))?;
        if remains == Remains::TakenOff {
            let torn = take_off(folder, &segment, &scan);
            found.torn.extend(torn.map_err(LedgerError::io("take the torn end off", &segment.path))?);
        }
        if let Some(chain) = scan.chain {
            found.chain = chain;
            found.tracker = scan.tracker;
            found.damage = scan.damage;
            found.last = Some((segment, scan.end));
            break;
        }
        // It holds no record: a start or a rotation died before its first line was whole.
        if remains == Remains::TakenOff {
            fs::remove_file(&segment.path).map_err(LedgerError::io("remove", &segment.path))?;
        }
    }
    if let (Some(before), Remains::TakenOff) = (segments.last(), remains) {
        take_room_off(before).map_err(LedgerError::io("take the room off", &before.path))?;
    }
    found.missing = missing(found.chain.head(), &good, boot);
    found.damage.extend(anchor_damage(anchors, found.chain.head()));
    Ok(found)
}

/// A folder that was never made has no segments; whoever is to write there has made it.
pub(crate) fn segments(folder: &Path, remains: Remains) -> Result<Vec<Segment>, LedgerError> {
    let is_there = || folder.try_exists().map_err(LedgerError::io("look for", folder));
    if remains == Remains::Left && !is_there()? {
        return Ok(Vec::new());
    }
    segment::list(folder)
}

struct Scan {
    /// After the last authentic line, if there is one.
    chain: Option<Chain>,
    /// Where that line ends.
    end: u64,
    /// How far the file goes.
    extent: Extent,
    /// What is in between.
    rest: Rest,
    tracker: Tracker,
    damage: Vec<String>,
}

/// What is behind the last record.
#[derive(Clone, Copy, PartialEq)]
enum Rest {
    Nothing,
    /// What a writer that died leaves.
    UnfinishedLine,
    More,
}

/// `doubtful`: from which record on a bad line is taken for one that the machine lost when it went down.
fn scan(segment: &Segment, key: &Key, anchors: &[&Anchor], doubtful: Option<u64>) -> io::Result<Scan> {
    let mut lines = Lines::open(segment)?;
    let mut follower = Follower::new(segment.first, None);
    let mut scan = Scan {
        chain: None,
        end: 0,
        extent: lines.extent(),
        rest: Rest::Nothing,
        tracker: Tracker::default(),
        damage: Vec::new(),
    };
    // Damage that nothing authentic follows is not damage but a torn end.
    let mut pending = Vec::new();
    while let Some(line) = lines.next_line()? {
        let (text, expected) = (line.whole().unwrap_or_default(), follower.next());
        let Step { parts, flaw } = follower.follow(text, key);
        if flaw.is_some() && line.whole().is_some() && doubtful.is_some_and(|from| expected >= from) {
            // What is behind it was not on disk either, though some of it may have got there.
            scan.rest = Rest::More;
            return Ok(scan);
        }
        if let Some(flaw) = flaw {
            let (name, number, offset) = (segment.name(), line.number, line.offset);
            pending.push(format!("{name}, line {number}, byte {offset}: {flaw}"));
        }
        let Some(parts) = parts else {
            let first = scan.rest == Rest::Nothing && line.whole().is_none();
            scan.rest = if first { Rest::UnfinishedLine } else { Rest::More };
            continue;
        };
        scan.rest = Rest::Nothing;
        scan.damage.append(&mut pending);
        scan.damage.truncate(MOST_DAMAGE);
        scan.end = line.offset + u64::try_from(line.bytes.len()).unwrap_or_default();
        scan.chain = Some(follower.place());
        if anchors.iter().any(|anchor| anchor.seq == parts.seq && anchor.hash != parts.hash) {
            scan.damage.push(format!("record {} is not the one the anchor names", parts.seq));
        }
        if !Tracker::cares_for(parts.kind) {
            continue;
        }
        if let Some(Passage { time, call, step }) = Passage::parse(text) {
            scan.tracker.step(&call, step, time);
        } else if let Some(record) = Record::parse(text) {
            scan.tracker.note(&record.entry, record.time);
        }
    }
    Ok(scan)
}

/// Takes off what is behind the last record. More than one unfinished line is evidence and is kept beside.
fn take_off(folder: &Path, segment: &Segment, scan: &Scan) -> io::Result<Option<Torn>> {
    if scan.end == scan.extent.file {
        return Ok(None);
    }
    let mut file = private_file::open_to_go_on(&segment.path)?;
    let torn = scan.extent.records - scan.end;
    if torn == 0 {
        // Nothing but room.
        file.set_len(scan.end)?;
        file.sync_all()?;
        return Ok(None);
    }
    let saved_as = (scan.rest == Rest::More).then(|| format!("cut-{}-{}.bin", segment.name(), scan.end));
    let mut copy = match &saved_as {
        None => None,
        Some(name) => Some(private_file::open_to_overwrite(&folder.join(name))?),
    };
    let (mut hash, mut block) = (Sha256::new(), vec![0; 64 * 1024]);
    file.seek(SeekFrom::Start(scan.end))?;
    let mut behind = (&mut file).take(torn);
    loop {
        let count = behind.read(&mut block)?;
        let bytes = block.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
        hash.update(bytes);
        copy.iter_mut().try_for_each(|copy| copy.write_all(bytes))?;
    }
    copy.iter().try_for_each(File::sync_all)?;
    file.set_len(scan.end)?;
    file.sync_all()?;
    Ok(Some(Torn {
        segment: segment.name(),
        offset: scan.end,
        bytes: torn,
        sha256: tool::canonical::hex(&hash.finalize()),
        saved_as,
    }))
}

/// The room of a segment goes before there is a next one, but the machine may go down before the disk has heard of it.
fn take_room_off(segment: &Segment) -> io::Result<()> {
    let file = private_file::open_to_go_on(&segment.path)?;
    let extent = room::extent(&file)?;
    if extent.has_room() {
        file.set_len(extent.records)?;
        file.sync_all()?;
    }
    Ok(())
}

/// What is wrong with the anchors.
fn anchor_damage(anchors: &[Result<Anchor, AnchorFlaw>], head: u64) -> Vec<String> {
    let mut damage = Vec::new();
    for (name, anchor) in ["the anchor", "the second anchor"].iter().zip(anchors) {
        match anchor {
            Err(AnchorFlaw::Changed) => damage.push(format!("{name} was changed")),
            // The second one is missing whenever its place was only just configured.
            Err(AnchorFlaw::Missing) if *name == "the anchor" && head > 0 => {
                damage.push(format!("{name} is missing"))
            }
            Err(AnchorFlaw::Missing) | Ok(_) => {}
        }
    }
    damage
}

/// The first record that need not be on disk whole, where the machine went down since the last one was written. Pages that
/// no sync had reached are then as they were before, in no order: what is bad there is not somebody's doing.
fn doubtful(anchors: &[&Anchor], boot: &str) -> Option<u64> {
    let last = anchors.iter().max_by_key(|anchor| anchor.seq)?;
    let synced = anchors.iter().map(|anchor| anchor.synced).max()?;
    let went_down = last.writer != WriterState::Closed && (boot.is_empty() || last.boot != boot);
    went_down.then_some(synced + 1)
}

/// What the anchors count beyond the head. Pure.
fn missing(head: u64, anchors: &[&Anchor], boot: &str) -> Option<Missing> {
    let last = anchors.iter().max_by_key(|anchor| anchor.seq).filter(|anchor| anchor.seq > head)?;
    let synced = anchors.iter().any(|anchor| anchor.synced > head);
    let same_boot = !boot.is_empty() && last.boot == boot;
    let cause = if synced || same_boot { MissingCause::Removed } else { MissingCause::PowerFailure };
    Some(Missing { from: head + 1, to: last.seq, cause })
}
