//! State machine that decides which transition rule fires.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tool::{Mode, RuleRef};

use super::edges::{a_rule_may_lead, only_a_human_leaves};
use super::{Condition, Gate, Need, Reading, Rule, Transitions};
use crate::files::Logic;

/// Minimum time in a mode before a rule may loosen it. Tightening is never delayed.
const SHORTEST_STAY: Duration = Duration::from_secs(60);
/// Longest gap between observations. After a longer gap a condition does not count as held without
/// interruption.
const LONGEST_GAP: Duration = Duration::from_secs(30);

/// State machine of the operational mode. Time is a monotonic duration since any fixed moment.
#[derive(Debug)]
pub struct Machine {
    rules: Arc<Transitions>,
    mode: Mode,
    entered: Duration,
    /// Time at which a person last set the mode. Tightening rules only count events after it, because the
    /// person has seen the earlier ones.
    seen_by_human: Option<Duration>,
    /// Start of the period in which each condition has held, by rule.
    held: Vec<Vec<Option<Duration>>>,
    looked: Option<Duration>,
    proposal: Option<Transition>,
}

/// Transition that a rule demands.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    /// Current mode.
    pub from: Mode,
    /// Target mode.
    pub to: Mode,
    /// Rule, with its location.
    pub rule: RuleRef,
    /// Measurements of the conditions.
    pub readings: Vec<Reading>,
}

/// Result of an observation.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    /// The mode should change now.
    Change(Transition),
    /// The mode should change after human approval. Reported once; `ModeMachine::proposal` returns it until
    /// it is confirmed or no longer holds.
    Propose(Transition),
}

/// Origin of a mode change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedBy {
    /// Rule, or the daemon itself.
    Rule,
    /// Person.
    Human,
}

impl Machine {
    /// Creates a state machine that starts in this mode at this time.
    pub fn new(rules: Arc<Transitions>, mode: Mode, now: Duration) -> Self {
        let held = nothing_held(&rules);
        Machine { rules, mode, entered: now, seen_by_human: None, held, looked: None, proposal: None }
    }

    /// Returns the current mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the transition that a person can confirm by setting the mode.
    pub fn proposal(&self) -> Option<&Transition> {
        self.proposal.as_ref()
    }

    /// Enters a mode. Conditions that held in the previous mode start again.
    pub fn enter(&mut self, mode: Mode, now: Duration, by: ChangedBy) {
        self.mode = mode;
        self.entered = now;
        self.forget();
        if by == ChangedBy::Human {
            self.seen_by_human = Some(now);
        }
    }

    /// Sets an earlier time at which a person set the mode, so that events before it do not count again.
    pub fn seen_by_human_at(&mut self, then: Duration) {
        // The ledger may report an earlier time after a person has set the mode again.
        self.seen_by_human = self.seen_by_human.max(Some(then));
    }

    /// Replaces the rules. Conditions start again if the rules differ.
    pub fn follow(&mut self, rules: Arc<Transitions>) {
        if *self.rules != *rules {
            self.rules = rules;
            self.forget();
        }
    }

    /// Returns the metrics that the rules of the current mode need.
    pub fn needs(&self) -> impl Iterator<Item = Need> {
        let conditions = self.leaving().flat_map(|rule| &rule.conditions);
        conditions.map(|condition| Need { metric: condition.metric, window: condition.window })
    }

    /// Returns true if a rule of the current mode can fire by the passage of time alone.
    pub fn ripens(&self) -> bool {
        self.leaving().flat_map(|rule| &rule.conditions).any(Condition::ripens)
    }

    /// Evaluates all rules of the mode and returns the transition to the strictest mode among those that
    /// fire. `read` returns a measurement, or `None` if there is none; the condition then does not hold.
    pub fn observe(&mut self, now: Duration, read: impl Fn(Need) -> Option<f64>) -> Option<Move> {
        if self.looked.is_some_and(|last| now.saturating_sub(last) > LONGEST_GAP) {
            self.held = nothing_held(&self.rules);
        }
        self.looked = Some(now);
        let (mut change, mut proposal) = (None, None);
        for (rule, held) in self.rules.rules.iter().zip(&mut self.held) {
            if rule.from != self.mode || !a_rule_may_lead(rule.from, rule.to) {
                continue;
            }
            let counted_from = self.seen_by_human.filter(|_| !rule.loosens());
            let readings = look(rule, held, now, counted_from, &read);
            let stayed = now.saturating_sub(self.entered) >= SHORTEST_STAY || !rule.loosens();
            if !(stayed && fires(rule, held, now)) {
                continue;
            }
            let transition = Transition { from: rule.from, to: rule.to, rule: rule.place.clone(), readings };
            match rule.gate {
                Gate::Open if !only_a_human_leaves(rule.from) => change = change.or(Some(transition)),
                Gate::Open | Gate::Human => proposal = proposal.or(Some(transition)),
            }
        }
        let is_new = |found: &Transition| self.proposal.as_ref().is_none_or(|known| known.rule != found.rule);
        let news = proposal.clone().filter(is_new).map(Move::Propose);
        self.proposal = proposal;
        change.map(Move::Change).or(news)
    }

    fn leaving(&self) -> impl Iterator<Item = &Rule> {
        self.rules.rules.iter().filter(|rule| rule.from == self.mode)
    }

    fn forget(&mut self) {
        self.held = nothing_held(&self.rules);
        self.proposal = None;
    }
}

impl Transition {
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
fn look(
    rule: &Rule,
    held: &mut [Option<Duration>],
    now: Duration,
    counted_from: Option<Duration>,
    read: &impl Fn(Need) -> Option<f64>,
) -> Vec<Reading> {
    let measure = |(condition, held): (&Condition, &mut Option<Duration>)| {
        let window = condition
            .window
            .map(|window| counted_from.map_or(window, |from| window.min(now.saturating_sub(from))));
        let value = read(Need { metric: condition.metric, window });
        *held = condition.holds(value).then(|| held.unwrap_or(now));
        Reading {
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
fn fires(rule: &Rule, held: &[Option<Duration>], now: Duration) -> bool {
    let ripe = |(condition, held): (&Condition, &Option<Duration>)| {
        held.is_some_and(|since| now.saturating_sub(since) >= condition.duration)
    };
    let mut conditions = rule.conditions.iter().zip(held);
    match rule.logic {
        Logic::Any => conditions.any(ripe),
        Logic::All => !rule.conditions.is_empty() && conditions.all(ripe),
    }
}

fn nothing_held(rules: &Transitions) -> Vec<Vec<Option<Duration>>> {
    rules.rules.iter().map(|rule| vec![None; rule.conditions.len()]).collect()
}
