//! Recursive removal through handles, so that a folder replaced by a link meanwhile cannot lead elsewhere.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;

use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::{MAX_NAMES_PER_FOLDER, open_folder};
use crate::list::first_names;
use crate::platform;

/// Maximum number of times that a folder is emptied if it fills up again.
const MAX_ROUNDS: usize = 64;

/// A folder that is being emptied.
struct EmptyingFolder {
    handle: OwnedFd,
    name: OsString,
    names: std::vec::IntoIter<OsString>,
    rounds: usize,
}

/// Removes an entry of a folder and everything below it. Removes a link and not its target.
pub(crate) fn remove_tree(folder: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let mut levels = Vec::new();
    levels.extend(remove_entry(folder, name.to_owned(), 0)?);
    while let Some(here) = levels.last_mut() {
        if let Some(name) = here.names.next() {
            let lower_levels = remove_entry(&here.handle, name, 0)?;
            levels.extend(lower_levels);
            continue;
        }
        let Some(emptied) = levels.pop() else { break };
        let above = levels.last().map_or(folder, |above| &above.handle);
        match rustix::fs::unlinkat(above, &emptied.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            // An entry was added, or the folder was replaced, since it was emptied.
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) if emptied.rounds < MAX_ROUNDS => {
                let again = remove_entry(above, emptied.name, emptied.rounds + 1)?;
                levels.extend(again);
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Removes an entry, or opens it as a folder that must be emptied first.
fn remove_entry(above: &OwnedFd, name: OsString, rounds: usize) -> Result<Option<EmptyingFolder>, Errno> {
    let gone = |removed| match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    };
    match open_folder(above, &name) {
        Ok(handle) => {
            let (names, _) = first_names(platform::reopen_directory(&handle)?, MAX_NAMES_PER_FOLDER)?;
            Ok(Some(EmptyingFolder { handle, name, names: names.into_iter(), rounds }))
        }
        Err(Errno::NOENT) => Ok(None),
        // Not a folder. If it becomes one now, `unlinkat` fails and nothing is removed.
        Err(Errno::NOTDIR | Errno::LOOP) => gone(rustix::fs::unlinkat(above, &name, AtFlags::empty())),
        Err(errno) => Err(errno),
    }
}
