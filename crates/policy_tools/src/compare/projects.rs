//! Compares the policies of projects. They only tighten the policy of the home, so a new one tightens.

use std::collections::BTreeSet;
use std::path::Path;

use governance::rules::{Access, EffectivePolicy};
use governance::{Policy, PolicyError, Workspaces};
use tool::{Mode, RuleRef, ToolDefinition};

use super::per_tool::{self, ComparedLayer};
use super::{PolicyDifference, PolicyEffect, add_difference};

/// Returns every difference between the project policies of two policies. `workspaces` are those of the new one:
/// the policy of a folder that is no longer a workspace restricts nothing, unless a tool lists paths there.
pub fn compare_projects(
    old: &Policy,
    new: &Policy,
    workspaces: &Workspaces,
    definitions: &[&ToolDefinition],
) -> Vec<PolicyDifference> {
    let roots = old.project_policies().chain(new.project_policies()).map(|(root, _)| root);
    let mut found = Vec::new();
    for root in roots.collect::<BTreeSet<_>>() {
        let project = format!("project {}", root.display());
        let (before, after) = (ProjectState::at(old, root), ProjectState::at(new, root));
        match (&before, &after) {
            (before, Some(ProjectState { load_error: Some(error), .. }))
                if before.as_ref().is_none_or(|before| before.load_error.is_none()) =>
            {
                let what =
                    format!("{project}: every call into it is denied, because its policy does not load");
                let rule = error.problems().first().map(|problem| RuleRef {
                    file: problem.file.as_str().into(),
                    line: problem.line,
                    id: "project policy".into(),
                });
                add_difference(&mut found, PolicyEffect::Tightens, what, rule);
            }
            (None, _) => {
                let what = format!("{project}: it has a policy of its own");
                add_difference(&mut found, PolicyEffect::Tightens, what, None);
            }
            (Some(_), None) => {
                let is_reached = workspaces.iter().any(|folder| root.starts_with(folder.root()))
                    || definitions.iter().any(|tool| lists_paths_at(&EffectivePolicy::new(new, tool), root));
                let effect = if is_reached { PolicyEffect::Loosens } else { PolicyEffect::Neutral };
                add_difference(&mut found, effect, format!("{project}: its policy no longer applies"), None);
            }
            (Some(before), Some(after)) if before == after => {}
            (Some(ProjectState { load_error: Some(_), .. }), Some(after)) => {
                let (effect, what) = match after.load_error {
                    Some(_) => (PolicyEffect::Neutral, "its policy still does not load"),
                    None => {
                        (PolicyEffect::Loosens, "its policy loads again, and calls into it are judged by it")
                    }
                };
                add_difference(&mut found, effect, format!("{project}: {what}"), None);
            }
            _ => compare_project(old, new, root, definitions, &mut found),
        }
    }
    found
}

/// Policy of one project.
#[derive(PartialEq, Eq)]
struct ProjectState<'a> {
    text: &'a str,
    load_error: Option<&'a PolicyError>,
}

impl<'a> ProjectState<'a> {
    fn at(policy: &'a Policy, root: &Path) -> Option<Self> {
        let (_, text) = policy.project_policies().find(|(known, _)| *known == root)?;
        let load_error = policy.denied_projects().find(|(known, _)| *known == root).map(|(_, error)| error);
        Some(ProjectState { text, load_error })
    }
}

fn lists_paths_at(tool: &EffectivePolicy<'_>, root: &Path) -> bool {
    let lists = tool.rules.and_then(|rules| rules.allowed_paths.as_ref());
    let patterns = lists.into_iter().flat_map(|list| list.globs.patterns());
    patterns.map(|pattern| &pattern.literal_prefix).any(|at| root.starts_with(at) || at.starts_with(root))
}

/// Compares two policies of one project tool by tool.
fn compare_project(
    old: &Policy,
    new: &Policy,
    root: &Path,
    definitions: &[&ToolDefinition],
    found: &mut Vec<PolicyDifference>,
) {
    let mut of_project = Vec::new();
    for definition in definitions {
        let of = |policy| EffectivePolicy::new(policy, definition).in_project(root);
        if let (Some(before), Some(after)) = (of(old), of(new)) {
            compare_modes(&before, &after, &mut of_project);
            per_tool::compare_rules(&before, &after, ComparedLayer::Project(root), &mut of_project);
        }
    }
    if of_project.is_empty() {
        let description = "its policy changed without an effect".to_owned();
        of_project.push(PolicyDifference { effect: PolicyEffect::Neutral, description, rule: None });
    }
    let named = |difference: PolicyDifference| PolicyDifference {
        description: format!("project {}: {}", root.display(), difference.description),
        ..difference
    };
    found.extend(of_project.into_iter().map(named));
}

/// Compares the modes in which a project forbids a tool or requires approval for it.
fn compare_modes(
    before: &EffectivePolicy<'_>,
    after: &EffectivePolicy<'_>,
    found: &mut Vec<PolicyDifference>,
) {
    let access = |tool: &EffectivePolicy<'_>, mode: Mode| {
        let Some(rules) = tool.rules else { return Access::Runs };
        let lists = |list: &[(Mode, RuleRef)]| list.iter().any(|(known, _)| *known == mode);
        if lists(&rules.forbidden_modes) {
            Access::Denied
        } else if rules.approval_rule.is_some() || lists(&rules.approval_modes) {
            Access::Asks
        } else {
            Access::Runs
        }
    };
    for mode in Mode::ALL {
        per_tool::compare_access_in(
            mode,
            (access(before, mode), access(after, mode)),
            after,
            "",
            None,
            found,
        );
    }
}
