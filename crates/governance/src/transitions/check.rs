//! Checks the transition rules of `modes.yaml`: every rule follows an edge, every number is usable, and
//! leaving a locked mode needs human approval.

use std::time::Duration;

use strict_yaml::Located;
use tool::Mode;

use super::edges::{is_rule_edge, needs_human_to_leave, rule_targets};
use super::{TransitionApproval, TransitionCondition, TransitionRule, Transitions};
use crate::files::{self, Operator};
use crate::modes_file::{ModesFile, TransitionEntry};
use crate::problems::{FileInspection, suggest_mode};

/// Window of a counted metric where the file sets none.
const DEFAULT_WINDOW: Duration = Duration::from_secs(60);
/// Longest window and duration in seconds. Counted events are kept for this long.
const MAX_SPAN_SECONDS: u64 = 60 * 60;

/// Checks the rules. `None` where the file has no `transition_rules`: the built-in rules then apply.
pub(crate) fn check(file: &ModesFile, inspection: &mut FileInspection<'_>) -> Option<Transitions> {
    let table = file.transition_rules.as_ref()?;
    let rules = table.iter().filter_map(|(key, entry)| check_rule(key, entry, inspection));
    let transitions = Transitions::sorted(rules.collect());
    for (key, entry) in table.iter() {
        warn_about_oscillation(key, entry, transitions.rules(), inspection);
    }
    Some(transitions)
}

fn check_rule(
    key: &Located<String>,
    entry: &TransitionEntry,
    inspection: &mut FileInspection<'_>,
) -> Option<TransitionRule> {
    let (from, to) = parse_mode_pair(key, inspection)?;
    if !is_rule_edge(from, to) {
        let targets: Vec<&str> = rule_targets(from).map(Mode::as_str).collect();
        let suggestion = Some(format!("from {from} a rule may lead to {}", targets.join(" or ")));
        inspection.error(key, &format!("no rule may lead from {from} to {to}"), suggestion);
    }
    if needs_human_to_leave(from) && !entry.requires_human_approval {
        let message = format!("leaving {from} requires human approval, which this rule does not demand");
        inspection.error(key, &message, Some("add `requires_human_approval: true`".to_owned()));
    }
    if entry.conditions.is_empty() {
        inspection.warn(key, "this rule has no conditions and never fires", None);
    }
    let conditions = entry.conditions.iter().map(|stated| check_condition(stated, inspection)).collect();
    let approval = if entry.requires_human_approval {
        TransitionApproval::Required
    } else {
        TransitionApproval::NotRequired
    };
    let location = inspection.rule_ref(key, format!("transition_rules.{}", key.value));
    Some(TransitionRule { from, to, logic: entry.logic, conditions, approval, location })
}

/// Parses the two modes in the name of a rule.
fn parse_mode_pair(key: &Located<String>, inspection: &mut FileInspection<'_>) -> Option<(Mode, Mode)> {
    let Some((from, to)) = key.split_once("_to_") else {
        let suggestion = Some("name it by its two modes, such as NORMAL_to_ALERT".to_owned());
        inspection.error(key, &format!("`{}` does not name two modes", key.value), suggestion);
        return None;
    };
    let mut mode = |word: &str| {
        let parsed = word.parse::<Mode>().ok();
        if parsed.is_none() {
            let message = format!("unknown mode `{word}` in `{}`", key.value);
            inspection.error(key, &message, Some(suggest_mode(word)));
        }
        parsed
    };
    let (from, to) = (mode(from), mode(to));
    Some((from?, to?))
}

fn check_condition(
    stated: &Located<files::ConditionEntry>,
    inspection: &mut FileInspection<'_>,
) -> TransitionCondition {
    if !(stated.value.value.is_finite() && stated.value.value >= 0.0) {
        inspection.error(stated, "a condition's value must be a number of at least 0", None);
    }
    let spans = [("duration_seconds", stated.duration_seconds), ("window_seconds", stated.window_seconds)];
    for (key, seconds) in spans.into_iter().filter_map(|(key, span)| Some((key, span?))) {
        if seconds > MAX_SPAN_SECONDS {
            let message = format!("`{key}` is {seconds}: it must be at most {MAX_SPAN_SECONDS}");
            inspection.error(stated, &message, None);
        }
    }
    if stated.window_seconds == Some(0) {
        inspection.error(stated, "a window of 0 seconds counts nothing", None);
    }
    warn_about_unreachable(stated, inspection);
    let (metric, counted) = (stated.metric, stated.metric.is_counted());
    if !counted && stated.window_seconds.is_some() {
        let message = format!("`{}` is measured directly and has no window", metric.as_str());
        inspection.warn(stated, &message, Some("`duration_seconds` sets how long it must hold".to_owned()));
    }
    if counted && stated.window_seconds.is_none() {
        let message = format!("`{}` is counted over 60 s, since no window is set", metric.as_str());
        inspection.warn(stated, &message, Some("add `window_seconds`".to_owned()));
    }
    TransitionCondition {
        metric,
        operator: stated.operator,
        value: stated.value.value,
        duration: Duration::from_secs(stated.duration_seconds.unwrap_or(0)),
        window: counted.then(|| stated.window_seconds.map_or(DEFAULT_WINDOW, Duration::from_secs)),
    }
}

/// Warns about a threshold above the maximum of the metric: the rule never fires, although its author relies
/// on it.
fn warn_about_unreachable(stated: &Located<files::ConditionEntry>, inspection: &mut FileInspection<'_>) {
    let (value, most) = (stated.value.value, stated.metric.max_value());
    let never = match stated.operator {
        Operator::Above => value >= most,
        Operator::AtLeast | Operator::Equal => value > most,
        Operator::Below | Operator::AtMost => false,
    };
    if never {
        let metric = stated.metric.as_str();
        let message =
            format!("this is never true: `{metric}` is at most {most}, and the threshold is {value}");
        inspection.warn(stated, &message, Some(format!("set a value below {most}")));
    }
}

/// Warns about a pair of rules that the same measurement can fire in both directions, so that the mode
/// oscillates.
fn warn_about_oscillation(
    key: &Located<String>,
    entry: &TransitionEntry,
    rules: &[TransitionRule],
    inspection: &mut FileInspection<'_>,
) {
    let Some((from, to)) = key.split_once("_to_") else { return };
    let back = rules.iter().find(|rule| rule.from.as_str() == to && rule.to.as_str() == from);
    for there in &entry.conditions {
        for back in back.iter().flat_map(|rule| &rule.conditions) {
            let there_above = matches!(there.operator, Operator::Above | Operator::AtLeast);
            let back_below = matches!(back.operator, Operator::Below | Operator::AtMost);
            let overlap = there.value.value < back.value;
            if there.metric == back.metric && there_above && back_below && overlap {
                let message = format!(
                    "between {} and {} `{}` leads both to {to} and back to {from}",
                    there.value.value,
                    back.value,
                    there.metric.as_str()
                );
                let suggestion = Some("set a lower threshold for the transition back".to_owned());
                inspection.warn(there, &message, suggestion);
            }
        }
    }
}
