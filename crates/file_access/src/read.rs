//! Bounded reads through the handle that was judged.
//!
//! A read never returns more than was requested, even if the file reports another size or grows.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use tool::canonical;

use crate::error::AccessError;
use crate::opened::{ObjectFacts, ObjectKind, OpenedPath};
use crate::platform;

/// Maximum memory reserved before reading, since the reported size may be wrong.
const MAX_RESERVED_BYTES: u64 = 16 * 1024 * 1024;

/// Minimum number of bytes to digest. Generated files, such as those in `/proc`, report size 0.
const MIN_DIGEST_BYTES: u64 = 1024 * 1024;

/// Number of times a file is read that changes meanwhile.
const MAX_READS: usize = 3;

/// Part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChunk {
    /// Content, at most as many bytes as requested.
    pub bytes: Vec<u8>,
    /// True if the file continues after this part.
    pub has_more: bool,
    /// Reported size of the whole file; 0 for generated files.
    pub size: u64,
}

/// Sequential reader of a file with its own position.
#[derive(Debug)]
pub struct FileReader {
    file: File,
    offset: u64,
}

impl OpenedPath {
    /// Returns a reader of the file. It ends at the current end of the file, which may grow: bound it with
    /// `Read::take`.
    pub fn reader(&self) -> Result<FileReader, AccessError> {
        self.reopen(ObjectKind::File).map(|readable| FileReader::new(File::from(readable)))
    }

    /// Reads at most `max_bytes` bytes starting at `offset`.
    pub fn read_range(&self, offset: u64, max_bytes: u64) -> Result<FileChunk, AccessError> {
        if let Some(content) = self.prefetched.get() {
            return Ok(FileChunk::from_content(content, offset, max_bytes));
        }
        let failed = |error| AccessError::io("reading", &self.canonical, error);
        let reader = FileReader { offset, ..self.reader()? };
        reader.read_chunk(max_bytes).map_err(failed)
    }

    /// Runs `read` again if the file was changed in place meanwhile. Returns true beside the last result if the file
    /// changed each time. Two changes within one tick of the file system's clock that keep the size look the same.
    pub fn read_unchanged<T, E: From<AccessError>>(
        &self,
        mut read: impl FnMut() -> Result<T, E>,
    ) -> Result<(T, bool), E> {
        let mut reads = 1;
        loop {
            let before = self.content_version()?;
            let content = read()?;
            let is_changed = self.content_version()? != before;
            if !is_changed || reads == MAX_READS {
                return Ok((content, is_changed));
            }
            reads += 1;
        }
    }

    /// Returns size, modification time and change time; nothing for prefetched content, which does not change.
    fn content_version(&self) -> Result<Option<(u64, SystemTime, SystemTime)>, AccessError> {
        if self.prefetched.get().is_some() {
            return Ok(None);
        }
        let facts =
            self.reader()?.facts().map_err(|error| AccessError::io("reading", &self.canonical, error))?;
        Ok(Some((facts.size, facts.modified, facts.changed)))
    }

    /// Returns the SHA-256 of the content in lower-case hexadecimal.
    pub fn sha256(&self) -> Result<String, AccessError> {
        if let Some(content) = self.prefetched.get() {
            return Ok(canonical::sha256_hex(content));
        }
        self.reader()?.sha256().map_err(|error| AccessError::io("reading", &self.canonical, error))
    }
}

impl FileChunk {
    /// Returns a part of content that was read before.
    fn from_content(content: &[u8], offset: u64, max_bytes: u64) -> Self {
        let clamped = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).min(content.len());
        let (start, end) = (clamped(offset), clamped(offset.saturating_add(max_bytes)));
        let bytes = content.get(start..end).unwrap_or_default().to_vec();
        FileChunk { bytes, has_more: end < content.len(), size: content.len() as u64 }
    }
}

impl FileReader {
    pub(crate) fn new(file: File) -> Self {
        FileReader { file, offset: 0 }
    }

    /// Returns the metadata of the open file.
    pub(crate) fn facts(&self) -> io::Result<ObjectFacts> {
        Ok(platform::status(&self.file)?.facts)
    }

    /// Returns true if the file has other hard links, or if their number cannot be read.
    pub fn has_several_names(&self) -> bool {
        !self.facts().is_ok_and(|facts| facts.links == 1)
    }

    fn read_chunk(mut self, max_bytes: u64) -> io::Result<FileChunk> {
        let promised = self.file.metadata()?.len().saturating_sub(self.offset);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(
            usize::try_from(promised.min(max_bytes).min(MAX_RESERVED_BYTES)).unwrap_or(0),
        )?;
        self.by_ref().take(max_bytes).read_to_end(&mut bytes)?;
        let more = self.read(&mut [0])? > 0;
        Ok(FileChunk { bytes, has_more: more, size: self.file.metadata()?.len() })
    }

    /// Digests the file up to its size at the start, so that a growing file does not keep the digest running.
    pub(crate) fn sha256(mut self) -> io::Result<String> {
        let mut hasher = Sha256::new();
        let mut left = self.file.metadata()?.len().max(MIN_DIGEST_BYTES);
        let mut buffer = vec![0; 64 * 1024];
        while left > 0 {
            let length = self.read(&mut buffer)?.min(usize::try_from(left).unwrap_or(usize::MAX));
            if length == 0 {
                break;
            }
            hasher.update(buffer.get(..length).unwrap_or_default());
            left = left.saturating_sub(length as u64);
        }
        Ok(tool::canonical::hex(&hasher.finalize()))
    }
}

impl Read for FileReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if i64::try_from(self.offset).is_err() {
            return Ok(0);
        }
        let length = loop {
            match self.file.read_at(buffer, self.offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.offset = self.offset.saturating_add(length as u64);
        Ok(length)
    }
}

#[cfg(test)]
mod tests;
