//! Compares two policies for one tool: its access in each mode, and the effective value of every limit.

use std::cmp::Ordering;
use std::path::PathBuf;

use governance::files::{HardLinks, Isolation, NetworkAccess, ResultCacheScope};
use governance::rules::Confinement;
use governance::rules::{
    Access, CommandRule, CommandRules, EffectivePolicy, ListedPattern, PathGlobs, PathList, ToolApprovals,
    ToolRules, quote_yaml,
};
use tool::{Mode, RiskLevel, RuleRef};

use super::{
    LoosenedBy, PolicyDifference, PolicyEffect, RankedSetting, RuleTexts, add_difference,
    compare_allowed_hosts, compare_limits, compare_lists, compare_ranked, host_texts, rule_texts,
};
/// Compares the access of the tool in each mode, with approval and on paths where its own approval is waived.
pub(super) fn compare_modes(
    before: &EffectivePolicy<'_>,
    after: &EffectivePolicy<'_>,
    found: &mut Vec<PolicyDifference>,
) {
    compare_access(before, after, ToolApprovals::Required, found);
    if after.rules.is_some_and(|rules| !rules.unattended_paths.patterns().is_empty()) {
        compare_access(before, after, ToolApprovals::Waived, found);
    }
}

fn compare_access(
    before: &EffectivePolicy<'_>,
    after: &EffectivePolicy<'_>,
    attendance: ToolApprovals,
    found: &mut Vec<PolicyDifference>,
) {
    let place = match attendance {
        ToolApprovals::Required => "",
        ToolApprovals::Waived => " on unattended paths",
    };
    for mode in Mode::ALL {
        let ((old, _), (new, rule)) = (before.access(mode, attendance), after.access(mode, attendance));
        let words = |access| match access {
            Access::Denied => "is denied",
            Access::Asks => "requires approval",
            Access::Runs => "runs without approval",
        };
        let effect = match new.cmp(&old) {
            Ordering::Less => PolicyEffect::Tightens,
            Ordering::Equal => continue,
            Ordering::Greater => PolicyEffect::Loosens,
        };
        let name = after.definition.name();
        let what = format!("{name} in {mode}{place}: {} (before: {})", words(new), words(old));
        add_difference(found, effect, what, rule);
    }
}

