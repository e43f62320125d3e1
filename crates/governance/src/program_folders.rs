//! Checks that program folders can be changed neither by another user nor by a call.
//!
//! The check sees the disk when a policy is loaded. The sandbox checks the folders again when it starts a
//! program.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use strict_yaml::TrustError;
use tool::{ToolDefinition, ToolName};

use crate::policy::Policy;
use crate::problems::{FileInspection, PolicyError};
use crate::situation::{WorkspaceAccess, Workspaces};

impl Policy {
    /// Returns the policy with the folders that the rules grant as a whole to these tools, as far as they
    /// write. No program is taken from there: `check_program_folders` and the start of each program both
    /// check this.
    pub fn with_write_grants<'a>(
        mut self,
        definitions: impl IntoIterator<Item = &'a ToolDefinition>,
    ) -> Self {
        let writes = |tool: &&ToolDefinition| {
            tool.requires_sandbox()
                || tool.path_arguments().iter().any(|argument| argument.access.is_modifying())
        };
        let rules = definitions.into_iter().filter(writes).filter_map(|tool| self.tools.get(tool.name()));
        let granted =
            rules.filter_map(|rules| rules.allowed_paths.as_ref()).flat_map(|list| &list.whole_folders);
        self.granted_folders = granted.cloned().collect::<BTreeSet<PathBuf>>().into_iter().collect();
        self
    }

    /// Checks that every folder in `program_folders` is outside the folders that calls may write to, and that
    /// only its owner can change it.
    pub fn check_program_folders(&self, workspaces: &Workspaces) -> Result<(), PolicyError> {
        let files = self.files();
        let mut named =
            files.tools.tools.iter().filter(|(_, entry)| !entry.program_folders.is_empty()).peekable();
        if named.peek().is_none() {
            return Ok(());
        }
        let written = self.writable_folders(workspaces);
        let mut inspection = FileInspection::new(&files.documents.tools);
        for (key, entry) in named {
            let Some(rules) = ToolName::new(key).ok().and_then(|name| self.tools.get(&name)) else {
                continue;
            };
            // The two lists have the same length: an entry that cannot be parsed fails the load.
            for (text, (folder, _)) in entry.program_folders.iter().zip(&rules.program_folders) {
                if let Err((message, suggestion)) = check_folder(folder, &written) {
                    inspection.error(text, &message, Some(suggestion));
                }
            }
        }
        if inspection.errors.is_empty() { Ok(()) } else { Err(PolicyError::new(inspection.errors)) }
    }

    /// Returns the folders that calls may write to: the read-write workspaces, and the folders granted as a
    /// whole to tools that write.
    pub(crate) fn writable_folders(&self, workspaces: &Workspaces) -> Vec<PathBuf> {
        let work = workspaces.iter().filter(|folder| folder.access() == WorkspaceAccess::ReadWrite);
        work.map(|folder| folder.root().to_owned()).chain(self.granted_folders.iter().cloned()).collect()
    }
}

/// Returns the reason why a folder cannot be a program folder, and a suggestion.
fn check_folder(folder: &Path, written: &[PathBuf]) -> Result<(), (String, String)> {
    let shown = folder.display();
    // The paths are checked with their symbolic links resolved, those of `bin` included.
    let names = [folder.to_owned(), folder.join("bin")];
    let real = names.iter().filter_map(|name| name.canonicalize().ok());
    for name in real.chain([folder.to_owned()]) {
        let overlaps = |other: &&PathBuf| name.starts_with(other) || other.starts_with(&name);
        if let Some(other) = written.iter().find(overlaps) {
            let message = format!(
                "programs cannot be taken from `{shown}`: calls may write to `{}`, \
                 so a call could choose which program runs",
                other.display()
            );
            return Err((
                message,
                "keep program folders outside every workspace, or add the workspace read-only".to_owned(),
            ));
        }
    }
    // A name that cannot be inspected is checked, and refused.
    for name in names.iter().filter(|name| !matches!(name.try_exists(), Ok(false))) {
        let trusted = match strict_yaml::check_trusted(name) {
            // The folder of this link is trusted, so no other user can change the link. Its target needs a
            // check of its own.
            Err(TrustError::Link(_)) if name != folder => check_link_target(name),
            trusted => trusted,
        };
        match trusted {
            Err(TrustError::Unreadable { error, .. }) if error.kind() == ErrorKind::NotFound => {}
            Err(untrusted) => {
                let message = format!("programs cannot be taken from `{shown}`: {untrusted}");
                let suggestion = untrusted.remedy().unwrap_or_else(|| "name a readable folder".to_owned());
                return Err((message, suggestion));
            }
            Ok(()) => {}
        }
    }
    Ok(())
}

/// Checks that no other user can change the target of a link.
fn check_link_target(link: &Path) -> Result<(), TrustError> {
    let real = link.canonicalize();
    strict_yaml::check_trusted(
        &real.map_err(|error| TrustError::Unreadable { path: link.to_owned(), error })?,
    )
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir_all, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A folder whose `bin` is a link is checked at the target of the link.
    #[test]
    fn target_of_a_linked_bin_must_be_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (cache, real) = (root.join("shelf"), root.join("real/bin"));
        create_dir_all(&cache).unwrap();
        create_dir_all(&real).unwrap();
        symlink(&real, cache.join("bin")).unwrap();
        assert_eq!(check_folder(&cache, &[]), Ok(()));
        let mode = |folder: &Path, mode| set_permissions(folder, Permissions::from_mode(mode)).unwrap();
        for open in [real.as_path(), real.parent().unwrap()] {
            mode(open, 0o777);
            let (message, suggestion) = check_folder(&cache, &[]).unwrap_err();
            assert!(message.contains("it can be changed by"), "{message}");
            assert!(suggestion.starts_with("chmod go-w"), "{suggestion}");
            mode(open, 0o755);
        }
        assert!(check_folder(&cache, std::slice::from_ref(&real)).is_err(), "nor calls");
        std::fs::remove_dir(&real).unwrap();
        assert_eq!(check_folder(&cache, &[]), Ok(()), "a link that leads nowhere has no programs");
    }
}
