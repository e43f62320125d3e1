//! Resumption after a failure: creates a new segment that records the reason and is durable before the ledger
//! accepts entries.

use std::{fs, io, io::Write, sync::Arc};

use jiff::Timestamp;

use crate::{
    chain::ChainPosition,
    disk::LedgerDisk,
    entry::{LedgerEntry, ResumptionEntry},
    line::EntryBody,
    lines::SegmentLines,
    segment::{self, OpenSegment},
    shared::{LedgerShared, lock},
    writer::{HaltKind, LedgerWriter, WriterHalt},
};

/// Makes one attempt. On an error the ledger stays halted.
pub(crate) fn resume(shared: &LedgerShared) -> io::Result<()> {
    let mut writer = lock(&shared.writer);
    let Some(halt) = writer.halt.clone() else { return Ok(()) };
    if halt.kind == HaltKind::Closed {
        return Ok(());
    }
    // From here on no other thread writes a line, so the end of the chain cannot change without the lock.
    writer.halt = Some(WriterHalt { kind: HaltKind::Resuming, ..halt.clone() });
    let plan = ResumePlan::new(&writer, &halt);
    drop(writer);

    let begun = plan.execute(shared);

    let mut writer = lock(&shared.writer);
    match begun {
        Ok((active, chain, lost)) => {
            writer.unsynced_segments.clear();
            writer.active = active;
            writer.chain = chain;
            writer.synced = chain.head();
            writer.names_changed = false;
            writer.lost_records += lost;
            writer.rotate_at = writer.options.segment_limit();
            writer.halt = None;
            writer.write_anchor();
            shared.publish_state(&writer);
            tracing::info!(segment = writer.active.segment.name(), "the ledger accepts records again");
            Ok(())
        }
        Err(error) => {
            writer.halt = Some(halt);
            Err(error)
        }
    }
}

/// Data collected under the lock and used without it.
struct ResumePlan {
    disk: Arc<dyn LedgerDisk>,
    folder: Arc<fs::File>,
    reserve: std::path::PathBuf,
    reserve_bytes: usize,
    chain: ChainPosition,
    /// Segments whose lines may not be on disk.
    uncertain_segments: Vec<segment::Segment>,
    /// Files that are complete and only need a sync.
    complete_files: Vec<Arc<fs::File>>,
    checkpoint: LedgerEntry,
    resumed: ResumptionEntry,
}

impl ResumePlan {
    fn new(writer: &LedgerWriter, halt: &WriterHalt) -> ResumePlan {
        let all = || writer.unsynced_segments.iter().chain([&writer.active]);
        let broken = halt.kind == HaltKind::Broken;
        ResumePlan {
            disk: Arc::clone(&writer.disk),
            folder: Arc::clone(&writer.folder_file),
            reserve: writer.reserve_path(),
            reserve_bytes: writer.options.reserve_bytes,
            chain: writer.chain,
            uncertain_segments: all().filter(|_| broken).map(|active| active.segment.clone()).collect(),
            complete_files: all().filter(|_| !broken).map(|active| Arc::clone(&active.file)).collect(),
            checkpoint: LedgerEntry::Checkpoint(writer.tracker.checkpoint(Timestamp::now())),
            resumed: ResumptionEntry {
                reason: halt.reason.to_string(),
                since: halt.since,
                sealed: writer.abandoned_segment(),
                rejected: writer.rejected - writer.rejected_before_halt,
                lost: 0,
            },
        }
    }

    fn execute(mut self, shared: &LedgerShared) -> io::Result<(OpenSegment, ChainPosition, u64)> {
        fill_reserve(&*self.disk, &self.reserve, self.reserve_bytes)?;
        self.complete_files.iter().try_for_each(|file| self.disk.sync(file))?;
        self.resumed.lost = self.count_lost(shared);
        let bodies =
            [&self.checkpoint, &LedgerEntry::Resumed(self.resumed.clone())].map(EntryBody::unshortened);
        let bodies = bodies.into_iter().collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
        let (active, chain) =
            segment::create_segment(&*self.disk, &shared.folder, self.chain, &shared.key, bodies)?;
        let durable = self.disk.sync(&active.file).and_then(|()| self.disk.sync_folder(&self.folder));
        match durable {
            Ok(()) => Ok((active, chain, self.resumed.lost)),
            Err(error) => {
                let _ = fs::remove_file(&active.segment.path);
                Err(error)
            }
        }
    }

    /// Returns the number of records that were written, not known to be durable, and can no longer be read.
    fn count_lost(&self, shared: &LedgerShared) -> u64 {
        let Some(first) = self.uncertain_segments.first().map(|segment| segment.first) else { return 0 };
        let mut head = first.saturating_sub(1);
        let mut found = 0;
        for doubtful in &self.uncertain_segments {
            let Ok(mut lines) = SegmentLines::open(doubtful) else { continue };
            while let Ok(Some(line)) = lines.next_line() {
                let Some(parts) = line.without_newline().and_then(crate::line::parse_line) else { continue };
                if parts.is_authentic(&shared.key) && parts.seq > head && parts.seq <= self.chain.head() {
                    head = parts.seq;
                    found += 1;
                }
            }
        }
        (self.chain.head() + 1).saturating_sub(first).saturating_sub(found)
    }
}

/// Allocates the reserve for the final records on a full disk, which also proves that there is space to
/// continue.
pub(crate) fn fill_reserve(disk: &dyn LedgerDisk, path: &std::path::Path, bytes: usize) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|found| usize::try_from(found.len()) == Ok(bytes)) {
        return Ok(());
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = disk.create(path)?;
    let filled = file.write_all(&vec![b'.'; bytes]).and_then(|()| disk.sync(&file));
    filled.inspect_err(|_| {
        let _ = fs::remove_file(path);
    })
}
