//! Reading the record: from the daemon itself or from another process, beside a writer or without one.

use std::path::{Path, PathBuf};

use crate::{LedgerError, Record, reverse::Reverse, segment};

/// Reads one ledger's folder. Takes no lock and changes nothing.
#[derive(Clone, Debug)]
pub struct Reader {
    folder: PathBuf,
}

impl Reader {
    /// A reader of the ledger in `folder`.
    pub fn new(folder: &Path) -> Reader {
        Reader { folder: folder.to_owned() }
    }

    /// The last `count` records, oldest first.
    pub fn tail(&self, count: usize) -> Result<Vec<Record>, LedgerError> {
        let mut reverse = Reverse::new(segment::list(&self.folder)?);
        let mut records = Vec::new();
        while records.len() < count {
            let Some(found) = reverse.next_line()? else { break };
            records.extend(Record::parse(&found.line));
        }
        records.reverse();
        Ok(records)
    }
}
