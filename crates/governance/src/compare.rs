//! What a new policy changes against an old one, and whether that tightens or loosens.
//!
//! What runs, asks or is denied in each mode is compared by its result; lists and numbers by what they state. Where it
//! cannot be told which way a change goes, it loosens: a human then looks at it.

use std::collections::BTreeMap;

use serde::Serialize;
use tool::{Mode, RuleRef, ToolDefinition};

use crate::files::{HardLinks, Network, RunningCalls, SecretAction};
use crate::host_rules::{HostRule, Private};
use crate::policy::Policy;
use crate::standing::{Attendance, Standing};
use crate::tool_rules::ToolRules;
use crate::trail::{Notes, Trail};

/// Which way a change goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Less can happen than before.
    Tightens,
    /// Nothing happens otherwise.
    Neutral,
    /// More can happen than before, or nobody can say.
    Loosens,
}

/// One thing that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which way it goes.
    pub effect: Effect,
    /// What changed, in words.
    pub what: String,
    /// The rule in the new policy, or in the old one if it is gone.
    pub rule: Option<RuleRef>,
}

/// Everything a new policy changes for these tools. Empty if the files are the same.
pub fn compare<'a>(
    old: &Policy,
    new: &Policy,
    definitions: impl IntoIterator<Item = &'a ToolDefinition>,
) -> Vec<Difference> {
    if old.hash() == new.hash() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for definition in definitions {
        let (before, after) = (Standing::of(old, definition), Standing::of(new, definition));
        compare_modes(&before, &after, &mut found);
        compare_tool(definition.name().as_str(), before.rules, after.rules, &mut found);
    }
    for mode in Mode::ALL {
        compare_mode(old, new, mode, &mut found);
    }
    compare_gateway(old, new, &mut found);
    compare_secrets(old, new, &mut found);
    compare_transitions(old, new, &mut found);
    compare_sessions(old, new, &mut found);
    if found.is_empty() {
        let what = "only words that change nothing".to_owned();
        found.push(Difference { effect: Effect::Neutral, what, rule: None });
    }
    found
}

impl Policy {
    /// The same rules on the machine of another policy, so that the two differ by their rules alone.
    pub fn on_the_machine_of(self, other: &Policy) -> Self {
        let isolation = other.isolation;
        self.on_machine_with(isolation)
    }
}

/// How far a tool comes in a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Denied,
    Asks,
    Runs,
}

fn compare_modes(before: &Standing<'_>, after: &Standing<'_>, found: &mut Vec<Difference>) {
    for mode in Mode::ALL {
        let ((old, _), (new, rule)) = (level(before, mode), level(after, mode));
        let words = |level| match level {
            Level::Denied => "is denied",
            Level::Asks => "asks a human",
            Level::Runs => "runs by itself",
        };
        let effect = match new.cmp(&old) {
            std::cmp::Ordering::Less => Effect::Tightens,
            std::cmp::Ordering::Equal => continue,
            std::cmp::Ordering::Greater => Effect::Loosens,
        };
        let what =
            format!("{} in {mode}: {}, where it {} before", after.definition.name(), words(new), words(old));
        found.push(Difference { effect, what, rule });
    }
}

fn level(standing: &Standing<'_>, mode: Mode) -> (Level, Option<RuleRef>) {
    let mut trail = Trail::off();
    let mut notes = Notes::on(&mut trail);
    match standing.admit_without_rates(mode, &mut notes) {
        Err(grounds) => (Level::Denied, grounds.rule().cloned()),
        Ok(()) => match standing.approvals(mode, Attendance::Asked, &mut notes).into_iter().next() {
            Some(rule) => (Level::Asks, Some(rule)),
            None => (Level::Runs, notes.passed.first().cloned()),
        },
    }
}

