//! Automatic mode transitions: the checked rules of `modes.yaml`, and the state machine that evaluates them.
//!
//! Pure like the judge: the caller passes in time and measurements, and the only state is how long each
//! condition has held. The caller records a change in the ledger and reports it with `ModeMachine::enter`.

mod check;
mod condition;
mod edges;
mod metric;
mod mode_machine;
#[cfg(test)]
mod tests;

use tool::{Mode, RuleRef};

use crate::files::Logic;

pub(crate) use check::check;
pub(crate) use condition::TransitionCondition;
pub use edges::{is_human_edge, modes_settable_from};
pub use metric::{MAX_COUNTED_EVENTS, MetricQuery, MetricReading};
pub use mode_machine::{ChangedBy, ModeMachine, ModeTransition, TransitionAction};

/// Rules that change the mode, sorted by target mode, the strictest first. Their order in the file does not
/// matter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transitions {
    pub(crate) rules: Vec<TransitionRule>,
}

impl Transitions {
    /// Sorts the rules by target mode, the strictest first.
    pub(crate) fn sorted(mut rules: Vec<TransitionRule>) -> Transitions {
        rules.sort_by_key(|rule| edges::leniency(rule.to));
        Transitions { rules }
    }

    /// Returns the rules.
    pub fn rules(&self) -> &[TransitionRule] {
        &self.rules
    }

    /// Returns the conditions on counted events of the rules that leave a mode: the rule, what it counts, and the whole
    /// condition as text.
    pub fn counted_conditions(&self, from: Mode) -> impl Iterator<Item = (&RuleRef, MetricQuery, String)> {
        let rules = self.rules.iter().filter(move |rule| rule.from == from);
        let conditions = rules.flat_map(|rule| rule.conditions.iter().map(move |one| (&rule.location, one)));
        conditions.filter(|(_, one)| one.metric.is_counted()).map(|(rule, one)| {
            let query = MetricQuery { metric: one.metric, window: one.window };
            (rule, query, one.to_string())
        })
    }
}

/// Rule that changes the mode.
#[derive(Clone, Debug, PartialEq)]
pub struct TransitionRule {
    pub(crate) from: Mode,
    pub(crate) to: Mode,
    pub(crate) logic: Logic,
    pub(crate) conditions: Vec<TransitionCondition>,
    pub(crate) approval: TransitionApproval,
    /// Location in the file.
    pub location: RuleRef,
}

/// Approval that a transition needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransitionApproval {
    /// None.
    NotRequired,
    /// Human approval.
    Required,
}

impl TransitionRule {
    /// Returns true if the rule leads to NORMAL or RECOVERY. Loosening waits for a minimum stay in the mode;
    /// tightening does not.
    pub fn loosens(&self) -> bool {
        matches!(self.to, Mode::Normal | Mode::Recovery)
    }
}

/// Writes the complete rule: rules with the same text are equal.
impl std::fmt::Display for TransitionRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let joint = match self.logic {
            Logic::Any => " or ",
            Logic::All => " and ",
        };
        let conditions: Vec<String> = self.conditions.iter().map(TransitionCondition::to_string).collect();
        write!(f, "{} to {} when {}", self.from, self.to, conditions.join(joint))?;
        match self.approval {
            TransitionApproval::NotRequired => Ok(()),
            TransitionApproval::Required => f.write_str(", with human approval"),
        }
    }
}
