//! State machine that decides which transition rule fires.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tool::{Mode, RuleRef};

use super::edges::{is_rule_edge, needs_human_to_leave};
use super::{
    MetricQuery, MetricReading, TransitionApproval, TransitionCondition, TransitionRule, Transitions,
};
use crate::files::Logic;

/// Minimum time in a mode before a rule may loosen it. Tightening is never delayed.
const MIN_STAY: Duration = Duration::from_secs(60);
/// Longest gap between observations. After a longer gap a condition does not count as held without
/// interruption.
const MAX_OBSERVATION_GAP: Duration = Duration::from_secs(30);

/// State machine of the operational mode. Time is a monotonic duration since any fixed moment.
#[derive(Clone, Debug)]
pub struct ModeMachine {
    rules: Arc<Transitions>,
    mode: Mode,
    entered_at: Duration,
    /// Time at which a person last set the mode. Tightening rules only count events after it, because the
    /// person has seen the earlier ones.
    human_change_at: Option<Duration>,
    /// Start of the period in which each condition has held, by rule.
    held_since: Vec<Vec<Option<Duration>>>,
    last_observed: Option<Duration>,
    proposal: Option<ModeTransition>,
}

/// Transition that a rule demands.
#[derive(Clone, Debug, PartialEq)]
pub struct ModeTransition {
    /// Current mode.
    pub from: Mode,
    /// Target mode.
    pub to: Mode,
    /// Rule, with its location.
    pub rule: RuleRef,
    /// Measurements of the conditions.
    pub readings: Vec<MetricReading>,
}

/// Result of an observation.
#[derive(Clone, Debug, PartialEq)]
pub enum TransitionAction {
    /// The mode should change now.
    Change(ModeTransition),
    /// The mode should change after human approval. Reported once; `ModeMachine::proposal` returns it until
    /// it is confirmed or no longer holds.
    Propose(ModeTransition),
}

/// Origin of a mode change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedBy {
    /// Rule, or the daemon itself.
    Rule,
    /// Person.
    Human,
}

impl ModeMachine {
    /// Creates a state machine that starts in this mode at this time.
    pub fn new(rules: Arc<Transitions>, mode: Mode, now: Duration) -> Self {
        let held_since = empty_held_since(&rules);
        ModeMachine {
            rules,
            mode,
            entered_at: now,
            human_change_at: None,
            held_since,
            last_observed: None,
            proposal: None,
        }
    }

    /// Returns the current mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the transition that a person can confirm by setting the mode.
    pub fn proposal(&self) -> Option<&ModeTransition> {
        self.proposal.as_ref()
    }

    /// Enters a mode. Conditions that held in the previous mode start again.
    pub fn enter(&mut self, mode: Mode, now: Duration, by: ChangedBy) {
        self.mode = mode;
        self.entered_at = now;
        self.reset_conditions();
        if by == ChangedBy::Human {
            self.human_change_at = Some(now);
        }
    }

    /// Sets an earlier time at which a person set the mode, so that events before it do not count again.
    pub fn set_human_change(&mut self, then: Duration) {
        // The ledger may report an earlier time after a person has set the mode again.
        self.human_change_at = self.human_change_at.max(Some(then));
    }

    /// Replaces the rules. Conditions start again if the rules differ.
    pub fn set_rules(&mut self, rules: Arc<Transitions>) {
        if *self.rules != *rules {
            self.rules = rules;
            self.reset_conditions();
        }
    }

    /// Returns the metrics that the rules of the current mode need.
    pub fn required_metrics(&self) -> impl Iterator<Item = MetricQuery> {
        let conditions = self.rules_from_mode().flat_map(|rule| &rule.conditions);
        conditions.map(|condition| MetricQuery { metric: condition.metric, window: condition.window })
    }

    /// Returns true if a rule of the current mode can fire by the passage of time alone.
    pub fn can_fire_by_time(&self) -> bool {
        self.rules_from_mode().flat_map(|rule| &rule.conditions).any(TransitionCondition::can_fire_by_time)
    }

