//! Anchors: sealed notes of the number of records and the seal of the last one, stored next to the segments
//! and optionally in a second place. A chain whose end was cut off is still a valid chain; only a separate
//! count reveals the cut.
//!
//! An anchor is one padded line that is overwritten in place after every record, and for the records of reads
//! before their replies leave. It needs no new disk blocks, so a full disk does not stop it, and a reader
//! always sees a complete line.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::{hash::SealHash, key::LedgerKey, private_file};

/// Size of an anchor: one sector, which disks write atomically.
const ANCHOR_SIZE: usize = 512;

/// Intention of the writer when it wrote the anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WriterState {
    Open,
    /// The writer had to stop: the segment may contain less than was written.
    Halted,
    Closed,
}

/// Recorded end of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Anchor {
    /// Sequence number of the last record.
    pub(crate) seq: u64,
    /// First sequence number of the segment that contains it.
    pub(crate) segment: u64,
    /// End of the record in that segment.
    pub(crate) end: u64,
    /// Last record known to be on disk.
    pub(crate) synced: u64,
    /// Allowed read-only calls whose records are still deferred. A crash loses the records but not their
    /// number.
    // An anchor is valid only if rendering it again gives the same bytes, so its field keeps the first name.
    #[serde(rename = "owed", default, skip_serializing_if = "is_zero")]
    pub(crate) deferred: u64,
    /// State of the writer.
    pub(crate) writer: WriterState,
    /// Boot id of the machine when the anchor was written; empty if the system has none.
    pub(crate) boot: String,
    /// Seal of the last record.
    pub(crate) hash: SealHash,
}

/// Reason why an anchor cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnchorFlaw {
    Missing,
    Changed,
}

impl Anchor {
    /// Renders the sealed, padded line.
    pub(crate) fn render(&self, key: &LedgerKey) -> Vec<u8> {
        let mut line = Vec::with_capacity(ANCHOR_SIZE);
        // An anchor consists of numbers and strings, so it can always be serialised.
        let _ = serde_json::to_writer(&mut line, self);
        // The closing brace is added again after the seal.
        line.pop();
        let seal = key.seal_anchor(&line);
        line.extend_from_slice(br#","mac":""#);
        seal.write(&mut line);
        line.extend_from_slice(br#""}"#);
        line.resize(ANCHOR_SIZE - 1, b' ');
        line.push(b'\n');
        line
    }

    /// Parses an anchor. Any byte that differs from the rendered form makes it invalid.
    pub(crate) fn parse(bytes: &[u8], key: &LedgerKey) -> Result<Anchor, AnchorFlaw> {
        if bytes.is_empty() {
            return Err(AnchorFlaw::Missing);
        }
        let mut value: serde_json::Value = serde_json::from_slice(bytes).map_err(|_| AnchorFlaw::Changed)?;
        value.as_object_mut().and_then(|object| object.remove("mac")).ok_or(AnchorFlaw::Changed)?;
        let anchor: Anchor = serde_json::from_value(value).map_err(|_| AnchorFlaw::Changed)?;
        if anchor.render(key) == bytes { Ok(anchor) } else { Err(AnchorFlaw::Changed) }
    }

    /// Reads the anchor in a file. A writer may be overwriting it, so an invalid anchor is read again.
    pub(crate) fn read(path: &Path, key: &LedgerKey) -> Result<Anchor, AnchorFlaw> {
        let mut flaw = AnchorFlaw::Missing;
        for _ in 0..5 {
            let mut bytes = Vec::new();
            let read =
                private_file::open_to_read(path).and_then(|file| file.take(4096).read_to_end(&mut bytes));
            match read {
                Ok(_) => match Anchor::parse(&bytes, key) {
                    Ok(anchor) => return Ok(anchor),
                    Err(found) => flaw = found,
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(AnchorFlaw::Missing),
                Err(_) => flaw = AnchorFlaw::Changed,
            }
            std::thread::yield_now();
        }
        Err(flaw)
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Open file of an anchor that the writer updates.
#[derive(Debug)]
pub(crate) struct AnchorFile(File);

impl AnchorFile {
    pub(crate) fn open(path: &Path) -> io::Result<AnchorFile> {
        private_file::open_to_overwrite(path).map(AnchorFile)
    }

    pub(crate) fn write(&self, rendered: &[u8]) -> io::Result<()> {
        self.0.write_all_at(rendered, 0)?;
        Ok(())
    }

    /// Truncates the file to one anchor, in case other data was appended.
    pub(crate) fn truncate(&self) -> io::Result<()> {
        self.0.set_len(u64::try_from(ANCHOR_SIZE).unwrap_or(u64::MAX))
    }

    pub(crate) fn try_clone(&self) -> io::Result<AnchorFile> {
        self.0.try_clone().map(AnchorFile)
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// Returns the boot id of the machine. Only Linux has one; elsewhere it is empty.
pub(crate) fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.chars().filter(|c| c.is_ascii_hexdigit() || *c == '-').take(36).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_invalidates_the_anchor() {
        let key = LedgerKey::derive(&[1; 32]).unwrap();
        let anchor = Anchor {
            seq: u64::MAX,
            hash: SealHash([0xab; 32]),
            segment: u64::MAX,
            end: u64::MAX,
            synced: u64::MAX,
            deferred: u64::MAX,
            writer: WriterState::Closed,
            boot: "f".repeat(36),
        };
        let bytes = anchor.render(&key);
        assert_eq!(bytes.len(), ANCHOR_SIZE, "the longest anchor fits its sector");
        assert_eq!(Anchor::parse(&bytes, &key).as_ref(), Ok(&anchor));
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert_eq!(Anchor::parse(&changed, &key), Err(AnchorFlaw::Changed), "byte {place}");
        }
        for length in 1..bytes.len() {
            assert_eq!(Anchor::parse(&bytes[..length], &key), Err(AnchorFlaw::Changed), "cut at {length}");
        }
        assert_eq!(Anchor::parse(&[], &key), Err(AnchorFlaw::Missing));
        assert!(Anchor::parse(&bytes, &LedgerKey::derive(&[2; 32]).unwrap()).is_err());
    }

    /// An anchor is valid if rendering it again gives the same bytes, so the format must stay compatible.
    #[test]
    fn anchor_format_is_compatible_with_older_ledgers() {
        let key = LedgerKey::derive(&[1; 32]).unwrap();
        let (hash, writer, boot) = (SealHash([0; 32]), WriterState::Open, "0f-1".to_owned());
        let anchor = Anchor { seq: 10, hash, segment: 1, end: 4096, synced: 9, deferred: 0, writer, boot };
        let text = |anchor: &Anchor| String::from_utf8(anchor.render(&key)).unwrap();
        let (head, tail) = (r#"{"seq":10,"segment":1,"end":4096,"synced":9"#, r#""boot":"0f-1","hash":"000"#);
        let whole = text(&anchor);
        assert!(whole.starts_with(&format!(r#"{head},"writer":"open",{tail}"#)), "{whole}");
        let whole = text(&Anchor { deferred: 3, writer: WriterState::Halted, ..anchor });
        assert!(whole.starts_with(&format!(r#"{head},"owed":3,"writer":"halted",{tail}"#)), "{whole}");
    }
}
