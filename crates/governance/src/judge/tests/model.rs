//! Reference model of the judge for the differential test, written from the documents and not from the code.
//!
//! It uses plain texts and loops and compiles nothing. It supports only the generated policies and calls, and
//! is slow and obvious on purpose.

mod errands;
mod places;
mod plan;

use tool::Mode;

use self::errands::{refuses_commands, refuses_host};
pub(super) use self::places::{Names, names};
use self::places::{Place, forbids, may_be_in};
pub(super) use self::plan::{CallPlan, ModePlan, PathPlan, Plan, TOOLS, ToolFacts, ToolPlan, Url, Where};

/// Returns the verdict: `permit`, `ask N`, or the code of the denial.
pub(super) fn verdict(plan: &Plan, call: &CallPlan, names: &[Names], mode: Mode, counts: [u32; 3]) -> String {
    let tool = &TOOLS[call.tool];
    let silent = ToolPlan::default();
    let stated = plan.tools.iter().find(|(name, _)| *name == tool.name).map_or(&silent, |(_, entry)| entry);
    // Rules in shadow mode deny nothing; approval and sandbox settings of the entry still apply.
    let shadow =
        ToolPlan { approval: stated.approval.clone(), sandbox: stated.sandbox, ..ToolPlan::default() };
    let denying = if stated.shadow { &shadow } else { stated };
    let category = stated.category.unwrap_or(tool.category);
    match denies(plan, call, names, tool, stated, denying, category, (mode, counts)) {
        Some(code) => code.to_owned(),
        None => match asks(plan, tool, stated, category, mode, is_unattended(stated, names)) {
            0 => "permit".to_owned(),
            rules => format!("ask {rules}"),
        },
    }
}

#[allow(clippy::too_many_arguments)] // the model has no intermediate types
fn denies(
    plan: &Plan,
    call: &CallPlan,
    names: &[Names],
    tool: &ToolFacts,
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
    if here.none_at_all || (!here.categories.is_empty() && !here.categories.contains(&category)) {
        return Some("mode_denied");
    }
    if entry.sandbox || tool.name == "confined" {
        return Some("sandbox_unavailable");
    }
    let command_rules = stated.allowed_commands.is_some() || !stated.forbidden_commands.is_empty();
    if command_rules && !tool.takes_commands {
        return Some("command_not_allowed");
    }
    let goes_out = tool.goes_out || category == "network";
    if stated.domains.is_some() && !goes_out {
        return Some("domain_not_allowed");
    }
    if entry.per_hour.is_some_and(|most| hour >= most) || here.per_minute.is_some_and(|most| minute >= most) {
        return Some("rate_limited");
    }
    if goes_out && out >= here.out_per_hour {
        return Some("rate_limited");
    }
    if refuses_commands(call, stated, entry) {
        return Some("command_not_allowed");
    }
    if goes_out && refuses_host(plan, call, entry) {
        return Some("domain_not_allowed");
    }
    if call.paths.iter().any(|path| !path.typed.starts_with('/')) && call.workspaces.is_empty() {
        return Some("path_not_allowed");
    }
    for (path, names) in call.paths.iter().zip(names) {
        let code = forbids(plan, entry, &names.typed, path.writes).or_else(|| {
            names.left.iter().find_map(|folder| {
                forbids(plan, entry, folder, false)
                    .or((!may_be_in(entry, folder, false)).then_some("path_not_allowed"))
            })
        });
        if code.is_some() {
            return code;
        }
    }
    for (path, names) in call.paths.iter().zip(names) {
        let code = forbids(plan, entry, &names.leads_to, path.writes);
        if code.is_some() {
            return code;
        }
        if !may_be_in(entry, &names.leads_to, path.writes) {
            return Some("path_not_allowed");
        }
        for folder in &names.missing {
            if let Some(code) = forbids(plan, entry, folder, path.writes) {
                return Some(code);
            }
            if !may_be_in(entry, folder, path.writes) {
                return Some("path_not_allowed");
            }
        }
        let harmless = |other: &Place| forbids(plan, entry, other, path.writes).is_none();
        let several = path.file.is_some_and(|(_, names)| names > 1);
        if several && !entry.links_allowed && !names.other.as_ref().is_some_and(harmless) {
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
fn is_unattended(entry: &ToolPlan, names: &[Names]) -> bool {
    let listed = |place: &Place| entry.unattended.iter().any(|pattern| place.allowed_by.contains(pattern));
    !names.is_empty() && names.iter().all(|names| listed(&names.leads_to) && names.missing.iter().all(listed))
}

fn asks(
    plan: &Plan,
    tool: &ToolFacts,
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
        "network" => tool.goes_out || category == "network",
        "all_actions" => true,
        other => other == category || other == tool.name,
    });
    let by_safety = plan.approvals.iter().filter(|(wanted, of, modes)| {
        modes.contains(&mode)
            && wanted.is_none_or(|wanted| wanted == risk)
            && of.is_none_or(|of| of == category)
    });
    let abroad = plan.asks_abroad && (tool.goes_out || category == "network");
    let in_tools = usize::from(entry.always_asks)
        + usize::from(entry.approval.contains(&mode))
        + usize::from(of_category.is_some_and(|(_, _, modes)| modes.contains(&mode)));
    (if unattended { 0 } else { in_tools }) + by_mode.count() + by_safety.count() + usize::from(abroad)
}