    /// Evaluates all rules of the mode and returns the transition to the strictest mode among those that
    /// fire. `read` returns a measurement, or `None` if there is none; the condition then does not hold.
    pub fn observe(
        &mut self,
        now: Duration,
        read: impl Fn(MetricQuery) -> Option<f64>,
    ) -> Option<TransitionAction> {
        if self.last_observed.is_some_and(|last| now.saturating_sub(last) > MAX_OBSERVATION_GAP) {
            self.held_since = empty_held_since(&self.rules);
        }
        self.last_observed = Some(now);
        let (mut change, mut proposal) = (None, None);
        for (rule, held) in self.rules.rules.iter().zip(&mut self.held_since) {
            if rule.from != self.mode || !is_rule_edge(rule.from, rule.to) {
                continue;
            }
            let counted_from = self.human_change_at.filter(|_| !rule.loosens());
            let readings = measure_conditions(rule, held, now, counted_from, &read);
            let stayed = now.saturating_sub(self.entered_at) >= MIN_STAY || !rule.loosens();
            if !(stayed && fires(rule, held, now)) {
                continue;
            }
            let transition =
                ModeTransition { from: rule.from, to: rule.to, rule: rule.location.clone(), readings };
            match rule.approval {
                TransitionApproval::NotRequired if !needs_human_to_leave(rule.from) => {
                    change = change.or(Some(transition))
                }
                TransitionApproval::NotRequired | TransitionApproval::Required => {
                    proposal = proposal.or(Some(transition))
                }
            }
        }
        let is_new =
            |found: &ModeTransition| self.proposal.as_ref().is_none_or(|known| known.rule != found.rule);
        let new_proposal = proposal.clone().filter(is_new).map(TransitionAction::Propose);
        self.proposal = proposal;
        change.map(TransitionAction::Change).or(new_proposal)
    }

    fn rules_from_mode(&self) -> impl Iterator<Item = &TransitionRule> {
        self.rules.rules.iter().filter(|rule| rule.from == self.mode)
    }

    fn reset_conditions(&mut self) {
        self.held_since = empty_held_since(&self.rules);
        self.proposal = None;
    }
}

impl ModeTransition {
    /// Returns the reason in one sentence.
    pub fn reason(&self) -> String {
        let known = self.readings.iter().filter(|reading| reading.held_seconds.is_some());
        let known: Vec<String> = known.map(ToString::to_string).collect();
        format!("{} ({} line {}): {}", self.rule.id, self.rule.file, self.rule.line, known.join(", "))
    }

    /// Returns the measurements in the format of the ledger.
    pub fn sensors(&self) -> Value {
        json!(self.readings)
    }
}

/// Measures each condition and updates the time since which it has held.
fn measure_conditions(
    rule: &TransitionRule,
    held: &mut [Option<Duration>],
    now: Duration,
    counted_from: Option<Duration>,
    read: &impl Fn(MetricQuery) -> Option<f64>,
) -> Vec<MetricReading> {
    let measure = |(condition, held): (&TransitionCondition, &mut Option<Duration>)| {
        let window = condition
            .window
            .map(|window| counted_from.map_or(window, |from| window.min(now.saturating_sub(from))));
        let value = read(MetricQuery { metric: condition.metric, window });
        *held = condition.is_met(value).then(|| held.unwrap_or(now));
        MetricReading {
            metric: condition.metric.as_str(),
            value,
            operator: condition.operator.as_str(),
            limit: condition.value,
            window_seconds: condition.window.map(|window| window.as_secs()),
            held_seconds: held.map(|since| now.saturating_sub(since).as_secs()),
        }
    };
    rule.conditions.iter().zip(held).map(measure).collect()
}

/// Returns true if enough conditions have held for long enough. A rule without conditions never fires.
fn fires(rule: &TransitionRule, held: &[Option<Duration>], now: Duration) -> bool {
    let is_due = |(condition, held): (&TransitionCondition, &Option<Duration>)| {
        held.is_some_and(|since| now.saturating_sub(since) >= condition.duration)
    };
    let mut conditions = rule.conditions.iter().zip(held);
    match rule.logic {
        Logic::Any => conditions.any(is_due),
        Logic::All => !rule.conditions.is_empty() && conditions.all(is_due),
    }
}

fn empty_held_since(rules: &Transitions) -> Vec<Vec<Option<Duration>>> {
    rules.rules.iter().map(|rule| vec![None; rule.conditions.len()]).collect()
}
