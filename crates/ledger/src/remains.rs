//! Removal of the bytes after the last record of a segment that has no writer: padding is removed without a
//! report, an unfinished line is reported with its digest, and anything more is also saved in a separate file
//! as evidence.

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

/// Bytes after the last record, other than padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    Nothing,
    /// Unfinished line, as a writer that died leaves it.
    UnfinishedLine,
    More,
}

/// State in which the last writer left the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// The writer closed the ledger and removed the padding.
    Closed,
    Open,
}

/// Truncates the segment to `end`, the end of its last record. Padding of a size that no writer leaves is
/// reported as torn.
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

/// Describes the torn bytes, and saves them in a separate file if they are more than one unfinished line.
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

/// Removes the padding of segments that have a successor, newest first. The writer removes it before it
/// creates the successor, but a power failure can undo that, and a segment abandoned after an error keeps its
/// padding.
pub(crate) fn take_rooms_off(segments: &[Segment]) -> Result<(), LedgerError> {
    for segment in segments.iter().rev() {
        let taken = take_room_off(segment).map_err(LedgerError::io("take the room off", &segment.path))?;
        if !taken {
            break;
        }
    }
    Ok(())
}

/// Returns true if there was padding.
fn take_room_off(segment: &Segment) -> io::Result<bool> {
    let extent = room::extent(&private_file::open_to_read(&segment.path)?)?;
    // `verify` reports padding of a size that no writer leaves.
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
