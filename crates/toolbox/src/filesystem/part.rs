//! A part of a file, read without ever holding more than may be answered, however large the file is or grows to be.

use std::io::{BufRead, BufReader};

use resources::OpenedPath;
use tool::{Failure, FailureKind};

use super::shown;

/// Which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    Bytes { offset: u64, length: u64 },
    Lines { start: u64, end: u64 },
    Tail { lines: u64 },
}

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    /// Where they begin.
    pub(super) offset: u64,
    /// The number of their first line, where lines were counted.
    pub(super) first_line: Option<u64>,
    /// Whether the file goes on after them.
    pub(super) more: bool,
    /// Where to look for lines that were asked for and left out before them.
    pub(super) before: Option<u64>,
    /// Of the whole file, as the system states it.
    pub(super) size: u64,
}

impl Part {
    /// Reads at most `most` bytes. To find a line, at most `limit` bytes are looked through.
    pub(super) fn read(self, file: &OpenedPath, limit: u64, most: u64) -> Result<Piece, Failure> {
        match self {
            Part::Whole => bytes(file, 0, limit.min(most)),
            Part::Bytes { offset, length } => bytes(file, offset, length.min(most)),
            Part::Lines { start, end } => {
                let size = file.read_range(0, 0)?.size;
                let reader = BufReader::with_capacity(64 * 1024, file.reader()?);
                let failed = |error| Failure::from_io(&format!("reading `{}`", shown(file)), &error);
                let found = lines(reader, start..=end, limit.saturating_add(most), most).map_err(failed)?;
                found.map(|piece| Piece { size, ..piece }).ok_or_else(|| too_far(file, start, limit))
            }
            Part::Tail { lines } => tail(file, lines, most),
        }
    }
}

fn bytes(file: &OpenedPath, offset: u64, most: u64) -> Result<Piece, Failure> {
    let portion = file.read_range(offset, most)?;
    let (more, size) = (portion.more, portion.size);
    Ok(Piece { bytes: portion.bytes, offset, first_line: None, more, before: None, size })
}

/// The lines of this range, as far as `most` bytes go; nothing if the first lies beyond the first `reach` bytes.
fn lines(
    mut reader: impl BufRead,
    range: std::ops::RangeInclusive<u64>,
    reach: u64,
    most: u64,
) -> std::io::Result<Option<Piece>> {
    let (mut line, mut at, mut offset, mut bytes) = (1_u64, 0_u64, None, Vec::new());
    let more = 'read: loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            break false;
        }
        for byte in buffer {
            if line > *range.end() || bytes.len() as u64 == most {
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
    Ok(Some(Piece { bytes, offset, first_line, more, before: None, size: 0 }))
}

fn too_far(file: &OpenedPath, start: u64, limit: u64) -> Failure {
    let message = format!("line {start} of `{}` is not within its first {limit} bytes", shown(file));
    Failure::new(FailureKind::TooLarge, message).hint("use offset, or tail, or raise max_size_mb")
}

/// The last lines. A file that states no size is read from its beginning.
fn tail(file: &OpenedPath, lines: u64, most: u64) -> Result<Piece, Failure> {
    let size = file.read_range(0, 0)?.size;
    let start = size.saturating_sub(most);
    let portion = file.read_range(start, most)?;
    let from = last_lines(&portion.bytes, lines);
    let skipped = match from {
        Some(from) => from,
        // Fewer lines than asked for fit: those that do, or a part of one that is longer than all that may be answered.
        None if start > 0 => first_whole(&portion.bytes),
        None => 0,
    };
    let before = (from.is_none() && start > 0).then(|| (start + skipped as u64).saturating_sub(most));
    let bytes = portion.bytes.get(skipped..).unwrap_or_default().to_vec();
    let (offset, more) = (start + skipped as u64, portion.more);
    Ok(Piece { bytes, offset, first_line: None, more, before, size: portion.size })
}

/// Where the last so many lines begin; nothing if there may be fewer. A last line need not end.
fn last_lines(bytes: &[u8], lines: u64) -> Option<usize> {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let ends = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    let nth = usize::try_from(lines).ok()?.checked_sub(1)?;
    ends.map(|(at, _)| at + 1).nth(nth)
}

/// The first whole line, or else the first whole character.
fn first_whole(bytes: &[u8]) -> usize {
    let line = bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1).filter(|at| *at < bytes.len());
    line.unwrap_or_else(|| bytes.iter().take(4).take_while(|byte| **byte & 0xc0 == 0x80).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_and_bounded() {
        let check = |text: &str, range, most, expect: (&str, u64, bool)| {
            let piece = lines(text.as_bytes(), range, 1000, most).unwrap().unwrap();
            let found = (std::str::from_utf8(&piece.bytes).unwrap(), piece.offset, piece.more);
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
    fn a_line_too_far_away_is_not_looked_for() {
        assert_eq!(lines(&b"aaaa\nb"[..], 2..=2, 4, 10).unwrap(), None);
        assert!(lines(&b"aaaa\nb"[..], 2..=2, 5, 10).unwrap().is_some());
    }

    #[test]
    fn the_last_lines_are_found_from_the_end() {
        let check =
            |text: &str, lines, expect| assert_eq!(last_lines(text.as_bytes(), lines), expect, "{text:?}");
        check("a\nb\nc\n", 1, Some(4));
        check("a\nb\nc", 2, Some(2));
        check("a\nb\n", 2, None);
        check("", 1, None);
        assert_eq!(first_whole("b\nc".as_bytes()), 2);
        assert_eq!(first_whole(&"é".as_bytes()[1..]), 1);
        assert_eq!(first_whole(b"abc"), 0);
    }
}
