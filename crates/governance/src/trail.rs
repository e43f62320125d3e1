//! Trace of a decision: every rule that was evaluated, in order, with the value it was evaluated against and
//! its outcome.
//!
//! The judge records a trace only on request. For an ordinary call the trace is disabled
//! (`RuleTrace::disabled`), and a step costs one comparison.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{RuleRef, ToolDefinition};

use crate::grounds::Grounds;
use crate::remedy::{self, Change, Held};

/// Outcome of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// The rule does not apply to this call.
    DoesNotApply,
    /// The rule applies and lets the call pass.
    Passes,
    /// The rule applies and requires approval.
    Asks,
    /// The rule applies and would deny, but is only recorded.
    WouldDeny,
    /// The rule applies and denies: no further rule was evaluated.
    Denies,
}

/// One evaluated rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Rule, with file and line.
    pub rule: RuleRef,
    /// Content of the rule as written: a pattern, a mode, a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<String>,
    /// Value that the rule was evaluated against: a mode, a canonical path, a host, a count.
    pub asked: String,
    /// Outcome of the rule.
    pub said: Said,
}

/// Trace of the evaluated rules. It contains the targets of symbolic links, so it is for the operator, not
/// for the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    written: Option<Written>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Written {
    steps: Vec<Step>,
    changes: Vec<Change>,
}

impl Trail {
    /// Creates a trace that records nothing, for ordinary calls.
    pub fn off() -> Self {
        Trail { written: None }
    }

    /// Creates a trace that records every step.
    pub fn on() -> Self {
        Trail { written: Some(Written::default()) }
    }

    /// Returns every evaluated rule, in order. A rule that `judge` evaluated again with the same outcome is
    /// listed once.
    pub fn steps(&self) -> &[Step] {
        self.written.as_ref().map_or(&[], |written| &written.steps)
    }

    /// Returns the smallest changes of the rules, one for each rule that denies or requires approval, after
    /// which that rule would let the call run without approval. Empty for a call that runs, and where no file
    /// can change the outcome.
    pub fn changes(&self) -> &[Change] {
        self.written.as_ref().map_or(&[], |written| &written.changes)
    }
}

/// Recorder of one stage: the rules that passed, and the trace if it is enabled.
pub(crate) struct Notes<'t> {
    pub(crate) passed: Vec<RuleRef>,
    trail: &'t mut Trail,
    /// Value of the last step, for the rule that denies next.
    asked: String,
    /// YAML text of that value, or of the pattern that denies it, for the suggested change.
    offered: Option<String>,
}

impl<'t> Notes<'t> {
    pub(crate) fn on(trail: &'t mut Trail) -> Self {
        Notes { passed: Vec::new(), trail, asked: String::new(), offered: None }
    }

    /// Records a rule that lets the call pass and contributes to the verdict.
    pub(crate) fn passes(&mut self, rule: RuleRef, states: impl Fn() -> String, asked: impl Fn() -> String) {
        self.add(&rule, || Some(states()), asked, Said::Passes);
        self.passed.push(rule);
    }

    /// Records a rule that is satisfied but does not contribute to the verdict.
    pub(crate) fn holds(&mut self, rule: &RuleRef, states: impl Fn() -> String, asked: impl Fn() -> String) {
        self.add(rule, || Some(states()), asked, Said::Passes);
    }

    /// Sets the value that the following rules are evaluated against.
    pub(crate) fn asks(&mut self, asked: impl Fn() -> String) {
        if self.trail.written.is_some() {
            self.asked = asked();
            self.offered = None;
        }
    }

    /// Sets the YAML text of the current value, or of the pattern that is about to deny it.
    pub(crate) fn offers(&mut self, written: impl Fn() -> String) {
        if self.trail.written.is_some() {
            self.offered = Some(written());
        }
    }

    /// Records rules that do not apply to the current value.
    pub(crate) fn skips<'r>(&mut self, rules: impl IntoIterator<Item = (&'r RuleRef, String)>) {
        if self.trail.written.is_none() {
            return;
        }
        for (rule, states) in rules {
            let asked = self.asked.clone();
            self.add(rule, || Some(states.clone()), || asked.clone(), Said::DoesNotApply);
        }
    }

    /// Returns true if the trace is recorded. Lets callers skip expensive lists.
    pub(crate) fn are_read(&self) -> bool {
        self.trail.written.is_some()
    }

    /// Records the rules that require approval.
    pub(crate) fn asked_by(&mut self, rules: &[RuleRef], asked: impl Fn() -> String) {
        for rule in rules {
            self.add(rule, || None, &asked, Said::Asks);
        }
        if let Some(written) = &mut self.trail.written {
            written.changes.extend(rules.iter().map(remedy::of_question));
        }
    }

    /// Records a shadow rule that would deny if it were enforced.
    pub(crate) fn would_deny(&mut self, grounds: &Grounds) {
        if let Some(rule) = grounds.rule() {
            let asked = grounds.reason().to_owned();
            self.add(rule, || None, || asked.clone(), Said::WouldDeny);
        }
    }

    /// Records the rule that denies, and the suggested change.
    pub(crate) fn denied(&mut self, definition: &ToolDefinition, grounds: &Grounds) {
        let Some(rule) = grounds.rule() else { return };
        let asked = self.asked.clone();
        self.add(rule, || None, || asked.clone(), Said::Denies);
        if let Some(written) = &mut self.trail.written {
            let offered = self.offered.take().unwrap_or_else(|| remedy::quoted(&asked));
            let held = Held { asked: &asked, offered: &offered };
            written.changes.extend(remedy::of_denial(definition, grounds, held));
        }
    }

    fn add(
        &mut self,
        rule: &RuleRef,
        states: impl FnOnce() -> Option<String>,
        asked: impl FnOnce() -> String,
        said: Said,
    ) {
        let Some(written) = &mut self.trail.written else { return };
        let step = Step { rule: rule.clone(), states: states(), asked: asked(), said };
        if !written.steps.contains(&step) {
            self.asked.clone_from(&step.asked);
            written.steps.push(step);
        }
    }
}
