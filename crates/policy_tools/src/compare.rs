//! Compares two policies and classifies each difference as tightening or loosening.
//!
//! Access per mode is compared by its result (runs, needs approval, denied); lists and numbers are compared
//! by what they state. A change whose direction cannot be determined counts as loosening, so that the
//! operator reviews it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use governance::Policy;
use governance::files::{RunningCalls, SecretAction};
use governance::rules::{Gateway, HostRule, ModeRules, Private, SafetyRules, Standing};
use serde::Serialize;
use tool::{Mode, RuleRef, ToolDefinition};

mod one_tool;

/// Direction of a policy change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Allows less than before.
    Tightens,
    /// Has no effect on decisions.
    Neutral,
    /// Allows more than before, or the direction cannot be determined.
    Loosens,
}

/// One difference between two policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Direction of the change.
    pub effect: Effect,
    /// Description for a person.
    pub what: String,
    /// Rule in the new policy, or in the old one if it was removed.
    pub rule: Option<RuleRef>,
}

/// Returns every difference that the new policy makes for these tools. Empty if the files have the same text
/// and the same meaning; the meaning can differ alone, because symbolic links in path patterns are resolved
/// at load.
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
        let what = "the files differ, but the differences change nothing".to_owned();
        found.push(Difference { effect: Effect::Neutral, what, rule: None });
    }
    found
}

/// Compares the settings of a mode, except those that `compare_modes` covers for each tool.
fn compare_mode(old: &Policy, new: &Policy, mode: Mode, found: &mut Vec<Difference>) {
    let limit = |number: &Option<(u32, RuleRef)>| number.as_ref().map(|(most, _)| u64::from(*most));
    // Destructured without `..`, so that a new field cannot be forgotten here.
    let stated = |policy: &Policy| {
        let ModeRules { max_concurrent, categories: _, approvals: _, running, watched } =
            policy.mode_rules(mode);
        let SafetyRules {
            calls_per_minute,
            outbound_per_hour,
            gateway: _,
            approvals: _,
            approval_timeout: _,
        } = policy.safety_rules();
        let numbers = [
            ("concurrent calls", limit(max_concurrent)),
            ("calls per minute", limit(calls_per_minute.get(mode))),
            ("outbound calls per hour", limit(outbound_per_hour.get(mode))),
        ];
        let steps = [
            Step::new(
                "running calls on entry",
                ["are cancelled", "finish"],
                usize::from(*running == RunningCalls::Finish),
            ),
            Step::new("system monitoring", ["is on", "is off"], usize::from(!*watched)),
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
    numbers("approval timeout in seconds", seconds(old), seconds(new), found);
    // `asks` is compared by `compare_modes`, as part of the access of each tool.
    let Gateway { allowed, blocked, private, asks: _, max_response_bytes } = &*old.safety_rules().gateway;
    let after = &new.safety_rules().gateway;
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
        let transitions = policy.transitions();
        let rules = transitions.rules().iter().filter(|rule| rule.loosens() == loosening);
        entries(rules.map(|rule| (rule.to_string(), rule.place.clone())))
    };
    lists("transition to a less strict mode", &of(old, true), &of(new, true), Wide::Adds, found);
    lists("transition to a stricter mode", &of(old, false), &of(new, false), Wide::Removes, found);
}

fn compare_sessions(old: &Policy, new: &Policy, found: &mut Vec<Difference>) {
    let (old, new) = (&old.files().safety.sessions, &new.files().safety.sessions);
    numbers("hop budget of a worker", old.hop_budget.map(u64::from), new.hop_budget.map(u64::from), found);
    if format!("{:?}", old.cost_cap) != format!("{:?}", new.cost_cap) {
        push(found, Effect::Loosens, "the cost cap of a turn has changed".to_owned(), None);
    }
}

/// Kind of list change that loosens the policy.
#[derive(Clone, Copy)]
enum Wide {
    Adds,
    Removes,
}

/// Rule entries by the value they are compared by, each with its display text and its location.
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

/// Returns entries that are compared by their display text.
fn entries(list: impl IntoIterator<Item = (String, RuleRef)>) -> Entries<String> {
    list.into_iter().map(|(text, rule)| (text.clone(), (text, rule))).collect()
}

/// Compares a limit; `None` means that there is none.
fn numbers(what: &str, old: Option<u64>, new: Option<u64>, found: &mut Vec<Difference>) {
    if old == new {
        return;
    }
    let shown = |number: Option<u64>| number.map_or("no limit".to_owned(), |number| number.to_string());
    let loosens = old.is_some_and(|old| new.is_none_or(|new| new > old));
    let effect = if loosens { Effect::Loosens } else { Effect::Tightens };
    push(found, effect, format!("{what}: {} becomes {}", shown(old), shown(new)), None);
}

/// Setting with ordered values, the strictest first.
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
