//! A `tar.gz` whose bytes depend on its files only: sorted, without times, owners or an original file name.

use std::io::Write;

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};

const BLOCK: usize = 512;
/// Size of the name field of a ustar header; a name must be shorter.
const LONGEST_NAME: usize = 100;

/// A file in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Path below the top folder of the archive.
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Document,
    Program,
    Folder,
}

impl Entry {
    pub(crate) fn document(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Entry {
        Entry { name: name.into(), bytes: bytes.into(), kind: Kind::Document }
    }

    pub(crate) fn folder(name: impl Into<String>) -> Entry {
        Entry { name: name.into(), bytes: Vec::new(), kind: Kind::Folder }
    }

    pub(crate) fn program(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Entry {
        Entry { name: name.into(), bytes: bytes.into(), kind: Kind::Program }
    }
}

/// Packs all files below one folder.
pub(crate) fn pack(folder: &str, entries: &[Entry]) -> Result<Vec<u8>> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    for entry in sorted {
        let end = if entry.kind == Kind::Folder { "/" } else { "" };
        gzip.write_all(&header(&format!("{folder}/{}{end}", entry.name), entry)?)?;
        gzip.write_all(&entry.bytes)?;
        gzip.write_all(&vec![0; entry.bytes.len().next_multiple_of(BLOCK) - entry.bytes.len()])?;
    }
    gzip.write_all(&[0; 2 * BLOCK])?;
    gzip.finish().context("cannot compress")
}

/// Compresses one file, without its name and time.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    gzip.write_all(bytes)?;
    gzip.finish().context("cannot compress")
}

/// Builds a POSIX ustar header.
fn header(name: &str, entry: &Entry) -> Result<Vec<u8>> {
    if name.len() >= LONGEST_NAME {
        bail!("`{name}` is too long a name for the archive");
    }
    let (mode, kind) = match entry.kind {
        Kind::Document => (0o644, "0"),
        Kind::Program => (0o755, "0"),
        Kind::Folder => (0o755, "5"),
    };
    let head = |checksum: &str| -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK);
        let mut field = |text: String, width: usize| {
            let end = block.len() + width;
            block.extend(text.into_bytes());
            block.resize(end, 0);
        };
        field(name.to_owned(), LONGEST_NAME);
        field(format!("{mode:07o}"), 8);
        field(format!("{:07o}", 0), 8); // owner
        field(format!("{:07o}", 0), 8); // group
        field(format!("{:011o}", entry.bytes.len()), 12);
        field(format!("{:011o}", 0), 12); // time
        field(checksum.to_owned(), 8);
        field(kind.to_owned(), 1 + 100); // links to nothing
        field("ustar\u{0}00".to_owned(), 8);
        field("root".to_owned(), 32); // name of the owner
        field("root".to_owned(), BLOCK - 297); // name of the group; the rest is empty
        block
    };
    // The checksum is computed with blanks in its own field.
    let sum: u32 = head("        ").iter().map(|byte| u32::from(*byte)).sum();
    Ok(head(&format!("{sum:06o}\u{0} ")))
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
