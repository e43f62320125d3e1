//! Policy change for which a replay of the refused call has succeeded: its diff, and how it is written.

use std::collections::BTreeSet;
use std::path::PathBuf;

use governance::dry_run::DryRunResult;
use governance::suggested_change::{PolicyFile, workspace_command};
use governance::{Policy, Workspaces};
use server::settings::WorkspaceAccessSetting;
use similar::TextDiff;
use tool::RuleRef;

use crate::command::{init, workspace};
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::CommandError;

/// Policy change for which a replay of the call has succeeded.
pub(super) struct PolicyProposal {
    pub(super) policy: Policy,
    pub(super) workspaces: Workspaces,
    /// Folder that becomes a workspace.
    pub(super) workspace: Option<WorkspaceGrant>,
    pub(super) rules: Vec<RuleRef>,
    pub(super) replay_result: DryRunResult,
}

/// Folder to add to the workspaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkspaceGrant {
    pub(super) folder: PathBuf,
    pub(super) access: WorkspaceAccessSetting,
}

impl WorkspaceGrant {
    /// Returns the command with the same effect.
    pub(super) fn command(&self) -> String {
        workspace_command(&self.folder, compose::to_policy_access(self.access))
    }

    /// Describes what becomes possible.
    pub(super) fn reach(&self) -> String {
        let may = match self.access {
            WorkspaceAccessSetting::ReadOnly => "read",
            WorkspaceAccessSetting::ReadWrite => "read and write",
        };
        format!("every tool may {may} in {} and below it", self.folder.display())
    }
}

impl PolicyProposal {
    fn changed_files<'a>(&'a self, old: &'a Policy) -> impl Iterator<Item = PolicyFile> + 'a {
        PolicyFile::ALL.into_iter().filter(|file| old.user_text(*file) != self.policy.user_text(*file))
    }

    pub(super) fn diff(&self, context: &CommandContext, old: &Policy) -> Result<String, CommandError> {
        let folder = context.home().config_dir().join("governance");
        let mut text = String::new();
        let files: BTreeSet<PolicyFile> = self.changed_files(old).collect();
        for file in files {
            let name = folder.join(file.name()).display().to_string();
            let [before, after] =
                [old, &self.policy].map(|policy| policy.user_text(file).unwrap_or_default());
            text.push_str(&unified(&name, before, after));
        }
        Ok(text)
    }

    /// Writes each changed file.
    pub(super) fn write(&self, context: &CommandContext, old: &Policy) -> Result<(), CommandError> {
        let folder = context.home().config_dir().join("governance");
        for file in self.changed_files(old) {
            let text = self.policy.user_text(file).unwrap_or_default();
            init::replace_unchanged(&folder.join(file.name()), old.user_text(file), text)?;
        }
        match &self.workspace {
            Some(grant) => workspace::add(context, &grant.folder, grant.access),
            None => Ok(()),
        }
    }
}

/// Returns true if two proposals write the same.
pub(super) fn is_same_change(one: &PolicyProposal, other: &PolicyProposal) -> bool {
    let texts = |proposal: &PolicyProposal| {
        PolicyFile::ALL.map(|file| proposal.policy.user_text(file).unwrap_or_default().to_owned())
    };
    one.workspace == other.workspace && texts(one) == texts(other)
}

/// Returns the difference in the format that `patch` reads, or an empty string if the texts are equal.
pub(crate) fn unified(name: &str, old: &str, new: &str) -> String {
    TextDiff::from_lines(old, new).unified_diff().header(name, name).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_three_lines_of_context() {
        let old: String = (1..=20).map(|line| format!("{line}\n")).collect();
        let check = |new: &str, expect: &str| assert_eq!(unified("f", &old, new), expect, "{new}");
        check(&old, "");
        check(
            &old.replacen("5\n", "five\n", 1),
            "--- f\n+++ f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n",
        );
        let both = old.replacen("2\n3\n", "2\nx\n3\n", 1).replacen("18\n", "", 1);
        check(
            &both,
            "--- f\n+++ f\n@@ -1,5 +1,6 @@\n 1\n 2\n+x\n 3\n 4\n 5\n@@ -15,6 +16,5 @@\n 15\n 16\n 17\n-18\n 19\n 20\n",
        );
        assert_eq!(unified("f", "", "a\n"), "--- f\n+++ f\n@@ -0,0 +1 @@\n+a\n");
    }
}
