//! Finds paths that are forbidden to one tool but open to another with the same effect: a file that
//! `read_file` may not read but another tool or a program can show, or one that `write_file` may not write
//! but another tool can remove. Also finds lists of hosts that another tool bypasses.

use std::collections::BTreeSet;
use std::path::Path;

use governance::rules::{
    Access, COMMON, EffectivePolicy, ListPurpose, ListedPattern, PathGlobs, PathPattern, ToolApprovals,
    ToolRules, own_part,
};
use governance::suggested_change::PolicyFile;
use governance::{Policy, Workspaces};
use strict_yaml::DocumentError;
use tool::{Mode, ToolDefinition};

use super::LintFindings;
use super::cover_index::CoverIndex;

mod host_scope;
mod project_paths;
mod write_scope;

/// Tool whose forbidden paths must not be readable by any tool.
const READ_TOOL: &str = "read_file";
/// Tool whose forbidden paths must not be changed by any tool.
const WRITE_TOOL: &str = "write_file";
/// Tools that take paths and show names only, never contents.
const NAME_ONLY_TOOLS: &[&str] = &["list_directory"];

/// Returns every path that is forbidden to all tools, or to the tool that reads or writes files, but not to
/// another tool that shows or changes them. Only reachable paths count: those in the tool's own list, or
/// else the workspaces.
pub fn lint_between<'a>(
    policy: &Policy,
    definitions: impl IntoIterator<Item = &'a ToolDefinition>,
    workspaces: &Workspaces,
) -> Vec<DocumentError> {
    let tools: Vec<EffectivePolicy<'_>> =
        definitions.into_iter().map(|tool| EffectivePolicy::new(policy, tool)).collect();
    let mut findings = LintFindings { policy, findings: Vec::new() };
    let common = policy.common_paths();
    let list_of = |name: &str| {
        let found = tools.iter().find(|tool| tool.definition.name().as_str() == name);
        found.map_or(common, EffectivePolicy::forbidden_paths)
    };
    let read = own_part(list_of(READ_TOOL)).iter().chain(common.patterns());
    findings.check_other_tools("read", read, &tools, workspaces, shows_content);
    let written = own_part(list_of(WRITE_TOOL)).iter();
    findings.check_other_tools("change", written, &tools, workspaces, writes_files);
    project_paths::check(&mut findings, &tools);
    write_scope::check(&mut findings, &tools, workspaces);
    findings.findings.sort_by_key(|found| found.line);
    findings.findings
}

/// Returns the lists of hosts of `fetch_url` that another of these tools bypasses.
pub fn lint_host_lists<'a>(
    policy: &Policy,
    definitions: impl IntoIterator<Item = &'a ToolDefinition>,
) -> Vec<DocumentError> {
    let tools: Vec<EffectivePolicy<'_>> =
        definitions.into_iter().map(|tool| EffectivePolicy::new(policy, tool)).collect();
    let mut findings = LintFindings { policy, findings: Vec::new() };
    host_scope::check(&mut findings, &tools);
    findings.findings
}

