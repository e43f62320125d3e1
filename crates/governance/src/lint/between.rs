//! What is forbidden to one tool and open to another that comes to the same: a file nobody may read, in the hands of a tool
//! that edits it or of a program that prints it; a file nobody may write, open to one that removes it.

use std::collections::BTreeSet;
use std::path::Path;

use document::DocumentError;
use tool::{Mode, ToolDefinition};

use super::Findings;
use crate::glob::{Purpose, Written};
use crate::name::Name;
use crate::pattern::Pattern;
use crate::policy::Policy;
use crate::situation::Workspaces;
use crate::standing::Standing;
use crate::trail::{Notes, Trail};

/// The tool whose forbidden paths say what nobody is to see.
const READER: &str = "read_file";
/// The tool whose forbidden paths say what nobody is to change.
const WRITER: &str = "write_file";
/// Tools with paths that show names and no contents.
const SHOW_NAMES_ALONE: &[&str] = &["list_directory"];

impl Policy {
    /// Every path that is forbidden to the tool that reads or writes files, and not to another that shows or changes them.
    /// Only what can be reached counts: what a tool's own list names, or else the workspaces.
    pub fn lint_between<'a>(
        &self,
        definitions: impl IntoIterator<Item = &'a ToolDefinition>,
        workspaces: &Workspaces,
    ) -> Vec<DocumentError> {
        let tools: Vec<Standing<'_>> = definitions.into_iter().map(|tool| Standing::of(self, tool)).collect();
        let mut findings = Findings { policy: self, found: Vec::new() };
        let shows = |tool: &ToolDefinition| !SHOW_NAMES_ALONE.contains(&tool.name().as_str());
        findings.open_elsewhere((READER, "read"), &tools, workspaces, shows);
        findings.open_elsewhere((WRITER, "change"), &tools, workspaces, changes);
        findings.found.sort_by_key(|found| found.line);
        findings.found
    }
}

impl Findings<'_> {
    fn open_elsewhere(
        &mut self,
        (name, verb): (&str, &str),
        tools: &[Standing<'_>],
        workspaces: &Workspaces,
        comes_to_the_same: impl Fn(&ToolDefinition) -> bool,
    ) {
        let is_it = |tool: &&Standing<'_>| tool.definition.name().as_str() == name;
        let Some(rules) = tools.iter().find(is_it).and_then(|tool| tool.rules) else { return };
        let others = tools.iter().filter(|tool| {
            let takes_paths = !tool.definition.path_arguments().is_empty();
            takes_paths && !is_it(tool) && comes_to_the_same(tool.definition) && runs_somewhere(tool)
        });
        let others: Vec<&Standing<'_>> = others.collect();
        for forbidden in rules.forbidden_paths.written() {
            let open = others.iter().filter(|tool| is_open(tool, &forbidden.pattern, workspaces));
            let open: BTreeSet<&str> = open.map(|tool| tool.definition.name().as_str()).collect();
            if open.is_empty() {
                continue;
            }
            let names = open.into_iter().collect::<Vec<_>>().join(", ");
            let message = format!("`{}` is forbidden here, and may still be open to {names}", forbidden.text);
            let fix = format!("if nobody is to {verb} it, write it in `forbidden_paths` of {names} too");
            self.add(&forbidden.rule, &message, &fix);
        }
    }
}

fn changes(tool: &ToolDefinition) -> bool {
    tool.path_arguments().iter().any(|argument| argument.access.changes())
}

fn runs_somewhere(tool: &Standing<'_>) -> bool {
    let mut trail = Trail::off();
    Mode::ALL.into_iter().any(|mode| tool.admit_without_rates(mode, &mut Notes::on(&mut trail)).is_ok())
}

/// Whether a tool may come to something of what a pattern names.
fn is_open(tool: &Standing<'_>, pattern: &Pattern, workspaces: &Workspaces) -> bool {
    let rules = tool.rules.map(|rules| rules.shadow.as_deref().unwrap_or(rules));
    let covers = |by: &Written| by.pattern.covers(pattern, Purpose::Forbid);
    let example = Name::canonical(&pattern.example());
    let forbids = rules.is_some_and(|rules| {
        let by_example = example.as_ref().is_some_and(|name| rules.forbidden_paths.find(name).is_some());
        by_example || rules.forbidden_paths.written().iter().any(covers)
    });
    let reaches = |folder: &Path| {
        let plain = pattern.literal_part().0;
        plain.starts_with(folder) || folder.starts_with(&plain)
    };
    let is_reached = match rules.and_then(|rules| rules.allowed_paths.as_ref()) {
        Some(list) => list.globs.written().iter().any(|allowed| reaches(&allowed.pattern.literal_part().0)),
        None => workspaces.iter().any(|folder| reaches(folder.root())),
    };
    is_reached && !forbids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge_tests::{definition, machine};
    use crate::situation::{Workspace, WorkspaceAccess};

    /// The findings as line and the tools that it is open to.
    #[track_caller]
    fn check(first: &str, tools: &str, expect: &[(u64, &str)]) {
        let policy = machine(tools).policy();
        let definitions = [first, "copy_file", "read_many", "fetch"].map(definition);
        let workspaces = Workspaces::new(vec![Workspace::supposed("/w", WorkspaceAccess::ReadWrite)]);
        let found = policy.lint_between(&definitions, &workspaces);
        let found: Vec<(u64, &str)> =
            found.iter().map(|one| (one.line, one.message.split_once("open to ").unwrap().1)).collect();
        assert_eq!(found, expect, "{tools}");
    }

    #[test]
    fn what_nobody_may_read_is_open_to_nobody() {
        let reader = "tools:\n  read_file:\n    forbidden_paths:\n      - \"**/.env\"\n      - /w/keys\n      - /elsewhere/x\n";
        let check = |more: &[&str], expect: &[(u64, &str)]| {
            check("read_file", &[&[reader], more].concat().concat(), expect);
        };
        check(&[], &[(4, "copy_file, read_many"), (5, "copy_file, read_many")]);
        let many = "  read_many: {forbidden_paths: [\"**/.env*\", /w/keys/**]}\n";
        check(&[many], &[(4, "copy_file"), (5, "copy_file")]);
        check(&[many, "  copy_file: {forbidden_paths: [\"**/.env*\", /w]}\n"], &[]);
        // What runs nowhere or is kept apart by its own list is not open.
        let nowhere = "  copy_file: {forbidden_in_modes: [NORMAL, ALERT, DEGRADED, LOCKDOWN, RECOVERY]}\n";
        check(&[many, nowhere], &[]);
        check(&[many, "  copy_file: {allowed_paths: [/elsewhere/y]}\n"], &[(4, "copy_file")]);
        let elsewhere = "  copy_file: {allowed_paths: [/elsewhere/**]}\n";
        check(&[many, elsewhere], &[(4, "copy_file"), (6, "copy_file")]);
    }

    #[test]
    fn what_nobody_may_write_is_removed_by_nobody_and_may_be_read() {
        let writer = "tools:\n  write_file:\n    forbidden_paths: [/w/fixed]\n";
        check("write_file", writer, &[(3, "copy_file")]);
        check("write_file", &[writer, "  copy_file: {forbidden_paths: [/w]}\n"].concat(), &[]);
    }
}
