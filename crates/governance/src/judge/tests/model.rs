//! Reference model of the judge for the differential test, written from the documents and not from the code.
//!
//! It uses plain texts and loops and compiles nothing. It supports only the generated policies and calls, and
//! is slow and obvious on purpose.

mod external_targets;
mod paths;
mod plan;

use tool::Mode;

use self::external_targets::{refuses_commands, refuses_host};
use self::paths::{NameMatches, forbids, is_allowed, is_creatable};
pub(super) use self::paths::{PathNames, path_names};
pub(super) use self::plan::{
    CallPlan, HostZone, ModePlan, PathPlan, PolicyPlan, TOOLS, ToolPlan, ToolTraits, UrlCase,
};

/// Returns the verdict: `permit`, `ask N`, or the code of the denial.
pub(super) fn verdict(
    plan: &PolicyPlan,
    call: &CallPlan,
    names: &[PathNames],
    mode: Mode,
    counts: [u32; 3],
) -> String {
    let tool = &TOOLS[call.tool];
    let silent = ToolPlan::default();
    let stated = plan.tools.iter().find(|(name, _)| *name == tool.name).map_or(&silent, |(_, entry)| entry);
    // Rules in shadow mode deny nothing; approval and sandbox settings of the entry still apply.
    let shadow =
        ToolPlan { approval: stated.approval.clone(), sandbox: stated.sandbox, ..ToolPlan::default() };
    let denying = if stated.shadow { &shadow } else { stated };
    let category = stated.category.unwrap_or(tool.category);
    match denial_code(plan, call, names, tool, stated, denying, category, (mode, counts)) {
        Some(code) => code.to_owned(),
        None => match approval_count(plan, tool, stated, category, mode, is_unattended(stated, names)) {
            0 => "permit".to_owned(),
            rules => format!("ask {rules}"),
        },
    }
}

#[allow(clippy::too_many_arguments)] // the model has no intermediate types
fn denial_code(
    plan: &PolicyPlan,
    call: &CallPlan,
    names: &[PathNames],
    tool: &ToolTraits,
    stated: &ToolPlan,
    entry: &ToolPlan,
    category: &str,
    (mode, [hour, minute, out]): (Mode, [u32; 3]),
) -> Option<&'static str> {
    let here = &plan.modes[Mode::ALL.iter().position(|other| *other == mode).unwrap()];
    let listed = entry.allowed.as_ref().is_none_or(|modes| modes.contains(&mode));
    if entry.forbidden.contains(&mode) || (!entry.approval.contains(&mode) && !listed) {
        return Some("mode_denied");
    }
    if here.allows_no_tasks || (!here.categories.is_empty() && !here.categories.contains(&category)) {
        return Some("mode_denied");
    }
    if entry.sandbox || tool.name == "confined" {
        return Some("sandbox_unavailable");
    }
    let command_rules = stated.allowed_commands.is_some() || !stated.forbidden_commands.is_empty();
    if command_rules && !tool.takes_commands {
        return Some("command_not_allowed");
    }
    let goes_out = tool.is_outbound || category == "network";
    if stated.domains.is_some() && !goes_out {
        return Some("domain_not_allowed");
    }
    if entry.per_hour.is_some_and(|most| hour >= most) || here.per_minute.is_some_and(|most| minute >= most) {
        return Some("rate_limited");
    }
    if goes_out && out >= here.outbound_per_hour {
        return Some("rate_limited");
    }
    if refuses_commands(call, stated, entry) {
        return Some("command_not_allowed");
    }
    if goes_out && let Some(code) = refuses_host(plan, call, entry) {
        return Some(code);
    }
    if call.paths.iter().any(|path| !path.typed.starts_with('/')) && call.workspaces.is_empty() {
        return Some("path_not_allowed");
    }
    for (path, names) in call.paths.iter().zip(names) {
        let code = forbids(plan, entry, &names.typed, path.writes).or_else(|| {
            names.left_folders.iter().find_map(|folder| {
                forbids(plan, entry, folder, false)
                    .or((!is_allowed(entry, folder, false)).then_some("path_not_allowed"))
            })
        });
        if code.is_some() {
            return code;
        }
    }
    for (path, names) in call.paths.iter().zip(names) {
        let code = forbids(plan, entry, &names.target, path.writes);
        if code.is_some() {
            return code;
        }
        if !is_allowed(entry, &names.target, path.writes) {
            return Some("path_not_allowed");
        }
        for folder in &names.missing_folders {
            if let Some(code) = forbids(plan, entry, folder, path.writes) {
                return Some(code);
            }
            if !is_creatable(entry, folder) {
                return Some("path_not_allowed");
            }
        }
        let harmless = |other: &NameMatches| forbids(plan, entry, other, path.writes).is_none();
        let several = path.file.is_some_and(|(_, names)| names > 1);
        if several && !entry.allows_hard_links && !names.other_name.as_ref().is_some_and(harmless) {
            return Some("path_forbidden");
        }
        let most = entry.max_mb.map(|mb| u64::from(mb) * 1024 * 1024);
        if !path.writes && path.file.is_some_and(|(size, _)| most.is_some_and(|most| size > most)) {
            return Some("too_large");
        }
    }
    let most = entry.max_mb.map(|mb| mb as usize * 1024 * 1024);
    let too_much = call.content.is_some_and(|bytes| most.is_some_and(|most| bytes > most));
    (tool.writes && too_much).then_some("too_large")
}

/// Returns true if every path, with the folders it would create, is in `unattended_paths`. False without
/// paths.
fn is_unattended(entry: &ToolPlan, names: &[PathNames]) -> bool {
    let listed =
        |place: &NameMatches| entry.unattended.iter().any(|pattern| place.allowed_by.contains(pattern));
    !names.is_empty()
        && names.iter().all(|names| listed(&names.target) && names.missing_folders.iter().all(listed))
}

fn approval_count(
    plan: &PolicyPlan,
    tool: &ToolTraits,
    entry: &ToolPlan,
    category: &str,
    mode: Mode,
    unattended: bool,
) -> usize {
    let of_category = plan.categories.iter().find(|(name, ..)| *name == category);
    let risk = of_category.and_then(|(_, risk, _)| *risk).unwrap_or(0).max(tool.risk);
    let here = &plan.modes[Mode::ALL.iter().position(|other| *other == mode).unwrap()];
    let by_mode = here.approvals.iter().filter(|word| match **word {
        "high_risk_tools" => risk == 3,
        "any_write_operation" => tool.writes || tool.takes_commands || category == "system_write",
        "network" => tool.is_outbound || category == "network",
        "all_actions" => true,
        other => other == category || other == tool.name,
    });
    let by_safety = plan.approvals.iter().filter(|(wanted, of, modes)| {
        modes.contains(&mode)
            && wanted.is_none_or(|wanted| wanted == risk)
            && of.is_none_or(|of| of == category)
    });
    let abroad = plan.approval_for_hosts && (tool.is_outbound || category == "network");
    let in_tools = usize::from(entry.requires_approval)
        + usize::from(entry.approval.contains(&mode))
        + usize::from(of_category.is_some_and(|(_, _, modes)| modes.contains(&mode)));
    (if unattended { 0 } else { in_tools }) + by_mode.count() + by_safety.count() + usize::from(abroad)
}
