//! Reading of the ledger, from the daemon or from another process, with or without a concurrent writer.

use std::{
    collections::HashMap,
    fs::{self, File},
    io,
    num::NonZero,
    ops::ControlFlow,
    os::unix::fs::FileExt,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use jiff::Timestamp;
use memchr::memmem::Finder;
use tool::CallId;

use crate::{
    LedgerError, LedgerRecord, RecordFilter,
    export::for_each_line_of,
    index::search::{IndexSnapshot, RecordPosition},
    lines::{ReverseLines, SegmentLines},
    private_file,
    search_fields::SearchFields,
    segment::{self, Segment},
};

/// Reader of one ledger folder. It changes nothing, takes no lock, and reads everything that has the form of
/// a record. All its methods are blocking.
#[derive(Clone, Debug)]
pub struct LedgerReader {
    pub(crate) folder: PathBuf,
}

impl LedgerReader {
    /// Creates a reader of the ledger in `folder`.
    pub fn new(folder: &Path) -> LedgerReader {
        LedgerReader { folder: folder.to_owned() }
    }

    /// Returns the last `count` records, oldest first.
    pub fn tail(&self, count: usize) -> Result<Vec<LedgerRecord>, LedgerError> {
        let mut records = self.query(&RecordFilter { limit: Some(count), ..RecordFilter::default() })?;
        records.reverse();
        Ok(records)
    }

    /// Returns all records of one call, oldest first.
    pub fn call(&self, call: CallId) -> Result<Vec<LedgerRecord>, LedgerError> {
        let mut records = self.query(&RecordFilter { call_id: Some(call), ..RecordFilter::default() })?;
        records.reverse();
        Ok(records)
    }

    /// Returns matching records, newest first. The result is complete: records not yet in the index are read
    /// from the segments.
    pub fn query(&self, filter: &RecordFilter) -> Result<Vec<LedgerRecord>, LedgerError> {
        let index = IndexSnapshot::open(&self.folder);
        let limit = filter.limit.unwrap_or(usize::MAX);
        let reached = index.as_ref().map_or(0, IndexSnapshot::last_indexed);
        let mut records = self.scan(filter, reached, limit)?;
        if let Some(index) = index
            && records.len() < limit
        {
            match self.search_index(&index, filter, limit - records.len()) {
                Some(found) => records.extend(found),
                // The index does not match the segments, which are authoritative.
                None => return self.scan(filter, 0, limit),
            }
        }
        Ok(records)
    }

    /// Returns the decisions with an idempotency key since a time, oldest first. Reads every segment that was written
    /// since then, and not the index, which may miss a record.
    pub fn decisions_with_key(&self, since: Timestamp) -> Result<Vec<LedgerRecord>, LedgerError> {
        let field = Finder::new(r#""idempotency_key":""#);
        let mut records = Vec::new();
        for segment in self.segments_since(since)? {
            let failed = |error| LedgerError::io("read", &segment.path)(error);
            let mut lines = match SegmentLines::open(&segment) {
                // Retention removed the segment between listing and opening.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(failed)?,
            };
            while let Some(line) = lines.next_line().map_err(failed)? {
                let text = line.without_newline().filter(|text| field.find(text).is_some());
                let record = text.and_then(LedgerRecord::parse).filter(|record| record.time >= since);
                records.extend(record.filter(|record| record.entry.kind() == "decision"));
            }
        }
        Ok(records)
    }

    /// Folds the records of each segment since a time, oldest first, into a value. The segments are shared by all processors.
    /// `fold` gets the kind and the line of a record. The values are in the order of the segments.
    pub fn fold_segments<T: Default + Send>(
        &self,
        since: Timestamp,
        fold: impl Fn(&mut T, &str, &[u8]) + Sync,
    ) -> Result<Vec<T>, LedgerError> {
        let segments = self.segments_since(since)?;
        let filter = RecordFilter { since: Some(since), ..RecordFilter::default() };
        let next = AtomicUsize::new(0);
        let work = || {
            let mut folded = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(segment) = segments.get(number) else { return Ok(folded) };
                let mut value = T::default();
                let _ = for_each_line_of(segment, &filter, |fields, line| {
                    fold(&mut value, &fields.kind, line);
                    Ok(ControlFlow::Continue(()))
                })?;
                folded.push((number, value));
            }
        };
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(segments.len());
        let folded: Result<Vec<Vec<_>>, LedgerError> = thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .collect()
        });
        let mut folded: Vec<(usize, T)> = folded?.into_iter().flatten().collect();
        folded.sort_unstable_by_key(|(number, _)| *number);
        Ok(folded.into_iter().map(|(_, value)| value).collect())
    }

    /// Returns the segments that were written to since a time, oldest first.
    fn segments_since(&self, since: Timestamp) -> Result<Vec<Segment>, LedgerError> {
        let mut segments = segment::list(&self.folder)?;
        segments.retain(|segment| {
            let written = fs::metadata(&segment.path).and_then(|file| file.modified());
            !written.is_ok_and(|at| Timestamp::try_from(at).is_ok_and(|written| written < since))
        });
        Ok(segments)
    }

    /// Reads backwards from the end down to sequence number `floor` (exclusive).
    fn scan(
        &self,
        filter: &RecordFilter,
        lower_bound: u64,
        limit: usize,
    ) -> Result<Vec<LedgerRecord>, LedgerError> {
        let mut reverse = ReverseLines::new(segment::list(&self.folder)?);
        let lower_bound = lower_bound.max(filter.seq_range().0.saturating_sub(1));
        let mut records = Vec::new();
        while records.len() < limit {
            let Some(line) = reverse.next_line()? else { break };
            let Some(fields) = SearchFields::parse(&line) else { continue };
            if fields.seq <= lower_bound {
                break;
            }
            if filter.matches(&fields) {
                records.extend(LedgerRecord::parse(&line));
            }
        }
        Ok(records)
    }

    /// Returns `None` if the index fails or points to a record that does not match it.
    fn search_index(
        &self,
        index: &IndexSnapshot,
        filter: &RecordFilter,
        limit: usize,
    ) -> Option<Vec<LedgerRecord>> {
        let places = index.search(filter, limit).ok()?;
        let mut files = HashMap::new();
        let mut records = Vec::with_capacity(places.len());
        for place in places {
            let line = self.line_at(&mut files, place)?;
            let fields = SearchFields::parse(&line)?;
            if fields.seq != place.seq || !filter.matches(&fields) {
                return None;
            }
            records.push(LedgerRecord::parse(&line)?);
        }
        Some(records)
    }

    fn line_at(&self, files: &mut HashMap<u64, File>, place: RecordPosition) -> Option<Vec<u8>> {
        if let std::collections::hash_map::Entry::Vacant(slot) = files.entry(place.segment) {
            let segment = Segment::new(&self.folder, place.segment);
            slot.insert(private_file::open_to_read(&segment.path).ok()?);
        }
        let mut line = vec![0; usize::try_from(place.length).ok()?.min(1 << 24)];
        files.get(&place.segment)?.read_exact_at(&mut line, place.offset).ok()?;
        (line.pop()? == b'\n').then_some(line)
    }
}