fn compare_tool(name: &str, old: Option<&ToolRules>, new: Option<&ToolRules>, found: &mut Vec<Difference>) {
    let paths = |rules: Option<&ToolRules>| {
        let list = rules?.allowed_paths.as_ref()?;
        let written = list.globs.written().iter();
        Some(written.map(|w| (w.pattern.to_string(), w.rule.clone())).collect::<BTreeMap<_, _>>())
    };
    // Without a list the workspaces hold, so that a list which appears or goes away may lead anywhere new.
    match (paths(old), paths(new)) {
        (None, Some(list)) if list.is_empty() => {
            push(found, Effect::Tightens, format!("{name} may go nowhere"), None);
        }
        (None, Some(list)) => {
            let rule = list.into_values().next();
            push(found, Effect::Loosens, format!("{name} leaves the workspaces for a list of paths"), rule);
        }
        (Some(_), None) => push(found, Effect::Loosens, format!("{name} may go into all workspaces"), None),
        (old, new) => {
            lists(
                &format!("{name}: allowed path"),
                &old.unwrap_or_default(),
                &new.unwrap_or_default(),
                Wide::Adds,
                found,
            );
        }
    }
    let forbidden = |rules: Option<&ToolRules>| -> BTreeMap<String, RuleRef> {
        let written = rules.into_iter().flat_map(|rules| rules.forbidden_paths.written());
        written.map(|w| (w.pattern.to_string(), w.rule.clone())).collect()
    };
    lists(&format!("{name}: forbidden path"), &forbidden(old), &forbidden(new), Wide::Removes, found);
    let unattended = |rules: Option<&ToolRules>| -> BTreeMap<String, RuleRef> {
        let written = rules.into_iter().flat_map(|rules| rules.unattended.written());
        written.map(|w| (w.pattern.to_string(), w.rule.clone())).collect()
    };
    lists(&format!("{name}: unattended path"), &unattended(old), &unattended(new), Wide::Adds, found);
    compare_outward(name, old, new, found);
    let number = |get: fn(&ToolRules) -> Option<u64>| (old.and_then(get), new.and_then(get));
    for (what, (old, new)) in [
        ("largest file", number(|rules| rules.max_file_bytes.as_ref().map(|(most, _)| *most))),
        ("calls an hour", number(|rules| rules.rate.as_ref().map(|(most, _)| u64::from(*most)))),
        ("time to run", number(|rules| rules.timeout.map(|time| time.as_secs()))),
        ("largest answer", number(|rules| rules.max_output_bytes)),
        ("memory", number(|rules| rules.confinement.memory_mb.map(u64::from))),
        ("processes", number(|rules| rules.confinement.max_processes.map(u64::from))),
        ("processor time", number(|rules| rules.confinement.cpu_seconds.map(u64::from))),
    ] {
        numbers(&format!("{name}: {what}"), old, new, found);
    }
    let word = |get: fn(&ToolRules) -> u8| (old.map_or(0, get), new.map_or(0, get));
    for (what, (old, new)) in [
        ("files with several names", word(|rules| u8::from(rules.hard_links == HardLinks::Allow))),
        ("rules that only record", word(|rules| u8::from(rules.shadow.is_some()))),
        (
            "network",
            word(|rules| match rules.confinement.network {
                Network::Off => 0,
                Network::Loopback => 1,
                Network::Full => 2,
            }),
        ),
    ] {
        numbers(&format!("{name}: {what}"), Some(old.into()), Some(new.into()), found);
    }
}

fn compare_outward(
    name: &str,
    old: Option<&ToolRules>,
    new: Option<&ToolRules>,
    found: &mut Vec<Difference>,
) {
    let allowed = |rules: Option<&ToolRules>| -> BTreeMap<String, RuleRef> {
        let list = rules.and_then(|rules| rules.commands.allowed.as_ref());
        list.iter().flat_map(|list| &list.rules).map(|rule| (rule.to_string(), rule.rule.clone())).collect()
    };
    lists(&format!("{name}: allowed command"), &allowed(old), &allowed(new), Wide::Adds, found);
    let forbidden = |rules: Option<&ToolRules>| -> BTreeMap<String, RuleRef> {
        let rules = rules.into_iter().flat_map(|rules| &rules.commands.forbidden);
        rules.map(|rule| (rule.to_string(), rule.rule.clone())).collect()
    };
    lists(&format!("{name}: forbidden command"), &forbidden(old), &forbidden(new), Wide::Removes, found);
    let own = |rules: Option<&ToolRules>| {
        rules.and_then(|rules| rules.hosts.as_deref()).map(|list| hosts(&list.hosts))
    };
    match (own(old), own(new)) {
        (None, Some(_)) => push(found, Effect::Tightens, format!("{name} may go to listed hosts only"), None),
        (Some(_), None) => {
            push(found, Effect::Loosens, format!("{name} may go wherever the gateway lets"), None)
        }
        (old, new) => {
            let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
            lists(&format!("{name}: allowed host"), &old, &new, Wide::Adds, found);
        }
    }
}

fn compare_mode(old: &Policy, new: &Policy, mode: Mode, found: &mut Vec<Difference>) {
    let limit = |number: &Option<(u32, RuleRef)>| number.as_ref().map(|(most, _)| u64::from(*most));
    let (before, after) = (old.modes.get(mode), new.modes.get(mode));
    let (rates_before, rates_after) = (&old.safety, &new.safety);
    for (what, old, new) in [
        ("calls at once", limit(&before.max_concurrent), limit(&after.max_concurrent)),
        (
            "calls a minute",
            limit(rates_before.calls_per_minute.get(mode)),
            limit(rates_after.calls_per_minute.get(mode)),
        ),
        (
            "calls that leave the machine, an hour",
            limit(rates_before.outbound_per_hour.get(mode)),
            limit(rates_after.outbound_per_hour.get(mode)),
        ),
    ] {
        numbers(&format!("{mode}: {what}"), old, new, found);
    }
    let finishes = |running: RunningCalls| u64::from(running == RunningCalls::Finish);
    numbers(
        &format!("{mode}: running calls that finish"),
        Some(finishes(before.running)),
        Some(finishes(after.running)),
        found,
    );
    numbers(
        &format!("{mode}: unwatched"),
        Some(u64::from(!before.watched)),
        Some(u64::from(!after.watched)),
        found,
    );
}

