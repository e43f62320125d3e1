//! Finds paths that a project forbids to `read_file` or `write_file` only, although another tool has the same effect.

use std::collections::BTreeSet;
use std::path::Path;

use governance::rules::{EffectivePolicy, ListedPattern, own_part};
use governance::{Workspace, WorkspaceAccess, Workspaces};

use super::{LintFindings, OtherTool, READ_TOOL, WRITE_TOOL, runs_in_some_mode, shows_content, writes_files};

/// Reports the forbidden paths of both tools in each project.
pub(super) fn check(findings: &mut LintFindings<'_>, tools: &[EffectivePolicy<'_>]) {
    let roots: Vec<&Path> = findings.policy.project_policies().map(|(root, _)| root).collect();
    for root in roots {
        check_effect(findings, root, tools, ("read", READ_TOOL, shows_content));
        check_effect(findings, root, tools, ("change", WRITE_TOOL, writes_files));
    }
}

fn check_effect(
    findings: &mut LintFindings<'_>,
    root: &Path,
    tools: &[EffectivePolicy<'_>],
    (verb, owner, has_effect): (&str, &str, fn(&EffectivePolicy<'_>) -> bool),
) {
    let is_owner = |tool: &&EffectivePolicy<'_>| tool.definition.name().as_str() == owner;
    let Some(own) = tools.iter().find(is_owner).and_then(|tool| tool.in_project(root)) else { return };
    let others: Vec<&EffectivePolicy<'_>> =
        tools.iter().filter(|tool| !is_owner(tool) && has_effect(tool) && runs_in_some_mode(tool)).collect();
    for forbidden in own_part(own.forbidden_paths()) {
        let open = others.iter().filter(|tool| may_reach(tool, root, forbidden, verb == "change"));
        let open: BTreeSet<&str> = open.map(|tool| tool.definition.name().as_str()).collect();
        if !open.is_empty() {
            let names = open.into_iter().collect::<Vec<_>>().join(", ");
            let message = format!("`{}` is forbidden here, but may still be open to {names}", forbidden.text);
            let fix = format!("if no tool may {verb} it, add it to `forbidden_paths` of {names} too");
            findings.add(&forbidden.rule, &message, &fix);
        }
    }
}

/// Returns true if neither the home nor the project keeps the tool from a path that the pattern matches.
fn may_reach(tool: &EffectivePolicy<'_>, root: &Path, forbidden: &ListedPattern, is_change: bool) -> bool {
    let project =
        Workspaces::new(vec![Workspace::hypothetical(&root.to_string_lossy(), WorkspaceAccess::ReadWrite)]);
    let Some(inside) = tool.in_project(root) else { return false };
    let prefix = forbidden.pattern.literal_prefix().0;
    let is_in_scope = tool.project_write_paths(root).filter(|_| is_change).is_none_or(|scope| {
        let starts = scope.globs.patterns().iter().map(|one| one.pattern.literal_prefix().0);
        starts.into_iter().any(|start| start.starts_with(&prefix) || prefix.starts_with(&start))
    });
    is_in_scope
        && OtherTool::new(tool).may_reach(&forbidden.pattern, &project)
        && OtherTool::new(&inside).may_reach(&forbidden.pattern, &project)
}
