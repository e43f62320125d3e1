//! Reads a part of a file without holding more than the result may contain, however large the file is or
//! becomes.

use std::io::{BufRead, BufReader};

use file_access::OpenedPath;
use tool::{Failure, FailureKind};

use super::display_path;

/// Part of a file to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilePart {
    Whole,
    Bytes { offset: u64, length: u64 },
    Lines { start: u64, end: u64 },
    Tail { lines: u64 },
}

/// Bytes read from a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileSlice {
    pub(super) bytes: Vec<u8>,
    /// Offset of the first byte.
    pub(super) offset: u64,
    /// Number of the first line, if lines were counted.
    pub(super) first_line: Option<u64>,
    /// True if the file continues after these bytes.
    pub(super) has_more: bool,
    /// Offset for reading requested lines that come before these and did not fit.
    pub(super) earlier_offset: Option<u64>,
    /// Size of the whole file, as reported by the system.
    pub(super) size: u64,
}

impl FilePart {
    /// Reads at most `max` bytes. To find a line, it scans at most `limit` bytes more.
    pub(super) fn read(self, file: &OpenedPath, limit: u64, max: u64) -> Result<FileSlice, Failure> {
        match self {
            FilePart::Whole => read_bytes(file, 0, limit.min(max)),
            FilePart::Bytes { offset, length } => read_bytes(file, offset, length.min(max)),
            FilePart::Lines { start, end } => {
                let size = file.read_range(0, 0)?.size;
                let reader = BufReader::with_capacity(64 * 1024, file.reader()?);
                let failed = |error| Failure::from_io(&format!("reading `{}`", display_path(file)), &error);
                let found =
                    read_lines(reader, start..=end, limit.saturating_add(max), max).map_err(failed)?;
                found.map(|piece| FileSlice { size, ..piece }).ok_or_else(|| line_too_far(file, start, limit))
            }
            FilePart::Tail { lines } => read_tail(file, lines, max),
        }
    }
}

fn read_bytes(file: &OpenedPath, offset: u64, max: u64) -> Result<FileSlice, Failure> {
    let portion = file.read_range(offset, max)?;
    let (more, size) = (portion.has_more, portion.size);
    Ok(FileSlice {
        bytes: portion.bytes,
        offset,
        first_line: None,
        has_more: more,
        earlier_offset: None,
        size,
    })
}

/// Reads the lines of `range`, up to `max` bytes; nothing if the first one is beyond the first `reach`
/// bytes.
fn read_lines(
    mut reader: impl BufRead,
    range: std::ops::RangeInclusive<u64>,
    reach: u64,
    max: u64,
) -> std::io::Result<Option<FileSlice>> {
    let (mut line, mut at, mut offset, mut bytes) = (1_u64, 0_u64, None, Vec::new());
    let more = 'read: loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            break false;
        }
        for byte in buffer {
            if line > *range.end() || bytes.len() as u64 == max {
                break 'read true;
            }
            if at >= reach && line < *range.start() {
                return Ok(None);
            }
            if line >= *range.start() {
                offset.get_or_insert(at);
                bytes.push(*byte);
            }
            at += 1;
            line += u64::from(*byte == b'\n');
        }
        let length = buffer.len();
        reader.consume(length);
    };
    let (offset, first_line) = (offset.unwrap_or(at), Some(*range.start()).filter(|_| !bytes.is_empty()));
    Ok(Some(FileSlice { bytes, offset, first_line, has_more: more, earlier_offset: None, size: 0 }))
}

fn line_too_far(file: &OpenedPath, start: u64, limit: u64) -> Failure {
    let message = format!("line {start} of `{}` is not within its first {limit} bytes", display_path(file));
    Failure::new(FailureKind::TooLarge, message).with_hint("use offset, or tail, or raise max_size_mb")
}

/// Reads the last lines. A file that reports no size is read from the start.
fn read_tail(file: &OpenedPath, lines: u64, max: u64) -> Result<FileSlice, Failure> {
    let size = file.read_range(0, 0)?.size;
    let start = size.saturating_sub(max);
    let portion = file.read_range(start, max)?;
    let from = offset_of_last_lines(&portion.bytes, lines);
    let skipped = match from {
        Some(from) => from,
        // Fewer lines than requested fit: keep the whole ones, or the end of one line longer than the budget.
        None if start > 0 => offset_of_first_whole_line(&portion.bytes),
        None => 0,
    };
    let before = (from.is_none() && start > 0).then(|| (start + skipped as u64).saturating_sub(max));
    let bytes = portion.bytes.get(skipped..).unwrap_or_default().to_vec();
    let (offset, more) = (start + skipped as u64, portion.has_more);
    Ok(FileSlice {
        bytes,
        offset,
        first_line: None,
        has_more: more,
        earlier_offset: before,
        size: portion.size,
    })
}

/// Returns the offset where the last `lines` lines begin, or nothing if there may be fewer. The last line may
/// be unterminated.
fn offset_of_last_lines(bytes: &[u8], lines: u64) -> Option<usize> {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let ends = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    let nth = usize::try_from(lines).ok()?.checked_sub(1)?;
    ends.map(|(at, _)| at + 1).nth(nth)
}

/// Returns the offset of the first whole line, or else of the first whole character.
fn offset_of_first_whole_line(bytes: &[u8]) -> usize {
    let line = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1).filter(|at| *at < bytes.len());
    line.unwrap_or_else(|| bytes.iter().take(4).take_while(|byte| **byte & 0xc0 == 0x80).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ranges_are_read_within_bounds() {
        let check = |text: &str, range, max, expect: (&str, u64, bool)| {
            let piece = read_lines(text.as_bytes(), range, 1000, max).unwrap().unwrap();
            let found = (std::str::from_utf8(&piece.bytes).unwrap(), piece.offset, piece.has_more);
            assert_eq!(found, expect, "{text:?}");
        };
        check("a\nb\nc\n", 1..=1, 100, ("a\n", 0, true));
        check("a\nb\nc\n", 2..=3, 100, ("b\nc\n", 2, false));
        check("a\nb\nc", 3..=9, 100, ("c", 4, false));
        check("a\nb", 7..=9, 100, ("", 3, false));
        check("a\nbcdef", 2..=9, 3, ("bcd", 2, true));
        check("", 1..=9, 3, ("", 0, false));
    }

    #[test]
    fn line_beyond_the_scan_limit_is_not_searched() {
        assert_eq!(read_lines(&b"aaaa\nb"[..], 2..=2, 4, 10).unwrap(), None);
        assert!(read_lines(&b"aaaa\nb"[..], 2..=2, 5, 10).unwrap().is_some());
    }

    #[test]
    fn last_lines_are_found_from_the_end() {
        let check = |text: &str, lines, expect| {
            assert_eq!(offset_of_last_lines(text.as_bytes(), lines), expect, "{text:?}")
        };
        check("a\nb\nc\n", 1, Some(4));
        check("a\nb\nc", 2, Some(2));
        check("a\nb\n", 2, None);
        check("", 1, None);
        assert_eq!(offset_of_first_whole_line("b\nc".as_bytes()), 2);
        assert_eq!(offset_of_first_whole_line(&"é".as_bytes()[1..]), 1);
        assert_eq!(offset_of_first_whole_line(b"abc"), 0);
    }
}