impl LintFindings<'_> {
    fn check_other_tools<'w>(
        &mut self,
        verb: &str,
        forbidden: impl Iterator<Item = &'w ListedPattern>,
        tools: &[EffectivePolicy<'_>],
        workspaces: &Workspaces,
        is_equivalent: fn(&EffectivePolicy<'_>) -> bool,
    ) {
        let others = tools.iter().filter(|tool| is_equivalent(tool) && runs_in_some_mode(tool));
        let others: Vec<OtherTool<'_, '_>> = others.map(OtherTool::new).collect();
        for forbidden in forbidden {
            let open = others.iter().filter(|other| other.may_reach(&forbidden.pattern, workspaces));
            let open: BTreeSet<&str> = open.map(|other| other.tool.definition.name().as_str()).collect();
            if open.is_empty() {
                continue;
            }
            let names = open.iter().copied().collect::<Vec<_>>().join(", ");
            let placed = open.iter().map(|tool| self.with_line(tool)).collect::<Vec<_>>().join(", ");
            let message =
                format!("`{}` is forbidden here, but may still be open to {placed}", forbidden.text);
            let fix = match &*forbidden.rule.id {
                COMMON => {
                    format!("if no tool may {verb} it, remove it from `forbidden_paths_except` of {names}")
                }
                _ => format!("if no tool may {verb} it, add it to `forbidden_paths` of {names} too"),
            };
            self.add(&forbidden.rule, &message, &fix);
        }
    }

    /// Formats the name of a tool, with the line of its entry if it has one.
    fn with_line(&self, tool: &str) -> String {
        let mut entries = self.policy.files().tools.tools.iter();
        match entries.find(|(key, _)| key.eq_ignore_ascii_case(tool)) {
            Some((key, _)) => {
                let origin = self.policy.merged_document(PolicyFile::Tools).origin(key.line, key.column);
                match origin.document.name().starts_with("built-in/") {
                    true => format!("{tool} ({} line {})", origin.document.name(), origin.line),
                    false => format!("{tool} (line {})", origin.line),
                }
            }
            None => tool.to_owned(),
        }
    }
}

/// Returns true if the tool shows content of files, itself or by a program, which can open every file in its folders.
fn shows_content(tool: &EffectivePolicy<'_>) -> bool {
    let definition = tool.definition;
    let opens_files = !definition.path_arguments().is_empty() || definition.requires_sandbox();
    opens_files && !NAME_ONLY_TOOLS.contains(&definition.name().as_str())
}

/// Returns true if the tool changes files, itself or by a program.
fn writes_files(tool: &EffectivePolicy<'_>) -> bool {
    let definition = tool.definition;
    let names_changed_paths =
        definition.path_arguments().iter().any(|argument| argument.access.is_modifying());
    names_changed_paths || (definition.requires_sandbox() && tool.may_change_files())
}

fn runs_in_some_mode(tool: &EffectivePolicy<'_>) -> bool {
    Mode::ALL.into_iter().any(|mode| tool.access(mode, ToolApprovals::Required).0 != Access::Denied)
}

/// Another tool, with an index of its forbidden paths.
struct OtherTool<'t, 'p> {
    tool: &'t EffectivePolicy<'p>,
    rules: Option<&'t ToolRules>,
    forbidden: &'t PathGlobs,
    forbidden_index: CoverIndex<'t>,
}

impl<'t, 'p> OtherTool<'t, 'p> {
    fn new(tool: &'t EffectivePolicy<'p>) -> Self {
        let rules = tool.rules.map(|rules| rules.shadow.as_deref().unwrap_or(rules));
        let forbidden = rules.map_or(tool.forbidden_paths(), |rules| &rules.forbidden_paths);
        OtherTool {
            tool,
            rules,
            forbidden,
            forbidden_index: CoverIndex::new(forbidden.patterns(), ListPurpose::Forbid),
        }
    }

    /// Returns true if the tool may reach a path that the pattern matches.
    fn may_reach(&self, pattern: &PathPattern, workspaces: &Workspaces) -> bool {
        let reaches = |folder: &Path| {
            let plain = pattern.literal_prefix().0;
            plain.starts_with(folder) || folder.starts_with(&plain)
        };
        let is_reached = match self.rules.and_then(|rules| rules.allowed_paths.as_ref()) {
            Some(list) => {
                list.globs.patterns().iter().any(|allowed| reaches(&allowed.pattern.literal_prefix().0))
            }
            None => workspaces.iter().any(|folder| reaches(folder.root())),
        };
        is_reached && !self.forbids(pattern)
    }

