//! The machine: which rule, if any, wants to change the mode now.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tool::{Mode, RuleRef};

use super::edges::{a_rule_may_lead, only_a_human_leaves};
use super::{Condition, Gate, Need, Reading, Rule, Transitions};
use crate::files::Logic;

/// How long a mode lasts at least before a rule may lead back to everyday work. Getting stricter is never delayed.
const SHORTEST_STAY: Duration = Duration::from_secs(60);
/// What was not looked at for longer has not been seen to hold.
const LONGEST_GAP: Duration = Duration::from_secs(30);

/// Follows the rules. Time counts from any moment the caller likes, and only forward.
#[derive(Debug)]
pub struct Machine {
    rules: Arc<Transitions>,
    mode: Mode,
    entered: Duration,
    /// When a human last set the mode. What tightens counts from then on: a human has seen the rest.
    seen_by_human: Option<Duration>,
    /// Since when each condition has held, rule by rule.
    held: Vec<Vec<Option<Duration>>>,
    looked: Option<Duration>,
    proposal: Option<Transition>,
}

/// A change that a rule wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    /// The mode that holds.
    pub from: Mode,
    /// The mode that should.
    pub to: Mode,
    /// The rule, where it is written.
    pub rule: RuleRef,
    /// What was measured.
    pub readings: Vec<Reading>,
}

/// What an observation leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum Move {
    /// The mode should change now.
    Change(Transition),
    /// The mode should change if a human agrees. Said once; until then it stands in [`Machine::proposal`].
    Propose(Transition),
}

/// Who changed the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangedBy {
    /// A rule, or Sinew itself.
    Rule,
    /// A person.
    Human,
}

impl Machine {
    /// A machine that begins in this mode at this moment.
    pub fn new(rules: Arc<Transitions>, mode: Mode, now: Duration) -> Self {
        let held = nothing_held(&rules);
        Machine { rules, mode, entered: now, seen_by_human: None, held, looked: None, proposal: None }
    }

    /// The mode it is in.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What a human is asked to confirm by setting the mode.
    pub fn proposal(&self) -> Option<&Transition> {
        self.proposal.as_ref()
    }

    /// The mode has changed. Whatever has held so far held in another mode, and begins anew.
    pub fn enter(&mut self, mode: Mode, now: Duration, by: ChangedBy) {
        self.mode = mode;
        self.entered = now;
        self.forget();
        if by == ChangedBy::Human {
            self.seen_by_human = Some(now);
        }
    }

    /// A human set a mode before this machine began: what led to it is not counted again.
    pub fn seen_by_human_at(&mut self, then: Duration) {
        // What the record says of earlier times may arrive after a human has spoken anew.
        self.seen_by_human = self.seen_by_human.max(Some(then));
    }

    /// Other rules hold from now on.
    pub fn follow(&mut self, rules: Arc<Transitions>) {
        if *self.rules != *rules {
            self.rules = rules;
            self.forget();
        }
    }

    /// What the rules that leave this mode measure.
    pub fn needs(&self) -> impl Iterator<Item = Need> {
        let conditions = self.leaving().flat_map(|rule| &rule.conditions);
        conditions.map(|condition| Need { metric: condition.metric, window: condition.window })
    }

    /// Whether a rule of this mode can come true although nothing happens.
    pub fn ripens(&self) -> bool {
        self.leaving().flat_map(|rule| &rule.conditions).any(Condition::ripens)
    }

    /// Looks at all rules, and gives the one that leads to the strictest mode of those that fire. `read` gives a measurement, or
    /// nothing where there is none: then its condition does not hold.
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
    /// Why, in one sentence.
    pub fn reason(&self) -> String {
        let known = self.readings.iter().filter(|reading| reading.held_seconds.is_some());
        let known: Vec<String> = known.map(ToString::to_string).collect();
        format!("{} ({} line {}): {}", self.rule.id, self.rule.file, self.rule.line, known.join(", "))
    }

    /// What was measured, in the shape of a record.
    pub fn sensors(&self) -> Value {
        json!(self.readings)
    }
}

/// Measures each condition and notes since when it has held.
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

/// Whether enough of its conditions have held for long enough. No conditions are never enough.
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
