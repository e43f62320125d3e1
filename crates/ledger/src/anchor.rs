//! Anchors: sealed notes of how many records there are and what the last one is, kept beside the segments and once
//! more elsewhere. A chain whose tail was cut is still a chain; only a count kept apart gives the cut away.
//!
//! An anchor is one padded line, overwritten in place after every record: no new blocks are needed for it, so a full
//! disk does not stop it, and a reader sees it whole.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    path::Path,
};

use serde::{Deserialize, Deserializer, de::Error as _};

use tool::json_text::write_number;

use crate::{hash::Hash, key::Key, private_file};

/// The size of an anchor: one sector, which disks write whole.
const SIZE: usize = 512;

/// Whether the writer meant to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WriterState {
    Open,
    /// It could not go on: the segment may hold less than was written.
    Halted,
    Closed,
}

/// What is known of the end of the record.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Anchor {
    /// The last record.
    pub(crate) seq: u64,
    /// Its seal.
    #[serde(deserialize_with = "read_hash")]
    pub(crate) hash: Hash,
    /// The first record of the segment it is in.
    pub(crate) segment: u64,
    /// Where it ends there.
    pub(crate) end: u64,
    /// The last record that is on disk for certain.
    pub(crate) synced: u64,
    /// Reads that were let through and whose records are still owed: a crash takes the records, not the number of them.
    #[serde(default)]
    pub(crate) owed: u64,
    /// Whether the writer meant to go on.
    pub(crate) writer: WriterState,
    /// The boot of the machine this was written in, where the system tells.
    pub(crate) boot: String,
}

/// Why an anchor cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnchorFlaw {
    Missing,
    Changed,
}

impl Anchor {
    /// The sealed, padded line. Written after every record, so without a detour through a value.
    pub(crate) fn render(&self, key: &Key) -> Vec<u8> {
        let Anchor { seq, hash, segment, end, synced, owed, writer, boot } = self;
        let mut line = Vec::with_capacity(SIZE);
        let mut number = |name: &[u8], number| {
            line.extend_from_slice(name);
            write_number(&mut line, number);
        };
        number(br#"{"seq":"#, *seq);
        number(br#","segment":"#, *segment);
        number(br#","end":"#, *end);
        number(br#","synced":"#, *synced);
        if *owed > 0 {
            number(br#","owed":"#, *owed);
        }
        line.extend_from_slice(match writer {
            WriterState::Open => br#","writer":"open","boot":""#,
            WriterState::Halted => br#","writer":"halted","boot":""#,
            WriterState::Closed => br#","writer":"closed","boot":""#,
        });
        // What names a boot is made of plain characters.
        line.extend_from_slice(boot.as_bytes());
        line.extend_from_slice(br#"","hash":""#);
        hash.write(&mut line);
        line.push(b'"');
        let seal = key.seal_anchor(&line);
        line.extend_from_slice(br#","mac":""#);
        seal.write(&mut line);
        line.extend_from_slice(b"\"}");
        line.resize(SIZE - 1, b' ');
        line.push(b'\n');
        line
    }

    /// Reads an anchor back. Any byte that differs from what was rendered makes it invalid.
    pub(crate) fn parse(bytes: &[u8], key: &Key) -> Result<Anchor, AnchorFlaw> {
        if bytes.is_empty() {
            return Err(AnchorFlaw::Missing);
        }
        let mut value: serde_json::Value = serde_json::from_slice(bytes).map_err(|_| AnchorFlaw::Changed)?;
        value.as_object_mut().and_then(|object| object.remove("mac")).ok_or(AnchorFlaw::Changed)?;
        let anchor: Anchor = serde_json::from_value(value).map_err(|_| AnchorFlaw::Changed)?;
        if anchor.render(key) == bytes { Ok(anchor) } else { Err(AnchorFlaw::Changed) }
    }

    /// Reads the anchor in a file. A writer may be overwriting it, so a bad one is looked at again.
    pub(crate) fn read(path: &Path, key: &Key) -> Result<Anchor, AnchorFlaw> {
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

fn read_hash<'de, D: Deserializer<'de>>(from: D) -> Result<Hash, D::Error> {
    let text = String::deserialize(from)?;
    Hash::parse(text.as_bytes()).ok_or_else(|| D::Error::custom("not a seal"))
}

/// An anchor that is being kept up to date.
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

    /// Takes off whatever else was put into the file.
    pub(crate) fn trim(&self) -> io::Result<()> {
        self.0.set_len(u64::try_from(SIZE).unwrap_or(u64::MAX))
    }

    pub(crate) fn try_clone(&self) -> io::Result<AnchorFile> {
        self.0.try_clone().map(AnchorFile)
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// The boot of the machine, where the system tells: Linux does, and elsewhere the answer is empty.
pub(crate) fn boot_id() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.chars().filter(|c| c.is_ascii_hexdigit() || *c == '-').take(36).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_back_and_every_byte_counts() {
        let key = Key::derive(&[1; 32]).unwrap();
        let anchor = Anchor {
            seq: u64::MAX,
            hash: Hash([0xab; 32]),
            segment: u64::MAX,
            end: u64::MAX,
            synced: u64::MAX,
            owed: u64::MAX,
            writer: WriterState::Closed,
            boot: "f".repeat(36),
        };
        let bytes = anchor.render(&key);
        assert_eq!(bytes.len(), SIZE, "the longest anchor fits its sector");
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
        assert!(Anchor::parse(&bytes, &Key::derive(&[2; 32]).unwrap()).is_err());
    }

    /// An anchor is valid where rendering it again gives the same bytes, so the form is not ours to change.
    #[test]
    fn the_form_is_the_one_that_older_ledgers_have() {
        let key = Key::derive(&[1; 32]).unwrap();
        let (hash, writer, boot) = (Hash([0; 32]), WriterState::Open, "0f-1".to_owned());
        let anchor = Anchor { seq: 10, hash, segment: 1, end: 4096, synced: 9, owed: 0, writer, boot };
        let text = |anchor: &Anchor| String::from_utf8(anchor.render(&key)).unwrap();
        let (head, tail) = (r#"{"seq":10,"segment":1,"end":4096,"synced":9"#, r#""boot":"0f-1","hash":"000"#);
        let whole = text(&anchor);
        assert!(whole.starts_with(&format!(r#"{head},"writer":"open",{tail}"#)), "{whole}");
        let whole = text(&Anchor { owed: 3, writer: WriterState::Halted, ..anchor });
        assert!(whole.starts_with(&format!(r#"{head},"owed":3,"writer":"halted",{tail}"#)), "{whole}");
    }
}