    fn forbids(&self, pattern: &PathPattern) -> bool {
        self.forbidden.matches(&pattern.example_path())
            || self.forbidden_index.covering(pattern).next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge_tests::{definition, machine};
    use governance::{Workspace, WorkspaceAccess};
    use tool::{Category, RiskLevel, ToolSpec};

    /// Checks the findings as line and names of the tools that can still reach the path.
    #[track_caller]
    fn check(first: &str, tools: &str, expect: &[(u64, &str)]) {
        let policy = machine(tools).policy();
        let definitions = [first, "copy_file", "read_many", "fetch"].map(definition);
        let workspaces = Workspaces::new(vec![Workspace::hypothetical("/w", WorkspaceAccess::ReadWrite)]);
        let found = lint_between(&policy, &definitions, &workspaces);
        let found: Vec<(u64, &str)> =
            found.iter().map(|one| (one.line, one.message.split_once("open to ").unwrap().1)).collect();
        assert_eq!(found, expect, "{tools}");
    }

    #[test]
    fn unreadable_paths_open_to_other_tools_are_found() {
        let reader = "tools:\n  read_file:\n    forbidden_paths:\n      - \"**/.env\"\n      - /w/keys\n      - /elsewhere/x\n";
        let check = |more: &[&str], expect: &[(u64, &str)]| {
            check("read_file", &[&[reader], more].concat().concat(), expect);
        };
        check(&[], &[(4, "copy_file, read_many"), (5, "copy_file, read_many")]);
        let many = "  read_many: {forbidden_paths: [\"**/.env*\", /w/keys/**]}\n";
        check(&[many], &[(4, "copy_file"), (5, "copy_file")]);
        check(&[many, "  copy_file: {forbidden_paths: [\"**/.env*\", /w]}\n"], &[]);
        // A tool that runs in no mode, or whose own list excludes the path, cannot reach it.
        let nowhere = "  copy_file: {forbidden_in_modes: [NORMAL, ALERT, DEGRADED, LOCKDOWN, RECOVERY]}\n";
        check(&[many, nowhere], &[]);
        check(&[many, "  copy_file: {allowed_paths: [/elsewhere/y]}\n"], &[(4, "copy_file (line 8)")]);
        let elsewhere = "  copy_file: {allowed_paths: [/elsewhere/**]}\n";
        check(&[many, elsewhere], &[(4, "copy_file (line 8)"), (6, "copy_file (line 8)")]);
    }

    #[test]
    fn a_tool_excepted_from_the_list_for_all_is_named() {
        let list = "forbidden_paths: [\"**/.env\", /w/keys]\n";
        check("read_file", &["tools: {}\n", list].concat(), &[]);
        let tools = "tools:\n  copy_file: {forbidden_paths_except: [/w/keys]}\n  read_file: {forbidden_paths_except: [\"**/.env\"]}\n";
        check("read_file", &[tools, list].concat(), &[(4, "read_file (line 3)"), (4, "copy_file (line 2)")]);
    }

    #[test]
    fn unwritable_paths_open_to_changes_are_found() {
        let writer = "tools:\n  write_file:\n    forbidden_paths: [/w/fixed]\n";
        check("write_file", writer, &[(3, "copy_file")]);
        check("write_file", &[writer, "  copy_file: {forbidden_paths: [/w]}\n"].concat(), &[]);
    }

    /// A program can change every file in its folders, unless the file is hidden from it.
    #[test]
    fn unwritable_paths_open_to_programs_are_found() {
        let writer = "tools:\n  write_file:\n    forbidden_paths: [/w/fixed]\n  runner:\n    allowed_in_modes: [NORMAL]\n";
        let mut spec = ToolSpec::new("runner", "a test tool", Category::SYSTEM_WRITE, RiskLevel::High);
        spec.requires_sandbox = true;
        let definitions = [definition("write_file"), spec.check().unwrap()];
        let workspaces = Workspaces::new(vec![Workspace::hypothetical("/w", WorkspaceAccess::ReadWrite)]);
        let count = |more: &str| {
            let policy = machine(&format!("{writer}{more}")).policy();
            let policy = policy.with_isolation(Some(crate::files::Isolation::Full));
            lint_between(&policy, &definitions, &workspaces).len()
        };
        assert_eq!((count(""), count("    forbidden_paths: [/w/fixed]\n")), (1, 0));
    }
}
