//! Compares two policies for one tool: its access in each mode, and the effective value of every limit.

use std::cmp::Ordering;
use std::path::PathBuf;

use governance::Confinement;
use governance::files::{HardLinks, Isolation, Network};
use governance::rules::{
    Access, Attendance, CommandRule, CommandRules, PathGlobs, PathList, Standing, ToolRules, Written, quoted,
};
use tool::{Mode, RiskLevel, RuleRef};

use super::{Difference, Effect, Entries, Step, Wide, entries, hosts, lists, numbers, push, steps};
/// Compares the access of the tool in each mode, with approval and on paths where its own approval is waived.
pub(super) fn compare_modes(before: &Standing<'_>, after: &Standing<'_>, found: &mut Vec<Difference>) {
    compare_levels(before, after, Attendance::Asked, found);
    if after.rules.is_some_and(|rules| !rules.unattended.written().is_empty()) {
        compare_levels(before, after, Attendance::LeftOut, found);
    }
}

fn compare_levels(
    before: &Standing<'_>,
    after: &Standing<'_>,
    attendance: Attendance,
    found: &mut Vec<Difference>,
) {
    let place = match attendance {
        Attendance::Asked => "",
        Attendance::LeftOut => " on unattended paths",
    };
    for mode in Mode::ALL {
        let ((old, _), (new, rule)) = (before.access(mode, attendance), after.access(mode, attendance));
        let words = |access| match access {
            Access::Denied => "is denied",
            Access::Asks => "requires approval",
            Access::Runs => "runs without approval",
        };
        let effect = match new.cmp(&old) {
            Ordering::Less => Effect::Tightens,
            Ordering::Equal => continue,
            Ordering::Greater => Effect::Loosens,
        };
        let name = after.definition.name();
        let what = format!("{name} in {mode}{place}: {} (before: {})", words(new), words(old));
        push(found, effect, what, rule);
    }
}

