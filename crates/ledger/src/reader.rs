//! Reading of the ledger, from the daemon or from another process, with or without a concurrent writer.

use std::{
    collections::HashMap,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use tool::CallId;

use crate::{
    Filter, LedgerError, Record,
    facets::Facets,
    index::search::{Place, Snapshot},
    lines::Reverse,
    private_file,
    segment::{self, Segment},
};

/// Reader of one ledger folder. It changes nothing, takes no lock, and reads everything that has the form of
/// a record. All its methods are blocking.
#[derive(Clone, Debug)]
pub struct Reader {
    pub(crate) folder: PathBuf,
}

impl Reader {
    /// Creates a reader of the ledger in `folder`.
    pub fn new(folder: &Path) -> Reader {
        Reader { folder: folder.to_owned() }
    }

    /// Returns the last `count` records, oldest first.
    pub fn tail(&self, count: usize) -> Result<Vec<Record>, LedgerError> {
        let mut records = self.query(&Filter { limit: Some(count), ..Filter::default() })?;
        records.reverse();
        Ok(records)
    }

    /// Returns all records of one call, oldest first.
    pub fn call(&self, call: CallId) -> Result<Vec<Record>, LedgerError> {
        let mut records = self.query(&Filter { call_id: Some(call), ..Filter::default() })?;
        records.reverse();
        Ok(records)
    }

    /// Returns matching records, newest first. The result is complete: records not yet in the index are read
    /// from the segments.
    pub fn query(&self, filter: &Filter) -> Result<Vec<Record>, LedgerError> {
        let index = Snapshot::open(&self.folder);
        let limit = filter.limit.unwrap_or(usize::MAX);
        let reached = index.as_ref().map_or(0, Snapshot::reached);
        let mut records = self.scan(filter, reached, limit)?;
        if let Some(index) = index
            && records.len() < limit
        {
            match self.look_up(&index, filter, limit - records.len()) {
                Some(found) => records.extend(found),
                // The index does not match the segments, which are authoritative.
                None => return self.scan(filter, 0, limit),
            }
        }
        Ok(records)
    }

    /// Reads backwards from the end down to sequence number `floor` (exclusive).
    fn scan(&self, filter: &Filter, floor: u64, limit: usize) -> Result<Vec<Record>, LedgerError> {
        let mut reverse = Reverse::new(segment::list(&self.folder)?);
        let floor = floor.max(filter.range().0.saturating_sub(1));
        let mut records = Vec::new();
        while records.len() < limit {
            let Some(line) = reverse.next_line()? else { break };
            let Some(facets) = Facets::parse(&line) else { continue };
            if facets.seq <= floor {
                break;
            }
            if filter.matches(&facets) {
                records.extend(Record::parse(&line));
            }
        }
        Ok(records)
    }

    /// Returns `None` if the index fails or points to a record that does not match it.
    fn look_up(&self, index: &Snapshot, filter: &Filter, limit: usize) -> Option<Vec<Record>> {
        let places = index.search(filter, limit).ok()?;
        let mut files = HashMap::new();
        let mut records = Vec::with_capacity(places.len());
        for place in places {
            let line = self.line_at(&mut files, place)?;
            let facets = Facets::parse(&line)?;
            if facets.seq != place.seq || !filter.matches(&facets) {
                return None;
            }
            records.push(Record::parse(&line)?);
        }
        Some(records)
    }

    fn line_at(&self, files: &mut HashMap<u64, File>, place: Place) -> Option<Vec<u8>> {
        if let std::collections::hash_map::Entry::Vacant(slot) = files.entry(place.segment) {
            let segment = Segment::new(&self.folder, place.segment);
            slot.insert(private_file::open_to_read(&segment.path).ok()?);
        }
        let mut line = vec![0; usize::try_from(place.length).ok()?.min(1 << 24)];
        files.get(&place.segment)?.read_exact_at(&mut line, place.offset).ok()?;
        (line.pop()? == b'\n').then_some(line)
    }
}
