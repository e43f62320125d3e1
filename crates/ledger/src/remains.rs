//! What is behind the records of a segment that nobody writes, and how it is taken off: room without a word, an unfinished
//! line with its digest, anything more kept beside as evidence.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

use sha2::{Digest, Sha256};

use crate::{
    LedgerError,
    entry::Torn,
    private_file,
    room::{self, Amount, Extent},
    segment::Segment,
};

/// What is behind the last record, besides room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    Nothing,
    /// What a writer that died leaves.
    UnfinishedLine,
    More,
}

/// How the last writer left the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// It took its room off.
    Closed,
    Open,
}

/// Takes off what is behind the last record, which ends at `end`. Room that no writer leaves is as good as torn.
pub(crate) fn take_off(
    folder: &Path,
    segment: &Segment,
    end: u64,
    (extent, rest, left): (Extent, Rest, Left),
) -> io::Result<Option<Torn>> {
    if end == extent.file {
        return Ok(None);
    }
    let mut file = private_file::open_to_write(&segment.path)?;
    let is_strange = extent.amount() == Amount::TooMuch || left == Left::Closed;
    let behind = if is_strange { extent.file } else { extent.records };
    let torn = match behind - end {
        0 => None,
        bytes => Some(keep(folder, segment, (end, bytes), rest, &mut file)?),
    };
    end_at(&file, end)?;
    Ok(torn)
}

/// Notes what is torn. More than one unfinished line is evidence and is kept beside.
fn keep(
    folder: &Path,
    segment: &Segment,
    (offset, bytes): (u64, u64),
    rest: Rest,
    file: &mut File,
) -> io::Result<Torn> {
    let saved_as = (rest == Rest::More).then(|| format!("cut-{}-{offset}.bin", segment.name()));
    let mut copy = match &saved_as {
        None => None,
        Some(name) => Some(private_file::open_to_overwrite(&folder.join(name))?),
    };
    let (mut hash, mut block) = (Sha256::new(), vec![0; 64 * 1024]);
    file.seek(SeekFrom::Start(offset))?;
    let mut behind = file.take(bytes);
    loop {
        let count = behind.read(&mut block)?;
        let read = block.get(..count).unwrap_or_default();
        if read.is_empty() {
            break;
        }
        hash.update(read);
        copy.iter_mut().try_for_each(|copy| copy.write_all(read))?;
    }
    copy.iter().try_for_each(File::sync_all)?;
    let sha256 = tool::canonical::hex(&hash.finalize());
    Ok(Torn { segment: segment.name(), offset, bytes, sha256, saved_as })
}

/// Takes the room off segments that are followed by another, the last of them first. It goes before there is a next one, but
/// the machine may go down before the disk has heard of it; and a segment that had to be left keeps its room.
pub(crate) fn take_rooms_off(segments: &[Segment]) -> Result<(), LedgerError> {
    for segment in segments.iter().rev() {
        let taken = take_room_off(segment).map_err(LedgerError::io("take the room off", &segment.path))?;
        if !taken {
            break;
        }
    }
    Ok(())
}

/// Says whether there was some.
fn take_room_off(segment: &Segment) -> io::Result<bool> {
    let extent = room::extent(&private_file::open_to_read(&segment.path)?)?;
    // More than a writer leaves is for `verify` to tell.
    if matches!(extent.amount(), Amount::None | Amount::TooMuch) {
        return Ok(false);
    }
    end_at(&private_file::open_to_write(&segment.path)?, extent.records)?;
    Ok(true)
}

fn end_at(file: &File, end: u64) -> io::Result<()> {
    file.set_len(end)?;
    file.sync_all()
}
