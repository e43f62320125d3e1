//! Mode rules replayed over recorded calls: the mode changes and suspensions that they would have caused.
//!
//! Only events are recorded. The load of the machine is not, so conditions on it are never met here.

use std::sync::Arc;
use std::time::Duration;

use governance::transitions::{ChangedBy, ModeMachine, TransitionAction, Transitions};
use jiff::Timestamp;
use ledger::LedgerRecord;
use serde::Serialize;
use tool::Mode;

use super::event_counters::{CountedEvent, EventCounters};
use super::history::{entry_events, entry_source};
use super::{RULE_CLOCK_START, RuleEvaluation, SAMPLE_PERIOD, read_metric};
use crate::config_snapshot::ConfigSnapshot;
use crate::suspension::MAX_SUSPENDED;

/// Time after an event in which conditions can become true without another one: the longest window.
const MAX_QUIET: Duration = Duration::from_secs(60 * 60);

/// Reactions of mode rules to recorded calls, if the mode had been NORMAL whenever a call was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RuleRehearsal {
    /// Reactions, in order of time.
    pub reactions: Vec<RuleReaction>,
    /// Conditions on counted events of the rules that leave NORMAL, each with its highest value.
    pub peaks: Vec<ConditionPeak>,
}

/// Reaction of a rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleReaction {
    /// Time on the clock of the records.
    pub time: Timestamp,
    /// Response that the rule demands.
    pub response: RuleResponse,
    /// Rule and the values that it counted.
    pub reason: String,
}

/// Response of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleResponse {
    /// The mode changes.
    Change(Mode),
    /// The change is proposed to the operator.
    Propose(Mode),
    /// The caller that alone caused the events is suspended instead.
    Suspend(String),
}

/// Highest value of a condition on counted events.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConditionPeak {
    /// Name of the rule.
    pub rule: String,
    /// Condition, as the rule states it.
    pub condition: String,
    /// Highest value; `None` if nothing was counted.
    pub highest: Option<f64>,
}

impl RuleRehearsal {
    /// Replays records, oldest first. The risk of their tools is that of the configuration.
    pub fn replay(snapshot: &ConfigSnapshot, rules: Arc<Transitions>, records: &[LedgerRecord]) -> Self {
        let Some(first) = records.first() else { return RuleRehearsal::default() };
        let mut replay = RuleReplay::new(rules, first.time);
        for record in records {
            let at = replay.clock(record.time);
            replay.pass_time_until(at);
            let source = entry_source(&record.entry);
            let events = entry_events(snapshot, &record.entry);
            events.iter().for_each(|event| replay.counters.record(*event, source.clone(), at));
            if events.iter().copied().any(CountedEvent::is_urgent) {
                replay.measure_peaks(at);
                replay.evaluate(at);
            }
        }
        replay.pass_time_until(replay.now + MAX_QUIET);
        replay.found
    }
}

/// State of a replay.
struct RuleReplay {
    rules: Arc<Transitions>,
    machine: ModeMachine,
    counters: EventCounters,
    began: Timestamp,
    now: Duration,
    found: RuleRehearsal,
}

impl RuleReplay {
    fn new(rules: Arc<Transitions>, began: Timestamp) -> Self {
        let machine = ModeMachine::new(Arc::clone(&rules), Mode::Normal, RULE_CLOCK_START);
        let conditions = rules.counted_conditions(Mode::Normal);
        let peaks = conditions.map(|(rule, _, condition)| ConditionPeak {
            rule: rule.id.to_string(),
            condition,
            highest: None,
        });
        let found = RuleRehearsal { reactions: Vec::new(), peaks: peaks.collect() };
        RuleReplay { rules, machine, counters: EventCounters::default(), began, now: RULE_CLOCK_START, found }
    }

    /// Time of a record on the rule clock. A record that is older than the one before it counts as simultaneous.
    fn clock(&self, time: Timestamp) -> Duration {
        let passed = Duration::try_from(time.duration_since(self.began)).unwrap_or_default();
        (RULE_CLOCK_START + passed).max(self.now)
    }

    /// Evaluates the rules as often as the daemon does without events, as long as this can have an effect.
    fn pass_time_until(&mut self, end: Duration) {
        let last = end.min(self.now + MAX_QUIET);
        while self.machine.can_fire_by_time() && self.now + SAMPLE_PERIOD < last {
            let next = self.now + SAMPLE_PERIOD;
            self.evaluate(next);
        }
        self.now = end;
    }

    fn evaluate(&mut self, now: Duration) {
        self.now = now;
        let (machine, counters) = (&mut self.machine, &mut self.counters);
        let RuleEvaluation { suspended, action } =
            RuleEvaluation::at(now, machine, counters, None, MAX_SUSPENDED);
        for (source, reason) in suspended {
            self.react(RuleResponse::Suspend(source.caller.display_name()), reason);
        }
        match action {
            Some(TransitionAction::Change(change)) => {
                self.react(RuleResponse::Change(change.to), change.reason());
                // The operator returns to NORMAL, so that further reactions are seen too.
                self.machine.enter(Mode::Normal, now, ChangedBy::Human);
            }
            Some(TransitionAction::Propose(change)) => {
                self.react(RuleResponse::Propose(change.to), change.reason());
            }
            None => {}
        }
    }

    fn react(&mut self, response: RuleResponse, reason: String) {
        let passed = jiff::SignedDuration::try_from(self.now.saturating_sub(RULE_CLOCK_START));
        let time = passed.ok().and_then(|passed| self.began.checked_add(passed).ok()).unwrap_or(self.began);
        self.found.reactions.push(RuleReaction { time, response, reason });
    }

    fn measure_peaks(&mut self, now: Duration) {
        let conditions = self.rules.counted_conditions(Mode::Normal);
        for (peak, (_, query, _)) in self.found.peaks.iter_mut().zip(conditions) {
            let value = read_metric(&self.counters, None, now, query, None);
            peak.highest = match (peak.highest, value) {
                (Some(highest), Some(value)) => Some(highest.max(value)),
                (highest, value) => highest.or(value),
            };
        }
    }
}