fn compare_gateway(old: &Policy, new: &Policy, found: &mut Vec<Difference>) {
    let (old, new) = (&old.safety.gateway, &new.safety.gateway);
    lists("gateway: allowed host", &hosts(&old.allowed.hosts), &hosts(&new.allowed.hosts), Wide::Adds, found);
    lists("gateway: blocked host", &hosts(&old.blocked), &hosts(&new.blocked), Wide::Removes, found);
    let open = |private: &Private| match private {
        Private::Allowed => Some(1),
        Private::Denied(_) => Some(0),
    };
    numbers("gateway: the local network", open(&old.private), open(&new.private), found);
    numbers("gateway: largest response", old.max_response_bytes, new.max_response_bytes, found);
}

fn hosts(list: &[HostRule]) -> BTreeMap<String, RuleRef> {
    list.iter().map(|host| (host.pattern.to_string(), host.rule.clone())).collect()
}

fn compare_secrets(old: &Policy, new: &Policy, found: &mut Vec<Difference>) {
    let of = |policy: &Policy| -> BTreeMap<String, RuleRef> {
        let shown = |action| match action {
            SecretAction::Block => "block",
            SecretAction::Redact => "redact",
            SecretAction::Warn => "warn",
        };
        policy
            .secrets()
            .map(|s| (format!("{} ({}) `{}`", s.name, shown(s.action), s.pattern), s.rule))
            .collect()
    };
    lists("secret", &of(old), &of(new), Wide::Removes, found);
}

fn compare_transitions(old: &Policy, new: &Policy, found: &mut Vec<Difference>) {
    let of = |policy: &Policy, loosening: bool| -> BTreeMap<String, RuleRef> {
        let rules = policy.transitions.rules.iter().filter(|rule| rule.loosens() == loosening);
        let shown = |rule: &crate::transitions::Rule| {
            format!(
                "{} to {} when {:?} of {:?}, {:?}",
                rule.from, rule.to, rule.logic, rule.conditions, rule.gate
            )
        };
        rules.map(|rule| (shown(rule), rule.place.clone())).collect()
    };
    lists("way back to a milder mode", &of(old, true), &of(new, true), Wide::Adds, found);
    lists("way to a stricter mode", &of(old, false), &of(new, false), Wide::Removes, found);
}

fn compare_sessions(old: &Policy, new: &Policy, found: &mut Vec<Difference>) {
    let (old, new) = (&old.files().safety.sessions, &new.files().safety.sessions);
    numbers(
        "calls of a worker in a turn",
        old.hop_budget.map(u64::from),
        new.hop_budget.map(u64::from),
        found,
    );
    if format!("{:?}", old.cost_cap) != format!("{:?}", new.cost_cap) {
        push(found, Effect::Loosens, "what a turn may cost has changed".to_owned(), None);
    }
}

/// Which change of a list makes more possible.
#[derive(Clone, Copy)]
enum Wide {
    Adds,
    Removes,
}

fn lists(
    what: &str,
    old: &BTreeMap<String, RuleRef>,
    new: &BTreeMap<String, RuleRef>,
    wide: Wide,
    found: &mut Vec<Difference>,
) {
    let (added, removed) = match wide {
        Wide::Adds => (Effect::Loosens, Effect::Tightens),
        Wide::Removes => (Effect::Tightens, Effect::Loosens),
    };
    for (text, rule) in new.iter().filter(|(text, _)| !old.contains_key(*text)) {
        push(found, added, format!("{what} added: {text}"), Some(rule.clone()));
    }
    for (text, rule) in old.iter().filter(|(text, _)| !new.contains_key(*text)) {
        push(found, removed, format!("{what} removed: {text}"), Some(rule.clone()));
    }
}

/// A limit; `None` means that there is none.
fn numbers(what: &str, old: Option<u64>, new: Option<u64>, found: &mut Vec<Difference>) {
    if old == new {
        return;
    }
    let shown = |number: Option<u64>| number.map_or("no limit".to_owned(), |number| number.to_string());
    let loosens = old.is_some_and(|old| new.is_none_or(|new| new > old));
    let effect = if loosens { Effect::Loosens } else { Effect::Tightens };
    push(found, effect, format!("{what}: {} becomes {}", shown(old), shown(new)), None);
}

fn push(found: &mut Vec<Difference>, effect: Effect, what: String, rule: Option<RuleRef>) {
    found.push(Difference { effect, what, rule });
}

#[cfg(test)]
mod tests;
