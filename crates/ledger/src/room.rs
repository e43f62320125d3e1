//! Preallocated padding after the records: the file of the open segment is extended in large steps, and
//! records are written into the existing pages.
//!
//! A record that starts a new page of a file costs the kernel several times as much as one in an existing
//! page, and every second call started one. Extending a file also adds to the file system journal at every
//! sync. Padding consists of a byte that no record contains and that JSON parsers skip. It ends at a multiple
//! of [`STEP`], so that a missing or additional byte is detected. The writer removes the padding when it ends
//! a segment.

use std::{fs::File, io, os::unix::fs::FileExt};

/// Bytes of padding per step.
pub(crate) const STEP: u64 = 64 * 1024;
/// Tab: no line contains a control character, and JSON allows a tab between values.
pub(crate) const BLANK: u8 = b'\t';

/// Number of attempts to read a file that gets shorter meanwhile, which is rare.
const LOOKS: u32 = 4;

static BLANKS: [u8; STEP as usize] = [BLANK; STEP as usize];

/// Returns the end of the padding of a file with `length` bytes of records.
pub(crate) fn end_for(length: u64) -> u64 {
    length.next_multiple_of(STEP)
}

/// Lengths of a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// End of the records; the last one may be unfinished.
    pub(crate) records: u64,
    /// End of the file.
    pub(crate) file: u64,
}

impl Extent {
    /// Returns the number of padding bytes.
    pub(crate) fn room(self) -> u64 {
        self.file.saturating_sub(self.records)
    }

    /// Compares the amount of padding with what a writer preallocates.
    pub(crate) fn amount(self) -> Amount {
        let made = end_for(self.records);
        match self.file {
            file if file == self.records => Amount::None,
            file if file < made => Amount::Begun,
            file if file == made => Amount::Whole,
            _ => Amount::TooMuch,
        }
    }
}

/// Amount of padding in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    None,
    /// Less than a writer preallocates: it is doing so now, or was killed while doing so.
    Begun,
    Whole,
    TooMuch,
}

/// Fills a file with padding from `from` to `to`, at most one step.
pub(crate) fn fill(file: &File, from: u64, to: u64) -> io::Result<()> {
    let count = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    let blanks = BLANKS.get(..count).ok_or(io::ErrorKind::InvalidInput)?;
    file.write_all_at(blanks, from)
}

/// Returns true if a file contains only padding from `from` to `to`.
pub(crate) fn is_blank(file: &File, from: u64, to: u64) -> io::Result<bool> {
    let mut bytes = vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or_default()];
    file.read_exact_at(&mut bytes, from)?;
    Ok(last_that_is_not_blank(&bytes).is_none())
}

/// Returns the position of the last byte that is not blank. It compares pieces of 1024 bytes, because
/// comparing byte by byte would take longer than the rest of a sync.
fn last_that_is_not_blank(bytes: &[u8]) -> Option<usize> {
    const PIECE: usize = 1024;
    let mut end = bytes.len();
    for piece in bytes.rchunks(PIECE) {
        let start = end - piece.len();
        if BLANKS.get(..piece.len()) != Some(piece) {
            return piece.iter().rposition(|byte| *byte != BLANK).map(|last| start + last);
        }
        end = start;
    }
    None
}

/// Returns the lengths of the records and of the file: the records end with the last byte that is not blank.
///
/// A writer may be active. It writes from front to back and never changes what it wrote, so everything before
/// this position is final. A reader must read it after this call, because bytes that were read together with
/// the last one can be older.
pub(crate) fn extent(file: &File) -> io::Result<Extent> {
    for _ in 1..LOOKS {
        match look(file) {
            // The writer removed the padding meanwhile.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            found => return found,
        }
    }
    look(file)
}

fn look(file: &File) -> io::Result<Extent> {
    let length = file.metadata()?.len();
    let (mut end, mut block) = (length, Vec::new());
    while end > 0 {
        let start = (end - 1) / STEP * STEP;
        block.resize(usize::try_from(end - start).unwrap_or_default(), 0);
        file.read_exact_at(&mut block, start)?;
        if let Some(last) = last_that_is_not_blank(&block) {
            end = start + u64::try_from(last).unwrap_or_default() + 1;
            break;
        }
        end = start;
    }
    Ok(Extent { records: end, file: length })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[track_caller]
    fn check(records: &[u8], blanks: usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, [records, &vec![BLANK; blanks]].concat()).unwrap();
        let found = extent(&File::open(path).unwrap()).unwrap();
        let (records, file) = (records.len() as u64, (records.len() + blanks) as u64);
        assert_eq!(found, Extent { records, file });
    }

    #[test]
    fn padding_starts_after_the_last_non_blank_byte() {
        let step = BLANKS.len();
        for blanks in [0, 1, step - 1, step, step + 1, 3 * step + 7] {
            check(b"", blanks);
            check(b"{}\n", blanks);
            check(b"a\tb\n", blanks);
            check(&vec![b'x'; step - 1], blanks);
            check(&vec![b'x'; step], blanks);
            check(&vec![b'x'; 2 * step + 1], blanks);
        }
    }

    #[test]
    fn one_byte_more_or_less_of_padding_is_detected() {
        for records in [1, STEP - 2, STEP + 1, 7 * STEP - 3] {
            let amount = |file| Extent { records, file }.amount();
            assert_eq!((amount(records), amount(end_for(records))), (Amount::None, Amount::Whole));
            for less in [records + 1, end_for(records) - 1] {
                assert_eq!(amount(less), Amount::Begun, "{less} for {records}");
            }
            for more in [end_for(records) + 1, end_for(records) + STEP] {
                assert_eq!(amount(more), Amount::TooMuch, "{more} for {records}");
            }
        }
        assert_eq!(Extent { records: STEP, file: STEP }.amount(), Amount::None);
        assert_eq!(Extent { records: STEP, file: 2 * STEP }.amount(), Amount::TooMuch);
    }

    #[test]
    fn filling_adds_blank_bytes_and_changes_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "{}\n").unwrap();
        let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        fill(&file, 3, end_for(3)).unwrap();
        let bytes = fs::read(&path).unwrap();
        assert_eq!((bytes.len() as u64, &bytes[..3]), (STEP, &b"{}\n"[..]));
        assert!(is_blank(&file, 3, STEP).unwrap() && !is_blank(&file, 2, STEP).unwrap());
        assert!(fill(&file, 0, STEP + 1).is_err(), "never less than asked");
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value, serde_json::json!({}), "to a reader of JSON it is nothing");
    }
}
