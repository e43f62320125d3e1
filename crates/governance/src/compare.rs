//! What a new policy changes against an old one, and whether that tightens or loosens.
//!
//! What runs, asks or is denied in each mode is compared by its result; lists and numbers by what they state. Where it
//! cannot be told which way a change goes, it loosens: a human then looks at it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::Serialize;
use tool::{Mode, RuleRef, ToolDefinition};

use crate::files::{RunningCalls, SecretAction};
use crate::host_rules::{Gateway, HostRule, Private};
use crate::mode_rules::ModeRules;
use crate::policy::Policy;
use crate::safety_rules::SafetyRules;
use crate::standing::Standing;

mod one_tool;

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

/// Everything a new policy changes for these tools. Empty if the files are the same, and mean the same: what their paths
/// lead to stands in no file.
pub fn compare<'a>(
    old: &Policy,
    new: &Policy,
    definitions: impl IntoIterator<Item = &'a ToolDefinition>,
) -> Vec<Difference> {
    let mut found = Vec::new();
    for definition in definitions {
        let (before, after) = (Standing::of(old, definition), Standing::of(new, definition));
        one_tool::compare_modes(&before, &after, &mut found);
        one_tool::compare_rules(&before, &after, &mut found);
    }
    for mode in Mode::ALL {
        compare_mode(old, new, mode, &mut found);
    }
    compare_gateway(old, new, &mut found);
    compare_secrets(old, new, &mut found);
    compare_transitions(old, new, &mut found);
    compare_sessions(old, new, &mut found);
    if found.is_empty() && old.hash() != new.hash() {
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

/// What a mode states, but for what shows in how far each tool comes.
fn compare_mode(old: &Policy, new: &Policy, mode: Mode, found: &mut Vec<Difference>) {
    let limit = |number: &Option<(u32, RuleRef)>| number.as_ref().map(|(most, _)| u64::from(*most));
    // Taken apart to the last field, so that none is forgotten.
    let stated = |policy: &Policy| {
        let ModeRules { max_concurrent, categories: _, approvals: _, running, watched } =
            policy.modes.get(mode);
        let SafetyRules {
            calls_per_minute,
            outbound_per_hour,
            gateway: _,
            approvals: _,
            approval_timeout: _,
        } = &policy.safety;
        let numbers = [
            ("calls at once", limit(max_concurrent)),
            ("calls a minute", limit(calls_per_minute.get(mode))),
            ("calls that leave the machine, an hour", limit(outbound_per_hour.get(mode))),
        ];
        let steps = [
            Step::new(
                "running calls when it begins",
                ["are cancelled", "finish"],
                usize::from(*running == RunningCalls::Finish),
            ),
            Step::new("the machine", ["is watched", "is not watched"], usize::from(!*watched)),
        ];
        (numbers, steps)
    };
    let ((old_numbers, old_steps), (new_numbers, new_steps)) = (stated(old), stated(new));
    for ((what, old), (_, new)) in old_numbers.into_iter().zip(new_numbers) {
        numbers(&format!("{mode}: {what}"), old, new, found);
    }
    for (old, new) in old_steps.iter().zip(&new_steps) {
        steps(&format!("{mode}: "), old, new, found);
    }
}

fn compare_gateway(old: &Policy, new: &Policy, found: &mut Vec<Difference>) {
    let seconds = |policy: &Policy| Some(policy.approval_timeout().as_secs());
    numbers("time a human is waited for", seconds(old), seconds(new), found);
    // Whether a human is asked shows in how far each tool comes.
    let Gateway { allowed, blocked, private, asks: _, max_response_bytes } = &*old.safety.gateway;
    let after = &new.safety.gateway;
    lists("gateway: allowed host", &hosts(&allowed.hosts), &hosts(&after.allowed.hosts), Wide::Adds, found);
    lists("gateway: blocked host", &hosts(blocked), &hosts(&after.blocked), Wide::Removes, found);
    let open = |private: &Private| {
        let is_open = matches!(private, Private::Allowed);
        Step::new("the local network", ["is closed", "is open"], usize::from(is_open))
    };
    steps("gateway: ", &open(private), &open(&after.private), found);
    numbers("gateway: largest response", *max_response_bytes, after.max_response_bytes, found);
}

fn hosts(list: &[HostRule]) -> Entries<String> {
    entries(list.iter().map(|host| (host.pattern.to_string(), host.rule.clone())))
}

fn compare_secrets(old: &Policy, new: &Policy, found: &mut Vec<Difference>) {
    let of = |policy: &Policy| {
        let shown = |action| match action {
            SecretAction::Block => "block",
            SecretAction::Redact => "redact",
            SecretAction::Warn => "warn",
        };
        entries(
            policy.secrets().map(|s| (format!("{} ({}) `{}`", s.name, shown(s.action), s.pattern), s.rule)),
        )
    };
    lists("secret", &of(old), &of(new), Wide::Removes, found);
}

fn compare_transitions(old: &Policy, new: &Policy, found: &mut Vec<Difference>) {
    let of = |policy: &Policy, loosening: bool| {
        let rules = policy.transitions.rules.iter().filter(|rule| rule.loosens() == loosening);
        entries(rules.map(|rule| (rule.to_string(), rule.place.clone())))
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

/// Entries by what they state; each with its words for a reader, and its place.
type Entries<K> = BTreeMap<K, (String, RuleRef)>;

fn lists<K: Ord>(what: &str, old: &Entries<K>, new: &Entries<K>, wide: Wide, found: &mut Vec<Difference>) {
    let (added, removed) = match wide {
        Wide::Adds => (Effect::Loosens, Effect::Tightens),
        Wide::Removes => (Effect::Tightens, Effect::Loosens),
    };
    for (_, (text, rule)) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
        push(found, added, format!("{what} added: {text}"), Some(rule.clone()));
    }
    for (_, (text, rule)) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
        push(found, removed, format!("{what} removed: {text}"), Some(rule.clone()));
    }
}

/// Entries that are nothing but their words.
fn entries(list: impl IntoIterator<Item = (String, RuleRef)>) -> Entries<String> {
    list.into_iter().map(|(text, rule)| (text.clone(), (text, rule))).collect()
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

/// What is one of a few things, the tightest first.
struct Step {
    what: &'static str,
    names: Vec<&'static str>,
    at: usize,
}

impl Step {
    fn new<const N: usize>(what: &'static str, names: [&'static str; N], at: usize) -> Self {
        Step { what, names: names.to_vec(), at }
    }

    fn name(&self) -> &'static str {
        self.names.get(self.at).copied().unwrap_or_default()
    }
}

fn steps(whose: &str, old: &Step, new: &Step, found: &mut Vec<Difference>) {
    let effect = match new.at.cmp(&old.at) {
        Ordering::Less => Effect::Tightens,
        Ordering::Equal => return,
        Ordering::Greater => Effect::Loosens,
    };
    push(found, effect, format!("{whose}{} {} (before: {})", new.what, new.name(), old.name()), None);
}

fn push(found: &mut Vec<Difference>, effect: Effect, what: String, rule: Option<RuleRef>) {
    found.push(Difference { effect, what, rule });
}

#[cfg(test)]
mod tests;
