//! Atomic creation of missing folders, together with the file in the innermost one.
//!
//! The folders are built under a temporary name in the existing folder and renamed to their name as a whole.
//! A folder that has appeared since the path was opened is entered through a handle; a symbolic link is never
//! followed.

use std::path::PathBuf;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::error::AccessError;
use crate::git_directory;
use crate::obstacle::Obstacle;
use crate::opened::{Object, OpenedPath, Place, Vacancy};
use crate::platform;
use crate::replace::{Expected, Replaced, Turn, new_temporary_name};
use crate::request::Ending;
use crate::resolve::is_named;
use crate::tree;
use crate::undo::Saving;

mod scaffold;
use scaffold::Scaffold;

/// Created folders, the outermost first.
pub type MadeFolders = Vec<PathBuf>;

/// Object at the end of the created folders.
#[derive(Clone, Copy, Debug)]
enum Last<'a> {
    /// One more folder.
    Folder,
    File {
        content: &'a [u8],
        sha256: &'a str,
    },
}

impl OpenedPath {
    /// Writes the content to the file, as `OpenedPath::replace` does, and creates the missing folders of its
    /// path. On any error no folder is left.
    pub fn replace_with_folders(
        &self,
        content: &[u8],
        expected: &Expected,
        saving: &Saving,
    ) -> Result<(Replaced, MadeFolders), AccessError> {
        let Some(vacancy) = self.gap() else {
            return self.replace(content, expected, saving).map(|replaced| (replaced, Vec::new()));
        };
        if let Expected::Content { .. } = expected {
            return Err(self.conflict("it does not exist"));
        }
        self.check_gap(vacancy, Ending::Open)?;
        let turn = self.turn(vacancy)?;
        if let Some(nearer) = self.nearer(vacancy)? {
            drop(turn);
            return nearer.replace_with_folders(content, expected, saving);
        }
        let sha256 = tool::canonical::sha256_hex(content);
        self.build(vacancy, Last::File { content, sha256: &sha256 }, saving)?;
        let bytes = content.len() as u64;
        Ok((Replaced { bytes, sha256, created: true }, self.missing_folders()))
    }

    /// Checks whether `replace_with_folders` would succeed now. Changes nothing.
    pub fn may_replace_with_folders(&self, expected: &Expected) -> Result<(), AccessError> {
        match (self.gap(), expected) {
            (None, _) => self.may_replace(expected),
            (Some(_), Expected::Content { .. }) => Err(self.conflict("it does not exist")),
            (Some(vacancy), Expected::Absent | Expected::Anything) => self.check_gap(vacancy, Ending::Open),
        }
    }

    /// Creates the folder and its missing parents. Does nothing if the folder exists.
    pub fn make_folders(&self, saving: &Saving) -> Result<MadeFolders, AccessError> {
        let vacancy = match self.may_make_folders()? {
            Some(vacancy) => vacancy,
            None => return Ok(Vec::new()),
        };
        let turn = self.turn(vacancy)?;
        if let Some(nearer) = self.nearer(vacancy)? {
            drop(turn);
            return nearer.make_folders(saving);
        }
        self.build(vacancy, Last::Folder, saving)?;
        Ok(self.folders_to_make())
    }

    /// Returns the folders that `OpenedPath::create_folders` would create now.
    pub fn rehearse_folders(&self) -> Result<MadeFolders, AccessError> {
        Ok(self.may_make_folders()?.map(|_| self.folders_to_make()).unwrap_or_default())
    }

    fn folders_to_make(&self) -> MadeFolders {
        let mut folders = self.missing_folders();
        folders.push(self.canonical.clone());
        folders
    }

    fn may_make_folders(&self) -> Result<Option<&Vacancy>, AccessError> {
        match &self.object {
            Object::Directory { .. } => Ok(None),
            Object::NotThere { vacancy: Some(vacancy), .. } => {
                self.check_gap(vacancy, Ending::Directory)?;
                Ok(Some(vacancy))
            }
            _ => Err(self.unsuitable("directory")),
        }
    }

