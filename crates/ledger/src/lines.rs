//! Reading a segment line by line, forwards, with the place of each line.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Take},
};

use crate::{private_file, room::Extent, segment::Segment};

/// No line of ours is longer; a file without newlines must not fill the memory.
const LONGEST: u64 = 16 * 1024 * 1024;

/// The lines of one segment, as many as there were when it was opened.
pub(crate) struct Lines {
    reader: BufReader<Take<File>>,
    extent: Extent,
    offset: u64,
    number: u64,
    buffer: Vec<u8>,
}

/// One line and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    /// Where it begins.
    pub(crate) offset: u64,
    /// 1-based.
    pub(crate) number: u64,
    /// With its newline, if it has one.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Line<'a> {
    /// The line without its newline; nothing if the newline is missing.
    pub(crate) fn whole(&self) -> Option<&'a [u8]> {
        self.bytes.strip_suffix(b"\n")
    }
}

impl Lines {
    pub(crate) fn open(segment: &Segment) -> io::Result<Lines> {
        Lines::open_at(segment, 0)
    }

    /// From a place where a line begins; numbers then count from there.
    pub(crate) fn open_at(segment: &Segment, offset: u64) -> io::Result<Lines> {
        let mut file = private_file::open_to_read(&segment.path)?;
        let extent = segment.extent(&file)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Lines {
            reader: BufReader::with_capacity(256 * 1024, file.take(extent.records.saturating_sub(offset))),
            extent,
            offset,
            number: 0,
            buffer: Vec::new(),
        })
    }

    /// How far the file goes.
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }

    /// How many lines were read.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line, whole or not.
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
