//! Compares two policies and classifies each difference as tightening or loosening.
//!
//! Access per mode is compared by its result (runs, needs approval, denied); lists and numbers are compared
//! by what they state. A change whose direction cannot be determined counts as loosening, so that the
//! operator reviews it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use governance::files::{RunningCalls, SecretAction};
use governance::rules::{
    EffectivePolicy, GatewayRules, HostRule, ModeRules, PrivateAddressRule, SafetyRules, SecretRule,
};
use governance::{Policy, Workspaces};
use serde::Serialize;
use tool::{Mode, RuleRef, ToolDefinition};

use self::per_tool::ComparedLayer;

mod per_tool;
mod projects;

pub use projects::compare_projects;

/// Direction of a policy change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyEffect {
    /// Allows less than before.
    Tightens,
    /// Has no effect on decisions.
    Neutral,
    /// Allows more than before, or the direction cannot be determined.
    Loosens,
}

/// One difference between two policies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyDifference {
    /// Direction of the change.
    pub effect: PolicyEffect,
    /// Description for a person.
    pub description: String,
    /// Rule in the new policy, or in the old one if it was removed.
    pub rule: Option<RuleRef>,
}

/// Returns every difference that the new policy makes for these tools. Empty if the files have the same text
/// and the same meaning; the meaning can differ alone, because symbolic links in path patterns are resolved
/// at load. `workspaces` are those of the old policy, where a tool without a list of paths may work.
pub fn compare_policies<'a>(
    (old, new): (&Policy, &Policy),
    workspaces: &Workspaces,
    definitions: impl IntoIterator<Item = &'a ToolDefinition>,
) -> Vec<PolicyDifference> {
    let mut found = Vec::new();
    for definition in definitions {
        let (before, after) = (EffectivePolicy::new(old, definition), EffectivePolicy::new(new, definition));
        per_tool::compare_modes(&before, &after, &mut found);
        per_tool::compare_rules(&before, &after, ComparedLayer::Home(workspaces), &mut found);
    }
    for mode in Mode::ALL {
        compare_mode(old, new, mode, &mut found);
    }
    compare_gateway(old, new, &mut found);
    compare_secrets(old, new, &mut found);
    compare_transitions(old, new, &mut found);
    compare_sessions(old, new, &mut found);
    if found.is_empty() && old.hash() != new.hash() {
        let description = "the files differ, but the differences change nothing".to_owned();
        found.push(PolicyDifference { effect: PolicyEffect::Neutral, description, rule: None });
    }
    found
}

/// Compares the settings of a mode, except those that `compare_modes` covers for each tool.
fn compare_mode(old: &Policy, new: &Policy, mode: Mode, found: &mut Vec<PolicyDifference>) {
    let limit = |number: &Option<(u32, RuleRef)>| number.as_ref().map(|(most, _)| u64::from(*most));
    // Destructured without `..`, so that a new field cannot be forgotten here.
    let stated = |policy: &Policy| {
        let ModeRules {
            max_concurrent,
            categories: _,
            approvals: _,
            running_calls: running,
            monitored: watched,
        } = policy.mode_rules(mode);
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
            RankedSetting::new(
                "running calls on entry",
                ["are cancelled", "finish"],
                usize::from(*running == RunningCalls::Finish),
            ),
            RankedSetting::new("system monitoring", ["is on", "is off"], usize::from(!*watched)),
        ];
        (numbers, steps)
    };
    let ((old_numbers, old_steps), (new_numbers, new_steps)) = (stated(old), stated(new));
    for ((what, old), (_, new)) in old_numbers.into_iter().zip(new_numbers) {
        compare_limits(&format!("{mode}: {what}"), old, new, found);
    }
    for (old, new) in old_steps.iter().zip(&new_steps) {
        compare_ranked(&format!("{mode}: "), old, new, found);
    }
}