/// Effective settings of a tool besides its modes, from the policy file or from its definition.
#[derive(Default)]
struct Sheet {
    /// `None` where the workspaces apply.
    allowed_paths: Option<Entries<String>>,
    forbidden_paths: Entries<String>,
    unattended: Entries<String>,
    program_folders: Entries<String>,
    allowed_commands: Entries<Vec<Vec<String>>>,
    forbidden_commands: Entries<Vec<Vec<String>>>,
    /// `None` where only the gateway applies.
    hosts: Option<Entries<String>>,
    /// Limits by name; `None` means no limit. A higher value is looser.
    numbers: Vec<(&'static str, Option<u64>)>,
    steps: Vec<Step>,
    /// Cost of a call in the budget of a worker session. A lower value is looser.
    price: f64,
}

impl Sheet {
    fn of(standing: &Standing<'_>) -> Self {
        let (mut numbers, mut sheet) = (effective(standing), Sheet::default());
        let mut confined = Confinement::default();
        let mut choices = (HardLinks::Refuse, false);
        // Destructured without `..`, so that a new field cannot be forgotten here.
        if let Some(ToolRules {
            // Compared as part of the access in each mode, the risk and the outbound route.
            category: _,
            allowed_modes: _,
            approval_modes: _,
            forbidden_modes: _,
            approval: _,
            sandbox: _,
            // Read through the effective policy, which knows the default where they are absent.
            max_file_bytes: _,
            timeout: _,
            rate: _,
            max_output_bytes: _,
            // Examples change no verdict.
            examples: _,
            cost,
            // Asked of the standing too: a list for every tool adds to it.
            forbidden_paths: _,
            allowed_paths,
            unattended,
            hard_links,
            commands,
            program_folders,
            hosts: own,
            confinement,
            shadow,
        }) = standing.rules
        {
            sheet.allowed_paths = allowed_paths.as_ref().map(|PathList { globs, .. }| paths(globs));
            sheet.unattended = paths(unattended);
            let CommandRules { allowed, forbidden, .. } = commands;
            sheet.allowed_commands = words(allowed.iter().flat_map(|list| &list.rules));
            sheet.forbidden_commands = words(forbidden);
            let named = |(folder, rule): &(PathBuf, RuleRef)| (folder.display().to_string(), rule.clone());
            sheet.program_folders = entries(program_folders.iter().map(named));
            sheet.hosts = own.as_deref().map(|list| hosts(&list.hosts));
            (confined, choices) = (*confinement, (*hard_links, shadow.is_some()));
            sheet.price = *cost;
        }
        sheet.forbidden_paths = paths(standing.forbidden_paths());
        let (links, shadow) = choices;
        let mut steps = ways(standing);
        let linked = usize::from(links == HardLinks::Allow);
        steps.push(Step::new(
            "files with several hard links",
            ["are refused unless every name is known and permitted", "are allowed"],
            linked,
        ));
        steps.push(Step::new("its rules", ["are enforced", "are only recorded"], usize::from(shadow)));
        steps.extend(wall_steps(&confined));
        numbers.extend(walls(&confined));
        Sheet { numbers, steps, ..sheet }
    }
}

/// Returns the effective limits, from the rules or from the definition.
fn effective(standing: &Standing<'_>) -> Vec<(&'static str, Option<u64>)> {
    vec![
        ("largest file", standing.max_file_bytes()),
        ("calls per hour", standing.per_hour().map(u64::from)),
        ("timeout in seconds", Some(standing.timeout().as_secs())),
        ("largest output", Some(standing.max_output_bytes())),
    ]
}

/// Returns the ranked settings of how the tool runs, from the rules or from the definition.
fn ways(standing: &Standing<'_>) -> Vec<Step> {
    let without_walls = standing.policy.asks_for_walls(standing.definition).is_none();
    let harmless = match standing.risk {
        RiskLevel::High => 0,
        RiskLevel::Medium => 1,
        RiskLevel::Low => 2,
    };
    vec![
        Step::new("it", ["runs sandboxed", "runs without a sandbox"], usize::from(without_walls)),
        Step::new("its risk level", ["is high", "is medium", "is low"], harmless),
        Step::new(
            "it",
            ["uses the outbound gateway", "bypasses the outbound gateway"],
            usize::from(!standing.goes_out()),
        ),
    ]
}

fn wall_steps(confinement: &Confinement) -> [Step; 2] {
    let network = match confinement.network {
        Network::Off => 0,
        Network::Loopback => 1,
        Network::Full => 2,
    };
    let reduced = usize::from(confinement.least == Isolation::Reduced);
    [
        Step::new("reduced isolation", ["is refused", "is accepted"], reduced),
        Step::new("the network of its programs", ["is off", "is a private loopback", "is open"], network),
    ]
}

fn walls(confinement: &Confinement) -> [(&'static str, Option<u64>); 3] {
    // `min_isolation` and `network` are compared as ranked settings.
    let Confinement { least: _, network: _, memory_mb: _, max_processes: _, cpu_seconds } = confinement;
    [
        ("memory", Some(confinement.memory_mebibytes().into())),
        ("processes", Some(confinement.processes().into())),
        ("processor time", cpu_seconds.filter(|seconds| *seconds > 0).map(u64::from)),
    ]
}

/// Keyed by the resolved path: a symbolic link with a new target changes a list whose text is unchanged.
fn paths(globs: &PathGlobs) -> Entries<String> {
    let written = globs.written().iter();
    let as_it_leads = written.clone().filter_map(|written| {
        let (spelling, text) = (written.as_it_leads()?.to_string(), &written.pattern);
        let words = format!("{spelling} (resolved from {text})");
        Some((spelling, (words, written.rule.clone())))
    });
    let as_written =
        entries(written.map(|Written { pattern, rule, .. }| (pattern.to_string(), rule.clone())));
    as_it_leads.chain(as_written).collect()
}

/// Keyed by the words themselves: two rules with the same display text may match differently.
fn words<'a>(rules: impl IntoIterator<Item = &'a CommandRule>) -> Entries<Vec<Vec<String>>> {
    let shown = |rule: &CommandRule| {
        let word = |choice: &Vec<String>| {
            let quoted: Vec<String> = choice.iter().map(|word| quoted(word)).collect();
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
pub(super) fn compare_rules(before: &Standing<'_>, after: &Standing<'_>, found: &mut Vec<Difference>) {
    let name = after.definition.name().as_str();
    let (old, new) = (Sheet::of(before), Sheet::of(after));
    // Without a list the workspaces apply, so a list that is added or removed may open any new path.
    match (&old.allowed_paths, &new.allowed_paths) {
        (None, Some(list)) if list.is_empty() => {
            push(found, Effect::Tightens, format!("{name} may access no path"), None);
        }
        (None, Some(list)) => {
            let rule = list.values().next().map(|(_, rule)| rule.clone());
            push(
                found,
                Effect::Loosens,
                format!("{name} may access a list of paths instead of the workspaces"),
                rule,
            );
        }
        (Some(_), None) => push(found, Effect::Loosens, format!("{name} may access all workspaces"), None),
        (Some(old), Some(new)) => lists(&format!("{name}: allowed path"), old, new, Wide::Adds, found),
        (None, None) => {}
    }
    let list = |what: &str| format!("{name}: {what}");
    lists(&list("forbidden path"), &old.forbidden_paths, &new.forbidden_paths, Wide::Removes, found);
    lists(&list("unattended path"), &old.unattended, &new.unattended, Wide::Adds, found);
    lists(&list("allowed command"), &old.allowed_commands, &new.allowed_commands, Wide::Adds, found);
    lists(&list("forbidden command"), &old.forbidden_commands, &new.forbidden_commands, Wide::Removes, found);
    lists(&list("program folder"), &old.program_folders, &new.program_folders, Wide::Adds, found);
    match (&old.hosts, &new.hosts) {
        (None, Some(_)) => push(found, Effect::Tightens, format!("{name} may reach listed hosts only"), None),
        (Some(_), None) => {
            push(
                found,
                Effect::Loosens,
                format!("{name} may reach every host that the gateway allows"),
                None,
            );
        }
        (Some(old), Some(new)) => lists(&list("allowed host"), old, new, Wide::Adds, found),
        (None, None) => {}
    }
    if let Some(way) = new.price.partial_cmp(&old.price).filter(|way| way.is_ne()) {
        let effect = if way.is_lt() { Effect::Loosens } else { Effect::Tightens };
        push(found, effect, format!("{name}: cost of a call: {} becomes {}", old.price, new.price), None);
    }
    for ((what, old), (_, new)) in old.numbers.into_iter().zip(new.numbers) {
        numbers(&list(what), old, new, found);
    }
    for (old, new) in old.steps.iter().zip(&new.steps) {
        steps(&list(""), old, new, found);
    }
}