/// Effective settings of a tool besides its modes, from the policy file or from its definition.
#[derive(Default)]
struct ToolSettings {
    /// `None` where the workspaces apply.
    allowed_paths: Option<RuleTexts<String>>,
    forbidden_paths: RuleTexts<String>,
    unattended: RuleTexts<String>,
    program_folders: RuleTexts<String>,
    allowed_commands: RuleTexts<Vec<Vec<String>>>,
    forbidden_commands: RuleTexts<Vec<Vec<String>>>,
    /// `None` where only the gateway applies.
    hosts: Option<RuleTexts<String>>,
    /// Limits by name; `None` means no limit. A higher value is looser.
    limits: Vec<(&'static str, Option<u64>)>,
    ranked: Vec<RankedSetting>,
    /// Cost of a call in the budget of a worker session. A lower value is looser.
    cost: f64,
}

impl ToolSettings {
    fn new(effective_policy: &EffectivePolicy<'_>) -> Self {
        let (mut numbers, mut sheet) = (effective_limits(effective_policy), ToolSettings::default());
        let mut confined = Confinement::default();
        let (mut choices, mut shared) = ((HardLinks::Refuse, false), false);
        // Destructured without `..`, so that a new field cannot be forgotten here.
        if let Some(ToolRules {
            // Compared as part of the access in each mode, the risk and the outbound route.
            category: _,
            allowed_modes: _,
            approval_modes: _,
            forbidden_modes: _,
            approval_rule: _,
            sandbox_rule: _,
            // Read through the effective policy, which knows the default where they are absent.
            max_file_bytes: _,
            timeout: _,
            calls_per_hour: _,
            max_output_bytes: _,
            // Examples change no verdict.
            examples: _,
            cost_per_call: cost,
            result_cache,
            // Read through the effective policy too, which adds the common list.
            forbidden_paths: _,
            allowed_paths,
            unattended_paths: unattended,
            hard_links,
            commands,
            program_folders,
            hosts: own_hosts,
            confinement,
            shadow,
        }) = effective_policy.rules
        {
            sheet.allowed_paths = allowed_paths.as_ref().map(|PathList { globs, .. }| path_texts(globs));
            sheet.unattended = path_texts(unattended);
            let CommandRules { allowed, forbidden, .. } = commands;
            sheet.allowed_commands = command_texts(allowed.iter().flat_map(|list| &list.rules));
            sheet.forbidden_commands = command_texts(forbidden);
            let named = |(folder, rule): &(PathBuf, RuleRef)| (folder.display().to_string(), rule.clone());
            sheet.program_folders = rule_texts(program_folders.iter().map(named));
            sheet.hosts = own_hosts.as_deref().map(|list| host_texts(&list.hosts));
            (confined, choices) = (*confinement, (*hard_links, shadow.is_some()));
            sheet.cost = *cost;
            numbers
                .push(("cached seconds", Some(result_cache.as_ref().map_or(0, |rule| rule.ttl.as_secs()))));
            shared = result_cache.as_ref().is_some_and(|rule| rule.scope == ResultCacheScope::All);
        } else {
            numbers.push(("cached seconds", Some(0)));
        }
        sheet.forbidden_paths = path_texts(effective_policy.forbidden_paths());
        let (links, shadow) = choices;
        let mut steps = ranked_settings(effective_policy);
        let linked = usize::from(links == HardLinks::Allow);
        steps.push(RankedSetting::new(
            "files with several hard links",
            ["are refused unless every name is known and permitted", "are allowed"],
            linked,
        ));
        steps.push(RankedSetting::new(
            "its rules",
            ["are enforced", "are only recorded"],
            usize::from(shadow),
        ));
        steps.push(RankedSetting::new(
            "cached results",
            ["belong to one caller", "are shared by all callers"],
            usize::from(shared),
        ));
        steps.extend(confinement_settings(&confined));
        numbers.extend(confinement_limits(&confined));
        ToolSettings { limits: numbers, ranked: steps, ..sheet }
    }
}

/// Returns the effective limits, from the rules or from the definition.
fn effective_limits(effective_policy: &EffectivePolicy<'_>) -> Vec<(&'static str, Option<u64>)> {
    vec![
        ("largest file", effective_policy.max_file_bytes()),
        ("calls per hour", effective_policy.calls_per_hour().map(u64::from)),
        ("timeout in seconds", Some(effective_policy.timeout().as_secs())),
        ("largest output", Some(effective_policy.max_output_bytes())),
    ]
}

/// Returns the ranked settings of how the tool runs, from the rules or from the definition.
fn ranked_settings(effective_policy: &EffectivePolicy<'_>) -> Vec<RankedSetting> {
    let without_sandbox = effective_policy.policy.sandbox_rule(effective_policy.definition).is_none();
    let harmless = match effective_policy.risk {
        RiskLevel::High => 0,
        RiskLevel::Medium => 1,
        RiskLevel::Low => 2,
    };
    vec![
        RankedSetting::new("it", ["runs sandboxed", "runs without a sandbox"], usize::from(without_sandbox)),
        RankedSetting::new("its risk level", ["is high", "is medium", "is low"], harmless),
        RankedSetting::new(
            "it",
            ["uses the outbound gateway", "bypasses the outbound gateway"],
            usize::from(!effective_policy.is_outbound()),
        ),
    ]
}

fn confinement_settings(confinement: &Confinement) -> [RankedSetting; 2] {
    let network = match confinement.network {
        NetworkAccess::Off => 0,
        NetworkAccess::Loopback => 1,
        NetworkAccess::Full => 2,
    };
    let reduced = usize::from(confinement.min_isolation == Isolation::Reduced);
    [
        RankedSetting::new("reduced isolation", ["is refused", "is accepted"], reduced),
        RankedSetting::new(
            "the network of its programs",
            ["is off", "is a private loopback", "is open"],
            network,
        ),
    ]
}

fn confinement_limits(confinement: &Confinement) -> [(&'static str, Option<u64>); 3] {
    // `min_isolation` and `network` are compared as ranked settings.
    let Confinement { min_isolation: _, network: _, memory_mb: _, max_processes: _, cpu_seconds } =
        confinement;
    [
        ("memory", Some(confinement.effective_memory_mb().into())),
        ("processes", Some(confinement.effective_max_processes().into())),
        ("processor time", cpu_seconds.filter(|seconds| *seconds > 0).map(u64::from)),
    ]
}

/// Keyed by the resolved path: a symbolic link with a new target changes a list whose text is unchanged.
fn path_texts(globs: &PathGlobs) -> RuleTexts<String> {
    let written = globs.patterns().iter();
    let as_it_leads = written.clone().filter_map(|written| {
        let (spelling, text) = (written.with_links_resolved()?.to_string(), &written.pattern);
        let words = format!("{spelling} (resolved from {text})");
        Some((spelling, (words, written.rule.clone())))
    });
    let as_written =
        rule_texts(written.map(|ListedPattern { pattern, rule, .. }| (pattern.to_string(), rule.clone())));
    as_it_leads.chain(as_written).collect()
}

/// Keyed by the words themselves: two rules with the same display text may match differently.
fn command_texts<'a>(rules: impl IntoIterator<Item = &'a CommandRule>) -> RuleTexts<Vec<Vec<String>>> {
    let shown = |rule: &CommandRule| {
        let word = |choice: &Vec<String>| {
            let quoted: Vec<String> = choice.iter().map(|word| quote_yaml(word)).collect();
            quoted.join("|")
        };
        match rule.words.as_slice() {
            [] => rule.to_string(),
            words => words.iter().map(word).collect::<Vec<_>>().join(" "),
        }
    };
    rules.into_iter().map(|rule| (rule.words.clone(), (shown(rule), rule.rule.clone()))).collect()
}

/// Compares every rule of a tool besides its access in each mode.
pub(super) fn compare_rules(
    before: &EffectivePolicy<'_>,
    after: &EffectivePolicy<'_>,
    found: &mut Vec<PolicyDifference>,
) {
    let name = after.definition.name().as_str();
    let (old, new) = (ToolSettings::new(before), ToolSettings::new(after));
    // Without a list the workspaces apply, so a list that is added or removed may open any new path.
    match (&old.allowed_paths, &new.allowed_paths) {
        (None, Some(list)) if list.is_empty() => {
            add_difference(found, PolicyEffect::Tightens, format!("{name} may access no path"), None);
        }
        (None, Some(list)) => {
            let rule = list.values().next().map(|(_, rule)| rule.clone());
            add_difference(
                found,
                PolicyEffect::Loosens,
                format!("{name} may access a list of paths instead of the workspaces"),
                rule,
            );
        }
        (Some(_), None) => {
            add_difference(found, PolicyEffect::Loosens, format!("{name} may access all workspaces"), None)
        }
        (Some(old), Some(new)) => {
            compare_lists(&format!("{name}: allowed path"), old, new, LoosenedBy::Addition, found)
        }
        (None, None) => {}
    }
    let list = |what: &str| format!("{name}: {what}");
    for (what, old, new, loosened_by) in [
        ("forbidden path", &old.forbidden_paths, &new.forbidden_paths, LoosenedBy::Removal),
        ("unattended path", &old.unattended, &new.unattended, LoosenedBy::Addition),
        ("program folder", &old.program_folders, &new.program_folders, LoosenedBy::Addition),
    ] {
        compare_lists(&list(what), old, new, loosened_by, found);
    }
    for (what, old, new, loosened_by) in [
        ("allowed command", &old.allowed_commands, &new.allowed_commands, LoosenedBy::Addition),
        ("forbidden command", &old.forbidden_commands, &new.forbidden_commands, LoosenedBy::Removal),
    ] {
        compare_lists(&list(what), old, new, loosened_by, found);
    }
    match (&old.hosts, &new.hosts) {
        (None, Some(_)) => {
            add_difference(found, PolicyEffect::Tightens, format!("{name} may reach listed hosts only"), None)
        }
        (Some(_), None) => {
            add_difference(
                found,
                PolicyEffect::Loosens,
                format!("{name} may reach every host that the gateway allows"),
                None,
            );
        }
        (Some(old), Some(new)) => compare_allowed_hosts(&list("allowed host"), old, new, found),
        (None, None) => {}
    }
    if let Some(order) = new.cost.partial_cmp(&old.cost).filter(|order| order.is_ne()) {
        let effect = if order.is_lt() { PolicyEffect::Loosens } else { PolicyEffect::Tightens };
        add_difference(
            found,
            effect,
            format!("{name}: cost of a call: {} becomes {}", old.cost, new.cost),
            None,
        );
    }
    for ((what, old), (_, new)) in old.limits.into_iter().zip(new.limits) {
        compare_limits(&list(what), old, new, found);
    }
    for (old, new) in old.ranked.iter().zip(&new.ranked) {
        compare_ranked(&list(""), old, new, found);
    }
}
