//! Removal of the bytes after the last record of a segment that has no writer: an unfinished line is reported
//! with its digest, and anything more is also saved in a separate file as evidence.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

use sha2::{Digest, Sha256};

use crate::{entry::Torn, private_file, segment::Segment};

/// Bytes after the last record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rest {
    #[default]
    Nothing,
    /// Unfinished line, as a writer that died leaves it.
    UnfinishedLine,
    More,
}

/// Truncates the segment to `end`, the end of its last record.
pub(crate) fn take_off(folder: &Path, segment: &Segment, end: u64, rest: Rest) -> io::Result<Option<Torn>> {
    if rest == Rest::Nothing {
        return Ok(None);
    }
    let mut file = private_file::open_to_append(&segment.path)?;
    let torn = keep(folder, segment, end, rest, &mut file)?;
    file.set_len(end)?;
    file.sync_all()?;
    Ok(Some(torn))
}

/// Describes the torn bytes, and saves them in a separate file if they are more than one unfinished line.
fn keep(folder: &Path, segment: &Segment, offset: u64, rest: Rest, file: &mut File) -> io::Result<Torn> {
    let saved_as = (rest == Rest::More).then(|| format!("cut-{}-{offset}.bin", segment.name()));
    let mut copy = match &saved_as {
        None => None,
        Some(name) => Some(private_file::open_to_overwrite(&folder.join(name))?),
    };
    let (mut hash, mut bytes, mut block) = (Sha256::new(), 0, vec![0; 64 * 1024]);
    file.seek(SeekFrom::Start(offset))?;
    loop {
        let count = file.read(&mut block)?;
        let read = block.get(..count).unwrap_or_default();
        if read.is_empty() {
            break;
        }
        hash.update(read);
        bytes += u64::try_from(count).unwrap_or_default();
        copy.iter_mut().try_for_each(|copy| copy.write_all(read))?;
    }
    copy.iter().try_for_each(File::sync_all)?;
    let sha256 = tool::canonical::hex(&hash.finalize());
    Ok(Torn { segment: segment.name(), offset, bytes, sha256, saved_as })
}
