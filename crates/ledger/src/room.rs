//! Room ahead of the records: the file of the open segment is made longer in large steps, and records are written into
//! what is there already.
//!
//! A record that begins a new page of a file costs the kernel several times what one in an old page does, and every second
//! call began one; to make a file longer is also what a sync has to put into the journal of the file system. Room is blank:
//! a byte that no record holds and every reader of JSON passes over. It ends at a multiple of [`STEP`], so that a byte more
//! or less of it is seen. Whoever ends a segment takes its room off.

use std::{fs::File, io, os::unix::fs::FileExt};

/// How much room is made at a time.
pub(crate) const STEP: u64 = 64 * 1024;
/// A tab: no line of ours holds a control character, and between values JSON allows this one.
pub(crate) const BLANK: u8 = b'\t';

/// How often a file that becomes shorter is looked at: its room is taken off seldom.
const LOOKS: u32 = 4;

static BLANKS: [u8; STEP as usize] = [BLANK; STEP as usize];

/// Where the room of a file with so many bytes of records ends.
pub(crate) fn end_for(length: u64) -> u64 {
    length.next_multiple_of(STEP)
}

/// How far a file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Where its records end, the last of them whole or not.
    pub(crate) records: u64,
    /// Where the file ends.
    pub(crate) file: u64,
}

impl Extent {
    /// How many bytes of room are behind the records.
    pub(crate) fn room(self) -> u64 {
        self.file.saturating_sub(self.records)
    }

    /// How much that is, held against what a writer makes.
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

/// How much room a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    None,
    /// Less than is made: a writer was killed at it, or is at it.
    Begun,
    Whole,
    TooMuch,
}

/// Fills a file with room from here to there, which is at most one step.
pub(crate) fn fill(file: &File, from: u64, to: u64) -> io::Result<()> {
    let count = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
    let blanks = BLANKS.get(..count).ok_or(io::ErrorKind::InvalidInput)?;
    file.write_all_at(blanks, from)
}

/// Whether a file has nothing but room from here to there.
pub(crate) fn is_blank(file: &File, from: u64, to: u64) -> io::Result<bool> {
    let mut bytes = vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or_default()];
    file.read_exact_at(&mut bytes, from)?;
    Ok(last_that_is_not_blank(&bytes).is_none())
}

/// Where that is. Pieces are compared whole: a byte at a time, a step would take longer than all else at a sync.
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

/// How far the records of a file go: to its last byte that is not blank.
///
/// A writer may be at work. It writes from the front to the back and changes nothing that it wrote, so what is before this
/// place is there for good; but only for who reads it after this, since what was read together with that last byte can be older.
pub(crate) fn extent(file: &File) -> io::Result<Extent> {
    for _ in 1..LOOKS {
        match look(file) {
            // The room was taken off meanwhile.
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
    fn room_begins_behind_the_last_byte_that_is_not_blank() {
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
    fn a_byte_more_or_less_of_it_is_not_what_is_made() {
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
    fn what_is_filled_is_blank_and_nothing_else_changes() {
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
