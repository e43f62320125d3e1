//! Finds tools that bypass the `allowed_paths` of `write_file`: they may write elsewhere.

use std::collections::BTreeSet;
use std::path::Path;

use governance::Workspaces;
use governance::rules::{EffectivePolicy, ListPurpose, PathList, PathPattern};

use super::{LintFindings, WRITE_TOOL, runs_in_some_mode, writes_files};

/// Reports the list of `write_file` in the policy of the home and of each project, if another tool may write to a
/// path that the list does not contain.
pub(super) fn check(findings: &mut LintFindings<'_>, tools: &[EffectivePolicy<'_>], workspaces: &Workspaces) {
    let Some(writer) = tools.iter().find(|tool| tool.definition.name().as_str() == WRITE_TOOL) else {
        return;
    };
    let others: Vec<&EffectivePolicy<'_>> = tools.iter().filter(|tool| is_other_writer(tool)).collect();
    if let Some(scope) = allowed_paths(writer) {
        let open = others.iter().filter(|tool| match allowed_paths(tool) {
            Some(own) => !is_within(own, scope),
            None => workspaces.iter().any(|folder| !contains_folder(scope, folder.root())),
        });
        let open: Vec<&str> = open.map(|tool| tool.definition.name().as_str()).collect();
        let fix = "give them `allowed_paths` too, or put the list of write_file into `.sinew/policy.yaml` of a \
                   project, where it binds every tool and the programs they start";
        report(findings, scope, &open, fix);
    }
    let roots: Vec<&Path> = findings.policy.project_policies().map(|(root, _)| root).collect();
    for root in roots {
        let Some(writer) = writer.in_project(root) else { continue };
        let Some(scope) = allowed_paths(&writer) else { continue };
        // In a project the list binds every tool that has no list of its own.
        let is_open = |tool: &&&EffectivePolicy<'_>| {
            let own = tool.in_project(root);
            own.as_ref().and_then(allowed_paths).is_some_and(|own| !is_within(own, scope))
        };
        let open: Vec<&str> =
            others.iter().filter(is_open).map(|tool| tool.definition.name().as_str()).collect();
        report(
            findings,
            scope,
            &open,
            "shorten their `allowed_paths`, or remove it: the list of write_file binds them then",
        );
    }
}

fn report(findings: &mut LintFindings<'_>, scope: &PathList, open: &[&str], fix: &str) {
    // Two hosts may have a tool that is judged by the entry of the same name.
    let open: BTreeSet<&str> = open.iter().copied().collect();
    if !open.is_empty() {
        let placed: Vec<String> = open.iter().map(|tool| findings.with_line(tool)).collect();
        let message = format!("may be bypassed: {} may write to other paths", placed.join(", "));
        findings.add(&scope.rule, &message, fix);
    }
}

/// Returns true for another tool that writes to paths, or starts programs that may.
fn is_other_writer(tool: &EffectivePolicy<'_>) -> bool {
    tool.definition.name().as_str() != WRITE_TOOL && writes_files(tool) && runs_in_some_mode(tool)
}

fn allowed_paths<'a>(tool: &EffectivePolicy<'a>) -> Option<&'a PathList> {
    let rules = tool.rules?;
    rules.shadow.as_deref().unwrap_or(rules).allowed_paths.as_ref()
}

/// Returns true if every pattern of the list is covered by the scope.
fn is_within(list: &PathList, scope: &PathList) -> bool {
    let is_covered = |pattern: &PathPattern| {
        let mut patterns = scope.globs.patterns().iter();
        patterns.any(|wide| wide.pattern.covers(pattern, ListPurpose::Allow))
    };
    list.globs.patterns().iter().all(|listed| is_covered(&listed.pattern))
}

fn contains_folder(scope: &PathList, folder: &Path) -> bool {
    scope.whole_folders.iter().any(|whole| folder.starts_with(whole))
}

#[cfg(test)]
mod tests {
    use governance::{Workspace, WorkspaceAccess};

    use super::*;
    use crate::judge_tests::{definition, machine};
    use crate::lint_between;

    #[test]
    fn entry_that_another_tool_bypasses_is_reported() {
        let workspaces = Workspaces::new(vec![Workspace::hypothetical("/w", WorkspaceAccess::ReadWrite)]);
        let check = |tools: &str, expect: Option<(u64, &str)>| {
            let policy = machine(tools).policy();
            let definitions = ["write_file", "copy_file", "read_file"].map(definition);
            let found = lint_between(&policy, &definitions, &workspaces);
            let found = found.iter().find(|one| one.message.contains("may be bypassed"));
            assert_eq!(found.map(|one| one.line), expect.map(|(line, _)| line), "{tools}");
            if let (Some(found), Some((_, names))) = (found, expect) {
                assert!(found.message.contains(names), "{}", found.message);
            }
        };
        let writer = "tools:\n  write_file: {allowed_paths: [/w/src/**]}\n";
        check(writer, Some((2, "copy_file")));
        check(&format!("{writer}  copy_file: {{allowed_paths: [/w/src/a/**]}}\n"), None);
        check(
            &format!("{writer}  copy_file: {{allowed_paths: [/w/other]}}\n"),
            Some((2, "copy_file (line 3)")),
        );
        check("tools:\n  write_file: {allowed_paths: [/w/**]}\n", None);
        check("tools:\n  write_file: {forbidden_paths: [/w/x]}\n", None);
    }
}
