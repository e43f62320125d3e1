//! `sinew policy diff`: compares two policies by what they permit.

use std::path::Path;
use std::sync::Arc;

use execution::ConfigSnapshot;
use governance::Policy;
use governance::policy_environment::PolicyEnvironment;
use governance::suggested_change::PolicyFile;
use policy_tools::prove::{PolicyDiff, VerdictChange, diff_policies};
use policy_tools::{PolicyDifference, PolicyEffect};
use serde_json::json;
use strict_yaml::Document;
use tool::ToolDefinition;

use crate::cli::JsonArgs;
use crate::command::config;
use crate::command_context::CommandContext;
use crate::compose::{self, WorkspaceSelection};
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, escape_invisible_line, paint, print_result_line,
};

use super::prove::{arguments_line, rule_line};

/// Differences of the rules that are shown, the loosening ones first. All are in the JSON output.
const SHOWN_DIFFERENCES: usize = 20;

pub(super) fn run(
    context: &CommandContext,
    names: [&str; 2],
    output: JsonArgs,
) -> Result<ExitKind, CommandError> {
    let snapshot = compose::config_snapshot(context, &context.settings()?, WorkspaceSelection::Configured)?;
    let [before, after] = names.map(|name| policy_named(context, &snapshot, name));
    let (before, after) = (before?, after?);
    let definitions: Vec<Arc<ToolDefinition>> = snapshot.registry.definitions().cloned().collect();
    let diff = diff_policies((&before, &after), &definitions, &snapshot.workspaces);
    if output.json {
        render::print_json(json!({"changes": diff.changes, "differences": diff.differences,
            "undecided": diff.undecided, "judged": diff.judged}))?;
    } else {
        show(&diff)?;
    }
    Ok(ExitKind::Done)
}

/// Returns the policy with this name, on this machine and with the project policies of the workspaces.
pub(super) fn policy_named(
    context: &CommandContext,
    snapshot: &ConfigSnapshot,
    name: &str,
) -> Result<Policy, CommandError> {
    let environment = compose::policy_environment(context);
    let path = Path::new(name);
    let loaded = match name {
        "effective" => return Ok(snapshot.policy.clone()),
        "built-in" => Policy::embedded(&environment),
        _ if path.is_dir() => Policy::load(path, &environment),
        _ => return file_policy(snapshot, path, &environment),
    };
    let loaded = loaded.map_err(CommandError::configuration)?.on_the_machine_of(&snapshot.policy);
    loaded.with_projects(&snapshot.workspaces, &environment).map_err(CommandError::configuration)
}

/// Returns the current policy with another text for one of its files. Its name or its keys tell which one.
fn file_policy(
    snapshot: &ConfigSnapshot,
    path: &Path,
    environment: &PolicyEnvironment,
) -> Result<Policy, CommandError> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        let problem = CommandError::usage(format!("`{name}` is not a policy: {error}"));
        problem.with_hint("name a folder, a file, `effective` or `built-in`")
    })?;
    let file_name = path.file_name().and_then(|name| name.to_str());
    let by_name = PolicyFile::ALL.into_iter().find(|file| Some(file.name()) == file_name);
    let Some(file) = by_name.or_else(|| file_with_keys_of(&text)) else {
        let names = PolicyFile::ALL.map(PolicyFile::name).join(", ");
        let problem = CommandError::usage(format!("`{name}` is not a policy: it has no key of {names}"));
        return Err(problem.with_hint("name a folder, a file, `effective` or `built-in`"));
    };
    snapshot.policy.with_user_text(file, &text, environment).map_err(CommandError::configuration)
}

fn file_with_keys_of(text: &str) -> Option<PolicyFile> {
    let tree = Document::from_text("policy", text).ok()?.tree().ok()?;
    tree.entries().iter().find_map(|(key, _)| config::policy_file_with(&key.value))
}

fn show(diff: &PolicyDiff) -> Result<(), CommandError> {
    let of = |effect| diff.changes.iter().filter(move |change| change.effect == effect);
    for (effect, title) in
        [(PolicyEffect::Loosens, "Becomes possible"), (PolicyEffect::Tightens, "Is no longer possible")]
    {
        if of(effect).next().is_some() {
            print_result_line(format!("{title}:"))?;
        }
        let mut shown: Vec<&VerdictChange> = Vec::new();
        for change in of(effect) {
            if !shown.iter().any(|known| are_alike(known, change)) {
                let modes: Vec<&str> =
                    of(effect).filter(|one| are_alike(one, change)).map(|one| one.mode.as_str()).collect();
                show_change(change, &modes.join(", "))?;
                shown.push(change);
            }
        }
    }
    if !diff.differences.is_empty() {
        print_result_line("Rules that differ:")?;
    }
    let mut differences: Vec<&PolicyDifference> = diff.differences.iter().collect();
    differences.sort_by_key(|difference| std::cmp::Reverse(difference.effect));
    for difference in differences.iter().take(SHOWN_DIFFERENCES) {
        let word = match difference.effect {
            PolicyEffect::Tightens => paint(SUCCESS_STYLE, "tightens"),
            PolicyEffect::Neutral => paint(DIM_STYLE, "neutral"),
            PolicyEffect::Loosens => paint(ERROR_STYLE, "loosens"),
        };
        let description = escape_invisible_line(&difference.description);
        print_result_line(format!("  {word} {description}"))?;
        rule_line(difference.rule.as_ref()).map_or(Ok(()), print_result_line)?;
    }
    if let Some(more) = differences.len().checked_sub(SHOWN_DIFFERENCES).filter(|more| *more > 0) {
        print_result_line(format!("  and {more} more; `--json` lists all"))?;
    }
    for one in &diff.undecided {
        let reason = escape_invisible_line(&one.reason);
        print_result_line(paint(
            ERROR_STYLE,
            format!("{} is not compared call by call: {reason}", one.tool),
        ))?;
    }
    match diff.changes.is_empty() && diff.undecided.is_empty() {
        true => print_result_line(format!("No call is decided differently ({} judged).", diff.judged)),
        false => Ok(()),
    }
}

/// Returns true if two changes differ in their mode only.
fn are_alike(one: &VerdictChange, other: &VerdictChange) -> bool {
    VerdictChange { mode: other.mode, ..one.clone() } == *other
}

fn show_change(change: &VerdictChange, modes: &str) -> Result<(), CommandError> {
    let style = if change.effect == PolicyEffect::Loosens { ERROR_STYLE } else { SUCCESS_STYLE };
    let verdict = match &change.detail {
        Some(detail) => escape_invisible_line(detail),
        None => format!("{} before, {} now", change.before, change.after),
    };
    print_result_line(format!(
        "  {} in {}: {}: {}",
        paint(style, &change.tool),
        modes,
        verdict,
        arguments_line(&change.arguments)
    ))?;
    rule_line(change.rule.as_ref()).map_or(Ok(()), print_result_line)
}
