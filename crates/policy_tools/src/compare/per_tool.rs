//! Compares two policies for one tool: its access in each mode, and the effective value of every limit.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use governance::files::{HardLinks, Isolation, NetworkAccess, ResultCacheScope};
use governance::rules::Confinement;
use governance::rules::{
    Access, CommandRule, CommandRules, EXACT_SUFFIX, EffectivePolicy, ListPurpose, ListedPattern, PathGlobs,
    PathList, PathPattern, ToolApprovals, ToolRules, quote_yaml,
};
use governance::{WorkspaceAccess, Workspaces};
use tool::{Mode, RiskLevel, RuleRef};

use super::{
    LoosenedBy, PolicyDifference, PolicyEffect, RankedSetting, RuleTexts, add_difference,
    compare_allowed_hosts, compare_coverage, compare_limits, compare_lists, compare_ranked, host_texts,
    rule_texts,
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
        compare_access_in(mode, (old, new), after, place, rule, found);
    }
}

pub(super) fn compare_access_in(
    mode: Mode,
    (old, new): (Access, Access),
    after: &EffectivePolicy<'_>,
    place: &str,
    rule: Option<RuleRef>,
    found: &mut Vec<PolicyDifference>,
) {
    let words = |access| match access {
        Access::Denied => "is denied",
        Access::Asks => "requires approval",
        Access::Runs => "runs without approval",
    };
    let effect = match new.cmp(&old) {
        Ordering::Less => PolicyEffect::Tightens,
        Ordering::Equal => return,
        Ordering::Greater => PolicyEffect::Loosens,
    };
    let name = after.definition.name();
    let what = format!("{name} in {mode}{place}: {} (before: {})", words(new), words(old));
    add_difference(found, effect, what, rule);
}

/// Effective settings of a tool besides its modes, from the policy file or from its definition.
#[derive(Default)]
struct ToolSettings {
    /// `None` where the workspaces apply.
    allowed_paths: Option<RuleTexts<ComparedPattern>>,
    forbidden_paths: RuleTexts<ComparedPattern>,
    unattended: RuleTexts<ComparedPattern>,
    program_folders: RuleTexts<String>,
    allowed_commands: RuleTexts<ComparedCommand>,
    forbidden_commands: RuleTexts<ComparedCommand>,
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

/// Pattern that is ordered and compared by its text.
#[derive(Clone)]
struct ComparedPattern(PathPattern, String);

impl ComparedPattern {
    fn new(pattern: PathPattern) -> Self {
        let text = pattern.to_string();
        ComparedPattern(pattern, text)
    }

