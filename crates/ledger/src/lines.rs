//! Forward reading of a segment, line by line, with the position of each line.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Take},
};

use crate::{private_file, segment::Segment};

/// Maximum length of a line; it bounds memory for a file without newlines.
const LONGEST: u64 = 16 * 1024 * 1024;

/// Lines of one segment, up to its length when it was opened.
pub(crate) struct Lines {
    reader: BufReader<Take<File>>,
    offset: u64,
    number: u64,
    buffer: Vec<u8>,
}

/// Line with its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    /// Byte offset of the start.
    pub(crate) offset: u64,
    /// Line number, starting at 1.
    pub(crate) number: u64,
    /// Bytes including the newline, if there is one.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Line<'a> {
    /// Returns the line without its newline, or `None` if the newline is missing.
    pub(crate) fn whole(&self) -> Option<&'a [u8]> {
        self.bytes.strip_suffix(b"\n")
    }
}

impl Lines {
    pub(crate) fn open(segment: &Segment) -> io::Result<Lines> {
        Lines::open_at(segment, 0)
    }

    /// Opens at an offset where a line starts; line numbers count from there.
    pub(crate) fn open_at(segment: &Segment, offset: u64) -> io::Result<Lines> {
        let mut file = private_file::open_to_read(&segment.path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(offset))?;
        Ok(Lines {
            reader: BufReader::with_capacity(256 * 1024, file.take(length.saturating_sub(offset))),
            offset,
            number: 0,
            buffer: Vec::new(),
        })
    }

    /// Returns the next line, complete or not.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        let count = (&mut self.reader).take(LONGEST).read_until(b'\n', &mut self.buffer)?;
        if count == 0 {
            return Ok(None);
        }
        let offset = self.offset;
        self.offset += u64::try_from(count).unwrap_or_default();
        self.number += 1;
        Ok(Some(Line { offset, number: self.number, bytes: &self.buffer }))
    }
}