fn compare_gateway(old: &Policy, new: &Policy, found: &mut Vec<PolicyDifference>) {
    let seconds = |policy: &Policy| Some(policy.approval_timeout().as_secs());
    compare_limits("approval timeout in seconds", seconds(old), seconds(new), found);
    // `compare_modes` compares `approval_rule` as part of the access of each tool.
    let GatewayRules { allowed, blocked, private_addresses: private, approval_rule: _, max_response_bytes } =
        &*old.safety_rules().gateway;
    let after = &new.safety_rules().gateway;
    compare_allowed_hosts(
        "gateway: allowed host",
        &host_texts(&allowed.hosts),
        &host_texts(&after.allowed.hosts),
        found,
    );
    compare_lists(
        "gateway: blocked host",
        &host_texts(blocked),
        &host_texts(&after.blocked),
        LoosenedBy::Removal,
        found,
    );
    let open = |private: &PrivateAddressRule| {
        let is_open = matches!(private, PrivateAddressRule::Allowed);
        RankedSetting::new("the local network", ["is closed", "is open"], usize::from(is_open))
    };
    compare_ranked("gateway: ", &open(private), &open(&after.private_addresses), found);
    compare_limits("gateway: largest response", *max_response_bytes, after.max_response_bytes, found);
}

/// Compares lists of allowed hosts by what they allow: `docs.rs` in place of `*` tightens.
fn compare_allowed_hosts(
    what: &str,
    old: &RuleTexts<String>,
    new: &RuleTexts<String>,
    found: &mut Vec<PolicyDifference>,
) {
    compare_coverage(what, old, new, LoosenedBy::Addition, &|wide, narrow| host_covers(wide, narrow), found);
}

/// Returns true if every host that the second pattern allows is allowed by the first.
fn host_covers(wide: &str, narrow: &str) -> bool {
    let below = wide.strip_prefix('*').filter(|rest| rest.starts_with('.'));
    let is_below = |rest: &str| narrow.trim_start_matches("*.").ends_with(rest) && narrow.len() > rest.len();
    wide == "*" || wide == narrow || below.is_some_and(is_below)
}

/// Compares two lists by what their entries match. An entry that the other list covers changes nothing.
fn compare_coverage<K: Ord + Clone>(
    what: &str,
    old: &RuleTexts<K>,
    new: &RuleTexts<K>,
    wide: LoosenedBy,
    covers: &dyn Fn(&K, &K) -> bool,
    found: &mut Vec<PolicyDifference>,
) {
    let keep = |list: &RuleTexts<K>, other: &RuleTexts<K>| {
        let is_covered = |key: &K| other.keys().any(|wide| covers(wide, key));
        let kept = list.iter().filter(|(key, _)| other.contains_key(*key) || !is_covered(key));
        kept.map(|(key, text)| (key.clone(), text.clone())).collect::<RuleTexts<K>>()
    };
    compare_lists(what, &keep(old, new), &keep(new, old), wide, found);
}

fn host_texts(list: &[HostRule]) -> RuleTexts<String> {
    rule_texts(list.iter().map(|host| (host.pattern.to_string(), host.rule.clone())))
}

fn compare_secrets(old: &Policy, new: &Policy, found: &mut Vec<PolicyDifference>) {
    let ranked = |secret: &SecretRule| {
        let rank = match secret.action {
            SecretAction::Block => 0,
            SecretAction::Redact => 1,
            SecretAction::Warn => 2,
        };
        RankedSetting::new("it", ["is blocked", "is redacted", "is only logged"], rank)
    };
    let shown = |secret: &SecretRule| format!("{} `{}`", secret.name, secret.pattern);
    let of = |policy: &Policy| rule_texts(policy.secrets().map(|secret| (shown(&secret), secret.rule)));
    compare_lists("secret", &of(old), &of(new), LoosenedBy::Removal, found);
    for secret in new.secrets() {
        let text = shown(&secret);
        if let Some(before) = old.secrets().find(|before| shown(before) == text) {
            compare_ranked(&format!("secret {text}: "), &ranked(&before), &ranked(&secret), found);
        }
    }
}