    /// Returns true if every path that the pattern can match is in a workspace with this access. A workspace inside of
    /// it may give less.
    fn is_inside(&self, workspaces: &Workspaces, access: WorkspaceAccess) -> bool {
        let (prefix, _) = self.0.literal_prefix();
        let is_enough = |found| access == WorkspaceAccess::ReadOnly || found == WorkspaceAccess::ReadWrite;
        workspaces.access_at(&prefix).is_some_and(is_enough)
            && workspaces.iter().all(|one| !one.root().starts_with(&prefix) || is_enough(one.access()))
    }
}

impl PartialEq for ComparedPattern {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}

impl Eq for ComparedPattern {}

impl PartialOrd for ComparedPattern {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ComparedPattern {
    fn cmp(&self, other: &Self) -> Ordering {
        self.1.cmp(&other.1)
    }
}

/// Returns the texts of the patterns by resolved path. If a symbolic link has a new target, the list differs
/// although its text is unchanged.
fn path_texts(globs: &PathGlobs) -> RuleTexts<ComparedPattern> {
    let written = globs.patterns().iter();
    let as_it_leads = written.clone().filter_map(|written| {
        let (resolved, text) = (ComparedPattern::new(written.with_links_resolved()?), &written.pattern);
        let words = format!("{} (resolved from {text})", resolved.1);
        Some((resolved, (words, written.rule.clone())))
    });
    let as_written = written.clone().map(|ListedPattern { pattern, rule, .. }| {
        let key = ComparedPattern::new(pattern.clone());
        let text = key.1.clone();
        (key, (text, rule.clone()))
    });
    as_it_leads.chain(as_written).collect()
}

/// Command rule that is ordered by what it matches: two rules with the same display text may match differently.
#[derive(Clone)]
struct ComparedCommand(CommandRule);

impl ComparedCommand {
    fn key(&self) -> (&[Vec<String>], bool) {
        (&self.0.words, self.0.exact)
    }
}

impl PartialEq for ComparedCommand {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for ComparedCommand {}

impl PartialOrd for ComparedCommand {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ComparedCommand {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

fn command_texts<'a>(rules: impl IntoIterator<Item = &'a CommandRule>) -> RuleTexts<ComparedCommand> {
    let shown = |rule: &CommandRule| {
        let word = |choice: &Vec<String>| {
            let quoted: Vec<String> = choice.iter().map(|word| quote_yaml(word)).collect();
            quoted.join("|")
        };
        match rule.words.as_slice() {
            [] => rule.to_string(),
            words => {
                let end = if rule.exact { EXACT_SUFFIX } else { "" };
                words.iter().map(word).collect::<Vec<_>>().join(" ") + end
            }
        }
    };
    let row = |rule: &CommandRule| (ComparedCommand(rule.clone()), (shown(rule), rule.rule.clone()));
    rules.into_iter().map(row).collect()
}

/// Rules that a list of allowed paths is compared within.
#[derive(Clone, Copy)]
pub(super) enum ComparedLayer<'a> {
    /// Policy of the home: without a list these workspaces apply.
    Home(&'a Workspaces),
    /// Policy of the project at this root: without a list its write scope restricts writes, and nothing restricts
    /// reads.
    Project(&'a Path),
}

/// Compares every rule of a tool besides its access in each mode.
pub(super) fn compare_rules(
    before: &EffectivePolicy<'_>,
    after: &EffectivePolicy<'_>,
    layer: ComparedLayer<'_>,
    found: &mut Vec<PolicyDifference>,
) {
    let name = after.definition.name().as_str();
    let (old, new) = (ToolSettings::new(before), ToolSettings::new(after));
    match layer {
        ComparedLayer::Home(workspaces) => {
            compare_home_paths((before, &old), (after, &new), workspaces, found);
        }
        ComparedLayer::Project(root) => compare_project_paths((before, &old), (after, &new), root, found),
    }
    let list = |what: &str| format!("{name}: {what}");
    for (what, old, new, loosened_by) in [
        ("forbidden path", &old.forbidden_paths, &new.forbidden_paths, LoosenedBy::Removal),
        ("unattended path", &old.unattended, &new.unattended, LoosenedBy::Addition),
    ] {
        compare_paths(&list(what), old, new, loosened_by, found);
    }
    let folders = (&old.program_folders, &new.program_folders);
    compare_lists(&list("program folder"), folders.0, folders.1, LoosenedBy::Addition, found);
    for (what, old, new, loosened_by) in [
        ("allowed command", &old.allowed_commands, &new.allowed_commands, LoosenedBy::Addition),
        ("forbidden command", &old.forbidden_commands, &new.forbidden_commands, LoosenedBy::Removal),
    ] {
        compare_coverage(&list(what), old, new, loosened_by, &|wide, narrow| wide.0.covers(&narrow.0), found);
    }
    compare_hosts(name, &old, &new, found);
    if let Some(order) = new.cost.partial_cmp(&old.cost).filter(|order| order.is_ne()) {
        let effect = if order.is_lt() { PolicyEffect::Loosens } else { PolicyEffect::Tightens };
        let what = format!("{name}: cost of a call: {} becomes {}", old.cost, new.cost);
        add_difference(found, effect, what, None);
    }
    for ((what, old), (_, new)) in old.limits.into_iter().zip(new.limits) {
        compare_limits(&list(what), old, new, found);
    }
    for (old, new) in old.ranked.iter().zip(&new.ranked) {
        compare_ranked(&list(""), old, new, found);
    }
}

fn compare_paths(
    what: &str,
    old: &RuleTexts<ComparedPattern>,
    new: &RuleTexts<ComparedPattern>,
    loosened_by: LoosenedBy,
    found: &mut Vec<PolicyDifference>,
) {
    let purpose = match loosened_by {
        LoosenedBy::Addition => ListPurpose::Allow,
        LoosenedBy::Removal => ListPurpose::Forbid,
    };
    let covers = |wide: &ComparedPattern, narrow: &ComparedPattern| wide.0.covers(&narrow.0, purpose);
    compare_coverage(what, old, new, loosened_by, &covers, found);
}

/// Compares the paths of a tool where no list means the workspaces.
fn compare_home_paths(
    (before, old): (&EffectivePolicy<'_>, &ToolSettings),
    (after, new): (&EffectivePolicy<'_>, &ToolSettings),
    workspaces: &Workspaces,
    found: &mut Vec<PolicyDifference>,
) {
    let name = after.definition.name();
    let (effect, what) = match (&old.allowed_paths, &new.allowed_paths) {
        (None, None) => return,
        (Some(old), Some(new)) => {
            return compare_paths(&format!("{name}: allowed path"), old, new, LoosenedBy::Addition, found);
        }
        (None, Some(list)) if list.is_empty() => (PolicyEffect::Tightens, "may access no path"),
        (None, Some(list)) => {
            let access = if changes_files(before) || changes_files(after) {
                WorkspaceAccess::ReadWrite
            } else {
                WorkspaceAccess::ReadOnly
            };
            match list.keys().all(|pattern| pattern.is_inside(workspaces, access)) {
                true => (PolicyEffect::Tightens, "may access only the listed paths of the workspaces"),
                false => (PolicyEffect::Loosens, "may access a list of paths instead of the workspaces"),
            }
        }
        (Some(_), None) => (PolicyEffect::Loosens, "may access all workspaces"),
    };
    let rule = new.allowed_paths.as_ref().and_then(|list| list.values().next());
    add_difference(found, effect, format!("{name} {what}"), rule.map(|(_, rule)| rule.clone()));
}

/// Returns true if a call of the tool can change files, itself or by a program.
fn changes_files(tool: &EffectivePolicy<'_>) -> bool {
    tool.may_change_files() || tool.definition.requires_sandbox()
}

/// Compares the paths of a tool in a project. A list of its own replaces the write scope, so for a tool that
/// writes, the lists that apply to its writes are compared too.
fn compare_project_paths(
    (before, old): (&EffectivePolicy<'_>, &ToolSettings),
    (after, new): (&EffectivePolicy<'_>, &ToolSettings),
    root: &Path,
    found: &mut Vec<PolicyDifference>,
) {
    let (tool, name) = (after.definition, after.definition.name());
    let writes = changes_files(before) || changes_files(after);
    let reads = !writes || tool.path_arguments().iter().any(|path| !path.access.is_modifying());
    let lists = (&old.allowed_paths, &new.allowed_paths);
    if reads {
        compare_project_lists(name.as_str(), "access", lists, found);
    }
    // If neither policy has a list of the tool, the scope applies in both. It is compared as the list of its tool.
    let has_own_list = lists.0.is_some() || lists.1.is_some();
    let is_compared = reads && lists.0.is_some() == lists.1.is_some();
    if writes && has_own_list && !is_compared {
        let paths =
            |tool: &EffectivePolicy<'_>| tool.project_write_paths(root).map(|list| path_texts(&list.globs));
        compare_project_lists(name.as_str(), "write to", (&paths(before), &paths(after)), found);
    }
}

/// Compares two lists of paths in a project, where no list means all paths.
fn compare_project_lists(
    name: &str,
    action: &str,
    lists: (&Option<RuleTexts<ComparedPattern>>, &Option<RuleTexts<ComparedPattern>>),
    found: &mut Vec<PolicyDifference>,
) {
    let (effect, what) = match lists {
        (None, None) => return,
        (Some(old), Some(new)) => {
            let what = format!("{name}: path that it may {action}");
            return compare_paths(&what, old, new, LoosenedBy::Addition, found);
        }
        (None, Some(list)) if list.is_empty() => (PolicyEffect::Tightens, "no path"),
        (None, Some(_)) => (PolicyEffect::Tightens, "the listed paths only"),
        (Some(_), None) => (PolicyEffect::Loosens, "the whole project"),
    };
    let rule = lists.1.as_ref().and_then(|list| list.values().next());
    add_difference(found, effect, format!("{name} may {action} {what}"), rule.map(|(_, rule)| rule.clone()));
}

fn compare_hosts(name: &str, old: &ToolSettings, new: &ToolSettings, found: &mut Vec<PolicyDifference>) {
    let (effect, what) = match (&old.hosts, &new.hosts) {
        (None, None) => return,
        (Some(old), Some(new)) => {
            return compare_allowed_hosts(&format!("{name}: allowed host"), old, new, found);
        }
        (None, Some(_)) => (PolicyEffect::Tightens, "may reach listed hosts only"),
        (Some(_), None) => (PolicyEffect::Loosens, "may reach every host that the gateway allows"),
    };
    add_difference(found, effect, format!("{name} {what}"), None);
}
