//! Folders that a sandboxed process may write to in a project.

use std::path::Path;

use tool::ToolDefinition;

use crate::command_rules::RequestedCommand;
use crate::rule_trace::{RuleTrace, TraceRecorder};
use crate::situation::{Workspace, WorkspaceAccess, access_at};
use crate::tools_file::Isolation;

use super::ProjectRules;

impl ProjectRules {
    /// Restricts the folders of a sandboxed process to those that the project lets it change: none for a program
    /// that the project does not list, wherever it starts, else the write scope.
    pub(crate) fn restrict_folders(
        &self,
        tool: &ToolDefinition,
        commands: &[RequestedCommand],
        isolation: Option<Isolation>,
        folders: Vec<Workspace>,
    ) -> Vec<Workspace> {
        if self.load_error.is_some() {
            // A folder around it stays, and the forbidden root is hidden there.
            return folders.into_iter().filter(|folder| !folder.root().starts_with(&self.root)).collect();
        }
        let rules = &self.rules_of(tool).commands;
        let mut trace = RuleTrace::disabled();
        let mut notes = TraceRecorder::new(&mut trace);
        match commands.iter().all(|command| rules.check(command, &mut notes).is_ok()) {
            true => self.restrict_to_scope(tool, folders),
            false => self.make_read_only(isolation, folders),
        }
    }

    fn make_read_only(&self, isolation: Option<Isolation>, folders: Vec<Workspace>) -> Vec<Workspace> {
        let mut restricted = Vec::new();
        for folder in folders {
            let is_around = self.root.starts_with(folder.root()) && folder.root() != self.root;
            let is_inside = folder.root().starts_with(&self.root);
            // Only mounts can make a folder read-only inside of a writable one.
            if is_inside || (is_around && isolation != Some(Isolation::Full)) {
                restricted.push(Workspace::granted(folder.root(), WorkspaceAccess::ReadOnly));
            } else {
                restricted.push(folder);
            }
        }
        let is_listed = restricted.iter().any(|folder| folder.root() == self.root);
        if !is_listed && restricted.iter().any(|folder| self.root.starts_with(folder.root())) {
            restricted.push(Workspace::granted(&self.root, WorkspaceAccess::ReadOnly));
        }
        restricted
    }

    /// Restricts the folders to the write scope of the project. A folder around the project becomes read-only, with
    /// the whole folders of the scope writable in it.
    fn restrict_to_scope(&self, tool: &ToolDefinition, folders: Vec<Workspace>) -> Vec<Workspace> {
        let Some(scope) = self.write_paths(tool) else { return folders };
        let mut restricted: Vec<Workspace> = Vec::new();
        let mut grant = |root: &Path, access| {
            if !restricted.iter().any(|known| known.root() == root) {
                restricted.push(Workspace::granted(root, access));
            }
        };
        for folder in &folders {
            let is_writable = folder.access() == WorkspaceAccess::ReadWrite;
            let overlaps = self.root.starts_with(folder.root()) || folder.root().starts_with(&self.root);
            if !(is_writable && overlaps) {
                grant(folder.root(), folder.access());
                continue;
            }
            let is_in_scope = scope.whole_folders.iter().any(|part| folder.root().starts_with(part));
            grant(folder.root(), if is_in_scope { folder.access() } else { WorkspaceAccess::ReadOnly });
            let parts = scope.whole_folders.iter();
            let parts = parts.filter(|part| part.starts_with(&self.root) && part.starts_with(folder.root()));
            // A read-only workspace inside of the folder stays read-only.
            let is_read_only = |part: &Path| access_at(&folders, part) == Some(WorkspaceAccess::ReadOnly);
            for part in parts.filter(|part| !is_read_only(part)) {
                grant(part, WorkspaceAccess::ReadWrite);
            }
        }
        restricted
    }
}
