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
        recorder: &ChangeRecorder,
    ) -> Result<(WriteSummary, CreatedFolders), AccessError> {
        let Some(target) = self.nested_target() else {
            return self.replace(content, expected, recorder).map(|replaced| (replaced, Vec::new()));
        };
        if let ContentPrecondition::Content { .. } = expected {
            return Err(self.conflict_error("it does not exist"));
        }
        self.check_target(target, PathEnding::Unspecified)?;
        let name_lock = self.lock_name(target)?;
        if let Some(nearer) = self.reopen_from_new_folder(target)? {
            drop(name_lock);
            return nearer.replace_with_folders(content, expected, recorder);
        }
        let sha256 = tool::canonical::sha256_hex(content);
        self.create_staged(target, InnermostItem::File { content, sha256: &sha256 }, recorder)?;
        let bytes = content.len() as u64;
        Ok((WriteSummary { bytes, sha256, created: true }, self.missing_folders()))
    }

    /// Checks whether `replace_with_folders` would succeed now. Changes nothing.
    pub fn check_replace_with_folders(&self, expected: &ContentPrecondition) -> Result<(), AccessError> {
        match (self.nested_target(), expected) {
            (None, _) => self.check_replace(expected),
            (Some(_), ContentPrecondition::Content { .. }) => Err(self.conflict_error("it does not exist")),
            (Some(target), ContentPrecondition::Absent | ContentPrecondition::Anything) => {
                self.check_target(target, PathEnding::Unspecified)
            }
        }
    }

    /// Creates the folder and its missing parents. Does nothing if the folder exists.
    pub fn create_folders(&self, recorder: &ChangeRecorder) -> Result<CreatedFolders, AccessError> {
        let target = match self.check_create_folders()? {
            Some(target) => target,
            None => return Ok(Vec::new()),
        };
        let name_lock = self.lock_name(target)?;
        if let Some(nearer) = self.reopen_from_new_folder(target)? {
            drop(name_lock);
            return nearer.create_folders(recorder);
        }
        self.create_staged(target, InnermostItem::Folder, recorder)?;
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
            OpenedObject::Unresolved { creation_target: Some(target), .. } => {
                self.check_target(target, PathEnding::Directory)?;
                Ok(Some(target))
            }
            _ => Err(self.wrong_kind_error("directory")),
        }
    }

    /// Returns the creation target, if a parent folder of the object is missing.
    fn nested_target(&self) -> Option<&CreationTarget> {
        match &self.object {
            OpenedObject::Unresolved { creation_target: Some(target), .. }
                if !target.missing_below.is_empty() =>
            {
                Some(target)
            }
            _ => None,
        }
    }

    /// Checks that the existing folder still has the path that was judged, and that the end of the path fits
    /// what is created.
    fn check_target(&self, target: &CreationTarget, expected_ending: PathEnding) -> Result<(), AccessError> {
        if expected_ending == PathEnding::Unspecified && target.ending == PathEnding::Directory {
            let (path, found) = (self.canonical.clone(), "directory (it ends in a slash)");
            return Err(AccessError::WrongKind { path, found, expected: "file" });
        }
        self.still_there(&target.location).map(drop)
    }

    fn lock_name(&self, target: &CreationTarget) -> Result<NameLock, AccessError> {
        NameLock::acquire(&target.location).map_err(|errno| self.creation_error(errno))
    }

    /// Returns this path opened from the next folder, if that folder has appeared since the path was opened.
    /// This lets two calls write into one new folder. The path is still the one that was judged.
    fn reopen_from_new_folder(&self, target: &CreationTarget) -> Result<Option<OpenedPath>, AccessError> {
        let location = &target.location;
        let folder = match platform::status_at(&location.folder, &location.leaf) {
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(self.creation_error(errno)),
            Ok(status) if status.kind == FileType::Directory => {
                tree::open_folder(&location.folder, &location.leaf)
            }
            Ok(_) => Err(Errno::NOTDIR),
        };
        let folder_name = location.path();
        let folder = folder.ok().filter(|folder| has_path(folder, &folder_name));
        let Some(folder) = folder else { return Err(self.conflict_error("something else has its name now")) };
        let mut names = target.missing_below.iter().cloned();
        let object = match names.next() {
            Some(leaf) => {
                let location = EntryLocation { folder, folder_path: folder_name, leaf };
                let target =
                    CreationTarget { location, missing_below: names.collect(), ending: target.ending };
                let is_last = target.missing_below.is_empty();
                let obstacle =
                    if is_last { UnresolvedReason::Absent } else { UnresolvedReason::ParentMissing };
                OpenedObject::Unresolved { reason: obstacle, creation_target: Some(target) }
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
        target: &CreationTarget,
        last: InnermostItem<'_>,
        recorder: &ChangeRecorder,
    ) -> Result<(), AccessError> {
        let location = &target.location;
        let failed = |errno: Errno| self.creation_error(errno);
        git_directory::refuse_entry(location)?;
        let synced_folder = location.syncable_folder().map_err(failed)?;
        let name = new_temporary_name()
            .map_err(|error| AccessError::io("naming a temporary file for", &self.canonical, error))?;
        let sha256 = match last {
            InnermostItem::Folder => None,
            InnermostItem::File { sha256, .. } => Some(sha256),
        };
        // First: from here on, recovery at the next start knows everything that a crash can leave.
        let pending = recorder.before_creating_folders(location, &target.missing_below, sha256, &name)?;
        let staged = StagedFolders::create(location, name, &pending).map_err(failed)?;
        staged
            .fill(&target.missing_below, last)
            .map_err(|error| AccessError::io("creating", &self.canonical, error))?;
        staged.commit_name().map_err(|errno| match errno {
            Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR => {
                self.conflict_error("something else has its name now")
            }
            errno => self.creation_error(errno),
        })?;
        if let Err(errno) = synced_folder.map_or(Ok(()), rustix::fs::fsync) {
            staged.revert_name();
            return Err(failed(errno));
        }
        drop(staged);
        pending.finish();
        Ok(())
    }

    fn creation_error(&self, errno: Errno) -> AccessError {
        AccessError::io("creating", &self.canonical, errno)
    }
}

#[cfg(test)]
mod tests;