fn compare_transitions(old: &Policy, new: &Policy, found: &mut Vec<PolicyDifference>) {
    let of = |policy: &Policy, loosening: bool| {
        let transitions = policy.transitions();
        let rules = transitions.rules().iter().filter(|rule| rule.loosens() == loosening);
        rule_texts(rules.map(|rule| (rule.to_string(), rule.location.clone())))
    };
    compare_lists(
        "transition to a less strict mode",
        &of(old, true),
        &of(new, true),
        LoosenedBy::Addition,
        found,
    );
    compare_lists(
        "transition to a stricter mode",
        &of(old, false),
        &of(new, false),
        LoosenedBy::Removal,
        found,
    );
}

fn compare_sessions(old: &Policy, new: &Policy, found: &mut Vec<PolicyDifference>) {
    let (old, new) = (&old.files().safety.sessions, &new.files().safety.sessions);
    compare_limits(
        "hop budget of a worker",
        old.hop_budget.map(u64::from),
        new.hop_budget.map(u64::from),
        found,
    );
    if format!("{:?}", old.cost_cap) != format!("{:?}", new.cost_cap) {
        add_difference(found, PolicyEffect::Loosens, "the cost cap of a turn has changed".to_owned(), None);
    }
}

/// Kind of list change that loosens the policy.
#[derive(Clone, Copy)]
enum LoosenedBy {
    Addition,
    Removal,
}

/// Rule entries by the value they are compared by, each with its display text and its location.
type RuleTexts<K> = BTreeMap<K, (String, RuleRef)>;

fn compare_lists<K: Ord>(
    what: &str,
    old: &RuleTexts<K>,
    new: &RuleTexts<K>,
    wide: LoosenedBy,
    found: &mut Vec<PolicyDifference>,
) {
    let (added, removed) = match wide {
        LoosenedBy::Addition => (PolicyEffect::Loosens, PolicyEffect::Tightens),
        LoosenedBy::Removal => (PolicyEffect::Tightens, PolicyEffect::Loosens),
    };
    for (_, (text, rule)) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
        add_difference(found, added, format!("{what} added: {text}"), Some(rule.clone()));
    }
    for (_, (text, rule)) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
        add_difference(found, removed, format!("{what} removed: {text}"), Some(rule.clone()));
    }
}

/// Returns entries that are compared by their display text.
fn rule_texts(list: impl IntoIterator<Item = (String, RuleRef)>) -> RuleTexts<String> {
    list.into_iter().map(|(text, rule)| (text.clone(), (text, rule))).collect()
}

/// Compares a limit; `None` means that there is none.
fn compare_limits(what: &str, old: Option<u64>, new: Option<u64>, found: &mut Vec<PolicyDifference>) {
    if old == new {
        return;
    }
    let shown = |number: Option<u64>| number.map_or("no limit".to_owned(), |number| number.to_string());
    let loosens = old.is_some_and(|old| new.is_none_or(|new| new > old));
    let effect = if loosens { PolicyEffect::Loosens } else { PolicyEffect::Tightens };
    add_difference(found, effect, format!("{what}: {} becomes {}", shown(old), shown(new)), None);
}

/// Setting with ordered values, the strictest first.
struct RankedSetting {
    subject: &'static str,
    values: Vec<&'static str>,
    rank: usize,
}

impl RankedSetting {
    fn new<const N: usize>(what: &'static str, names: [&'static str; N], at: usize) -> Self {
        RankedSetting { subject: what, values: names.to_vec(), rank: at }
    }

    fn value(&self) -> &'static str {
        self.values.get(self.rank).copied().unwrap_or_default()
    }
}

fn compare_ranked(owner: &str, old: &RankedSetting, new: &RankedSetting, found: &mut Vec<PolicyDifference>) {
    let effect = match new.rank.cmp(&old.rank) {
        Ordering::Less => PolicyEffect::Tightens,
        Ordering::Equal => return,
        Ordering::Greater => PolicyEffect::Loosens,
    };
    add_difference(
        found,
        effect,
        format!("{owner}{} {} (before: {})", new.subject, new.value(), old.value()),
        None,
    );
}

fn add_difference(
    found: &mut Vec<PolicyDifference>,
    effect: PolicyEffect,
    description: String,
    rule: Option<RuleRef>,
) {
    found.push(PolicyDifference { effect, description, rule });
}

#[cfg(test)]
mod tests;