    /// Returns the creation target, if a parent folder of the object is missing.
    fn gap(&self) -> Option<&Vacancy> {
        match &self.object {
            Object::NotThere { vacancy: Some(vacancy), .. } if !vacancy.beyond.is_empty() => Some(vacancy),
            _ => None,
        }
    }

    /// Checks that the existing folder still has the path that was judged, and that the end of the path fits
    /// what is created.
    fn check_gap(&self, vacancy: &Vacancy, meant: Ending) -> Result<(), AccessError> {
        if meant == Ending::Open && vacancy.ending == Ending::Directory {
            let (path, found) = (self.canonical.clone(), "directory (it ends in a slash)");
            return Err(AccessError::WrongKind { path, found, wanted: "file" });
        }
        self.still_there(&vacancy.place).map(drop)
    }

    fn turn(&self, vacancy: &Vacancy) -> Result<Turn, AccessError> {
        Turn::wait_for(&vacancy.place).map_err(|errno| self.failed_to_make(errno))
    }

    /// Returns this path opened from the next folder, if that folder has appeared since the path was opened.
    /// This lets two calls write into one new folder. The path is still the one that was judged.
    fn nearer(&self, vacancy: &Vacancy) -> Result<Option<OpenedPath>, AccessError> {
        let place = &vacancy.place;
        let folder = match platform::status_at(&place.folder, &place.leaf) {
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(self.failed_to_make(errno)),
            Ok(status) if status.kind == FileType::Directory => tree::open_folder(&place.folder, &place.leaf),
            Ok(_) => Err(Errno::NOTDIR),
        };
        let folder_name = place.path();
        let folder = folder.ok().filter(|folder| is_named(folder, &folder_name));
        let Some(folder) = folder else { return Err(self.conflict("something else has its name now")) };
        let mut names = vacancy.beyond.iter().cloned();
        let object = match names.next() {
            Some(leaf) => {
                let place = Place { folder, folder_name, leaf };
                let vacancy = Vacancy { place, beyond: names.collect(), ending: vacancy.ending };
                let is_last = vacancy.beyond.is_empty();
                let obstacle = if is_last { Obstacle::Absent } else { Obstacle::NoFolder };
                Object::NotThere { obstacle, vacancy: Some(vacancy) }
            }
            None => {
                let status = platform::status(&folder).map_err(|errno| self.failed_to_make(errno))?;
                Object::Directory { handle: folder, facts: status.facts, place: None }
            }
        };
        Ok(Some(self.with_object(object)))
    }

    fn build(&self, vacancy: &Vacancy, last: Last<'_>, saving: &Saving) -> Result<(), AccessError> {
        let place = &vacancy.place;
        let failed = |errno: Errno| self.failed_to_make(errno);
        git_directory::refuse_entry(place)?;
        let synced_folder = place.folder_to_sync().map_err(failed)?;
        let name = new_temporary_name();
        let sha256 = match last {
            Last::Folder => None,
            Last::File { sha256, .. } => Some(sha256),
        };
        // First: from here on, recovery at the next start knows everything that a crash can leave.
        let pending = saving.before_making(place, &vacancy.beyond, sha256, &name)?;
        let scaffold = Scaffold::begin(place, name, &pending).map_err(failed)?;
        scaffold
            .fill(&vacancy.beyond, last)
            .map_err(|error| AccessError::io("creating", &self.canonical, error))?;
        scaffold.take_name().map_err(|errno| match errno {
            Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR => {
                self.conflict("something else has its name now")
            }
            errno => self.failed_to_make(errno),
        })?;
        if let Err(errno) = synced_folder.map_or(Ok(()), rustix::fs::fsync) {
            scaffold.give_name_back();
            return Err(failed(errno));
        }
        drop(scaffold);
        pending.finish();
        Ok(())
    }

    fn failed_to_make(&self, errno: Errno) -> AccessError {
        AccessError::io("creating", &self.canonical, errno)
    }
}

#[cfg(test)]
mod tests;
