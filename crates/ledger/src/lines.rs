//! Reading of segments line by line: forward within one segment, with the position of each line, and backward
//! across segments from the end of the ledger, possibly beside a writer.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Take},
    os::unix::fs::FileExt,
};

use crate::{LedgerError, private_file, segment::Segment};

/// Maximum length of a line; it bounds memory for a file without newlines.
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;

/// Lines of one segment, up to its length when it was opened.
pub(crate) struct SegmentLines {
    reader: BufReader<Take<File>>,
    offset: u64,
    number: u64,
    buffer: Vec<u8>,
}

/// Line with its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentLine<'a> {
    /// Byte offset of the start.
    pub(crate) offset: u64,
    /// Line number, starting at 1.
    pub(crate) number: u64,
    /// Bytes including the newline, if there is one.
    pub(crate) bytes: &'a [u8],
}

impl<'a> SegmentLine<'a> {
    /// Returns the line without its newline, or `None` if the newline is missing.
    pub(crate) fn without_newline(&self) -> Option<&'a [u8]> {
        self.bytes.strip_suffix(b"\n")
    }
}

impl SegmentLines {
    pub(crate) fn open(segment: &Segment) -> io::Result<SegmentLines> {
        SegmentLines::open_at(segment, 0)
    }

    /// Opens at an offset where a line starts; line numbers count from there.
    pub(crate) fn open_at(segment: &Segment, offset: u64) -> io::Result<SegmentLines> {
        let mut file = private_file::open_to_read(&segment.path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(offset))?;
        Ok(SegmentLines {
            reader: BufReader::with_capacity(256 * 1024, file.take(length.saturating_sub(offset))),
            offset,
            number: 0,
            buffer: Vec::new(),
        })
    }

    /// Returns the next line, complete or not.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<SegmentLine<'_>>> {
        self.buffer.clear();
        let count = (&mut self.reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut self.buffer)?;
        if count == 0 {
            return Ok(None);
        }
        let offset = self.offset;
        self.offset += u64::try_from(count).unwrap_or_default();
        self.number += 1;
        Ok(Some(SegmentLine { offset, number: self.number, bytes: &self.buffer }))
    }
}

/// Bytes read at a time.
const BLOCK_BYTES: u64 = 64 * 1024;

/// Iterator over complete lines from the last to the first. An unfinished last line belongs to a write in
/// progress and is skipped.
pub(crate) struct ReverseLines {
    /// Segments not yet opened, oldest first.
    segments: Vec<Segment>,
    current: Option<ReverseSegment>,
}

/// Segment being read.
struct ReverseSegment {
    segment: Segment,
    file: File,
    /// Offset before which nothing has been read yet.
    start: u64,
    /// Bytes from `start` on that were read and not yet returned.
    bytes: Vec<u8>,
}

impl ReverseLines {
    pub(crate) fn new(segments: Vec<Segment>) -> ReverseLines {
        ReverseLines { segments, current: None }
    }

    /// Returns the line before the last one returned.
    pub(crate) fn next_line(&mut self) -> Result<Option<Vec<u8>>, LedgerError> {
        loop {
            let Some(current) = &mut self.current else {
                let Some(segment) = self.segments.pop() else { return Ok(None) };
                self.current = ReverseSegment::open(segment)?;
                continue;
            };
            let path = current.segment.path.clone();
            if let Some(found) = current.next_line().map_err(LedgerError::io("read", path))? {
                return Ok(Some(found));
            }
            self.current = None;
        }
    }
}

impl ReverseSegment {
    fn open(segment: Segment) -> Result<Option<ReverseSegment>, LedgerError> {
        let opened =
            private_file::open_to_read(&segment.path).and_then(|file| Ok((file.metadata()?.len(), file)));
        match opened {
            Ok((start, file)) => {
                let mut current = ReverseSegment { segment, file, start, bytes: Vec::new() };
                let path = current.segment.path.clone();
                current.skip_unfinished().map_err(LedgerError::io("read", path))?;
                Ok(Some(current))
            }
            // Retention removed the segment between listing and opening.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LedgerError::io("open", segment.path)(error)),
        }
    }

    fn skip_unfinished(&mut self) -> io::Result<()> {
        loop {
            if let Some(newline) = self.bytes.iter().rposition(|byte| *byte == b'\n') {
                self.bytes.truncate(newline + 1);
                return Ok(());
            }
            if !self.read_more()? {
                self.bytes.clear();
                return Ok(());
            }
        }
    }

    fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let Some(text) = self.bytes.strip_suffix(b"\n") else { return Ok(None) };
            let begin = match text.iter().rposition(|byte| *byte == b'\n') {
                Some(newline) => newline + 1,
                None if self.start == 0 => 0,
                None => {
                    self.read_more()?;
                    continue;
                }
            };
            let line = text.get(begin..).unwrap_or_default().to_vec();
            self.bytes.truncate(begin);
            return Ok(Some(line));
        }
    }

    /// Reads the preceding block. The block size grows with long lines, so that they are not copied
    /// repeatedly.
    fn read_more(&mut self) -> io::Result<bool> {
        let buffered = u64::try_from(self.bytes.len()).unwrap_or_default();
        let count = BLOCK_BYTES.max(buffered).min(self.start);
        if count == 0 {
            return Ok(false);
        }
        let mut block = vec![0; usize::try_from(count).unwrap_or_default()];
        self.file.read_exact_at(&mut block, self.start - count)?;
        self.start -= count;
        block.append(&mut self.bytes);
        self.bytes = block;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn check(files: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        let mut segments = Vec::new();
        for (content, first) in files.iter().zip(1..) {
            let segment = Segment::new(folder.path(), first);
            fs::write(&segment.path, content).unwrap();
            segments.push(segment);
        }
        let mut expected = Vec::new();
        for content in files {
            let whole = content.rfind('\n').map_or("", |end| &content[..=end]);
            expected.extend(whole.split_inclusive('\n').map(|line| line.trim_end_matches('\n').to_owned()));
        }
        expected.reverse();
        let mut reverse = ReverseLines::new(segments);
        let mut found = Vec::new();
        while let Some(line) = reverse.next_line().unwrap() {
            found.push(String::from_utf8(line).unwrap());
        }
        assert!(found == expected, "{} lines instead of {}", found.len(), expected.len());
    }

    #[test]
    fn backward_reading_returns_the_same_lines() {
        check(&[]);
        check(&["", "a\n", "", "b\nc\n"]);
        check(&["a\nb\nunfinished"]);
        check(&["unfinished only"]);
        check(&["\n\n\n"]);
        let long = "x".repeat(300_000);
        let exact = "y".repeat(65_535);
        check(&[
            &format!("a\n{long}\n{exact}\n{long}\nb\n"),
            &format!("{long}\n{long}"),
            &format!("{exact}\n"),
        ]);
        let many: String = (0..40_000).map(|n| format!("line {n}\n")).collect();
        check(&[&many, &many]);
    }
}
