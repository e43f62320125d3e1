//! What is forbidden to one tool and open to another that comes to the same: a file nobody may read, in the hands of a tool
//! that edits it or of a program that prints it; a file nobody may write, open to one that removes it.

use std::collections::BTreeSet;
use std::path::Path;

use document::DocumentError;
use tool::{Mode, ToolDefinition};

use super::Findings;
use super::wider::Wider;
use crate::glob::Purpose;
use crate::name::Name;
use crate::pattern::Pattern;
use crate::policy::Policy;
use crate::situation::Workspaces;
use crate::standing::Standing;
use crate::tool_rules::ToolRules;
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
        let others: Vec<Other<'_, '_>> = others.map(Other::of).collect();
        for forbidden in rules.forbidden_paths.written() {
            let open = others.iter().filter(|other| other.may_reach(&forbidden.pattern, workspaces));
            let open: BTreeSet<&str> = open.map(|other| other.tool.definition.name().as_str()).collect();
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

/// Another tool, with what it is forbidden.
struct Other<'t, 'p> {
    tool: &'t Standing<'p>,
    rules: Option<&'t ToolRules>,
    forbidding: Wider<'t>,
}

impl<'t, 'p> Other<'t, 'p> {
    fn of(tool: &'t Standing<'p>) -> Self {
        let rules = tool.rules.map(|rules| rules.shadow.as_deref().unwrap_or(rules));
        let forbidden = rules.map_or(&[][..], |rules| rules.forbidden_paths.written());
        Other { tool, rules, forbidding: Wider::of(forbidden, Purpose::Forbid) }
    }

    /// Whether it may come to something of what a pattern names.
    fn may_reach(&self, pattern: &Pattern, workspaces: &Workspaces) -> bool {
        let reaches = |folder: &Path| {
            let plain = pattern.literal_part().0;
            plain.starts_with(folder) || folder.starts_with(&plain)
        };
        let is_reached = match self.rules.and_then(|rules| rules.allowed_paths.as_ref()) {
            Some(list) => {
                list.globs.written().iter().any(|allowed| reaches(&allowed.pattern.literal_part().0))
            }
            None => workspaces.iter().any(|folder| reaches(folder.root())),
        };
        is_reached && !self.forbids(pattern)
    }

    fn forbids(&self, pattern: &Pattern) -> bool {
        let example = Name::canonical(&pattern.example());
        let matches = |rules: &ToolRules| {
            example.as_ref().is_some_and(|name| rules.forbidden_paths.first_match(name).is_some())
        };
        self.rules.is_some_and(matches) || self.forbidding.covering(pattern).next().is_some()
    }
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
