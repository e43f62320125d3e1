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
use crate::opened::{CreationTarget, EntryLocation, OpenedObject, OpenedPath};
use crate::platform;
use crate::replace::{ContentPrecondition, NameLock, WriteSummary, new_temporary_name};
use crate::request::PathEnding;
use crate::resolve::has_path;
use crate::tree;
use crate::undo::ChangeRecorder;
use crate::unresolved::UnresolvedReason;

mod staged_folders;
use staged_folders::StagedFolders;

/// Created folders, the outermost first.
pub(crate) type CreatedFolders = Vec<PathBuf>;

/// Object at the end of the created folders.
#[derive(Clone, Copy, Debug)]
enum InnermostItem<'a> {
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
        expected: &ContentPrecondition,
        saving: &ChangeRecorder,
    ) -> Result<(WriteSummary, CreatedFolders), AccessError> {
        let Some(vacancy) = self.nested_target() else {
            return self.replace(content, expected, saving).map(|replaced| (replaced, Vec::new()));
        };
        if let ContentPrecondition::Content { .. } = expected {
            return Err(self.conflict_error("it does not exist"));
        }
        self.check_target(vacancy, PathEnding::Unspecified)?;
        let turn = self.lock_name(vacancy)?;
        if let Some(nearer) = self.reopen_from_new_folder(vacancy)? {
            drop(turn);
            return nearer.replace_with_folders(content, expected, saving);
        }
        let sha256 = tool::canonical::sha256_hex(content);
        self.create_staged(vacancy, InnermostItem::File { content, sha256: &sha256 }, saving)?;
        let bytes = content.len() as u64;
        Ok((WriteSummary { bytes, sha256, created: true }, self.missing_folders()))
    }

    /// Checks whether `replace_with_folders` would succeed now. Changes nothing.
    pub fn check_replace_with_folders(&self, expected: &ContentPrecondition) -> Result<(), AccessError> {
        match (self.nested_target(), expected) {
            (None, _) => self.check_replace(expected),
            (Some(_), ContentPrecondition::Content { .. }) => Err(self.conflict_error("it does not exist")),
            (Some(vacancy), ContentPrecondition::Absent | ContentPrecondition::Anything) => {
                self.check_target(vacancy, PathEnding::Unspecified)
            }
        }
    }

    /// Creates the folder and its missing parents. Does nothing if the folder exists.
    pub fn create_folders(&self, saving: &ChangeRecorder) -> Result<CreatedFolders, AccessError> {
        let vacancy = match self.check_create_folders()? {
            Some(vacancy) => vacancy,
            None => return Ok(Vec::new()),
        };
        let turn = self.lock_name(vacancy)?;
        if let Some(nearer) = self.reopen_from_new_folder(vacancy)? {
            drop(turn);
            return nearer.create_folders(saving);
        }
        self.create_staged(vacancy, InnermostItem::Folder, saving)?;
        Ok(self.folders_to_make())
    }

    /// Returns the folders that `OpenedPath::create_folders` would create now.
    pub fn preview_folders(&self) -> Result<CreatedFolders, AccessError> {
        Ok(self.check_create_folders()?.map(|_| self.folders_to_make()).unwrap_or_default())
    }

    fn folders_to_make(&self) -> CreatedFolders {
        let mut folders = self.missing_folders();
        folders.push(self.canonical.clone());
        folders
    }

    fn check_create_folders(&self) -> Result<Option<&CreationTarget>, AccessError> {
        match &self.object {
            OpenedObject::Directory { .. } => Ok(None),
            OpenedObject::Unresolved { creation_target: Some(vacancy), .. } => {
                self.check_target(vacancy, PathEnding::Directory)?;
                Ok(Some(vacancy))
            }
            _ => Err(self.wrong_kind_error("directory")),
        }
    }

    /// Returns the creation target, if a parent folder of the object is missing.
    fn nested_target(&self) -> Option<&CreationTarget> {
        match &self.object {
            OpenedObject::Unresolved { creation_target: Some(vacancy), .. }
                if !vacancy.missing_below.is_empty() =>
            {
                Some(vacancy)
            }
            _ => None,
        }
    }

    /// Checks that the existing folder still has the path that was judged, and that the end of the path fits
    /// what is created.
    fn check_target(&self, vacancy: &CreationTarget, meant: PathEnding) -> Result<(), AccessError> {
        if meant == PathEnding::Unspecified && vacancy.ending == PathEnding::Directory {
            let (path, found) = (self.canonical.clone(), "directory (it ends in a slash)");
            return Err(AccessError::WrongKind { path, found, expected: "file" });
        }
        self.still_there(&vacancy.location).map(drop)
    }

    fn lock_name(&self, vacancy: &CreationTarget) -> Result<NameLock, AccessError> {
        NameLock::acquire(&vacancy.location).map_err(|errno| self.creation_error(errno))
    }

    /// Returns this path opened from the next folder, if that folder has appeared since the path was opened.
    /// This lets two calls write into one new folder. The path is still the one that was judged.
    fn reopen_from_new_folder(&self, vacancy: &CreationTarget) -> Result<Option<OpenedPath>, AccessError> {
        let place = &vacancy.location;
        let folder = match platform::status_at(&place.folder, &place.leaf) {
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(self.creation_error(errno)),
            Ok(status) if status.kind == FileType::Directory => tree::open_folder(&place.folder, &place.leaf),
            Ok(_) => Err(Errno::NOTDIR),
        };
        let folder_name = place.path();
        let folder = folder.ok().filter(|folder| has_path(folder, &folder_name));
        let Some(folder) = folder else { return Err(self.conflict_error("something else has its name now")) };
        let mut names = vacancy.missing_below.iter().cloned();
        let object = match names.next() {
            Some(leaf) => {
                let place = EntryLocation { folder, folder_path: folder_name, leaf };
                let vacancy = CreationTarget {
                    location: place,
                    missing_below: names.collect(),
                    ending: vacancy.ending,
                };
                let is_last = vacancy.missing_below.is_empty();
                let obstacle =
                    if is_last { UnresolvedReason::Absent } else { UnresolvedReason::ParentMissing };
                OpenedObject::Unresolved { reason: obstacle, creation_target: Some(vacancy) }
            }
            None => {
                let status = platform::status(&folder).map_err(|errno| self.creation_error(errno))?;
                OpenedObject::Directory { handle: folder, facts: status.facts, location: None }
            }
        };
        Ok(Some(self.with_object(object)))
    }

    fn create_staged(
        &self,
        vacancy: &CreationTarget,
        last: InnermostItem<'_>,
        saving: &ChangeRecorder,
    ) -> Result<(), AccessError> {
        let place = &vacancy.location;
        let failed = |errno: Errno| self.creation_error(errno);
        git_directory::refuse_entry(place)?;
        let synced_folder = place.syncable_folder().map_err(failed)?;
        let name = new_temporary_name()
            .map_err(|error| AccessError::io("naming a temporary file for", &self.canonical, error))?;
        let sha256 = match last {
            InnermostItem::Folder => None,
            InnermostItem::File { sha256, .. } => Some(sha256),
        };
        // First: from here on, recovery at the next start knows everything that a crash can leave.
        let pending = saving.before_creating_folders(place, &vacancy.missing_below, sha256, &name)?;
        let scaffold = StagedFolders::create(place, name, &pending).map_err(failed)?;
        scaffold
            .fill(&vacancy.missing_below, last)
            .map_err(|error| AccessError::io("creating", &self.canonical, error))?;
        scaffold.commit_name().map_err(|errno| match errno {
            Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR => {
                self.conflict_error("something else has its name now")
            }
            errno => self.creation_error(errno),
        })?;
        if let Err(errno) = synced_folder.map_or(Ok(()), rustix::fs::fsync) {
            scaffold.revert_name();
            return Err(failed(errno));
        }
        drop(scaffold);
        pending.finish();
        Ok(())
    }

    fn creation_error(&self, errno: Errno) -> AccessError {
        AccessError::io("creating", &self.canonical, errno)
    }
}

#[cfg(test)]
mod tests;
