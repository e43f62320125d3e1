//! When the mode changes by itself: the rules of `modes.yaml`, checked, and the machine that follows them.
//!
//! Pure like the judge: time and measurements are handed in, and nothing is changed but the machine's own memory of
//! how long a condition has held. Whoever asks it puts the change on record and says so with [`Machine::enter`].

mod check;
mod condition;
mod edges;
mod machine;
mod metric;
mod offer;
#[cfg(test)]
mod tests;

use tool::{Mode, RuleRef};

use crate::files::Logic;

pub(crate) use check::check;
pub(crate) use condition::Condition;
pub use edges::{a_human_may_lead, ways_out};
pub use machine::{ChangedBy, Machine, Move, Transition};
pub use metric::{MOST_COUNTED, Need, Reading};

/// The rules that change the mode, those that lead to the strictest mode first: their order in the file decides nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transitions {
    pub(crate) rules: Vec<Rule>,
}

/// One rule that changes the mode.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    pub(crate) from: Mode,
    pub(crate) to: Mode,
    pub(crate) logic: Logic,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) gate: Gate,
    /// Where it is written.
    pub(crate) place: RuleRef,
}

/// Who lets a rule's change happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Nobody needs to.
    Open,
    /// A human.
    Human,
}

impl Rule {
    /// Back to everyday work, or on the way there. What loosens takes its time; what tightens does not.
    pub(crate) fn loosens(&self) -> bool {
        matches!(self.to, Mode::Normal | Mode::Recovery)
    }
}

/// All that it states, in words: two rules that read alike are alike.
impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let joint = match self.logic {
            Logic::Any => " or ",
            Logic::All => " and ",
        };
        let conditions: Vec<String> = self.conditions.iter().map(Condition::to_string).collect();
        write!(f, "{} to {} when {}", self.from, self.to, conditions.join(joint))?;
        match self.gate {
            Gate::Open => Ok(()),
            Gate::Human => f.write_str(", if a human agrees"),
        }
    }
}
