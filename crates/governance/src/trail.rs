//! How a verdict came about: every rule that was looked at, in order, what it was asked and what it said.
//!
//! The judge writes a trail only where somebody reads it. On the way of an ordinary call the trail is [`Trail::off`],
//! and a step costs one comparison.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{RuleRef, ToolDefinition};

use crate::grounds::Grounds;
use crate::remedy::{self, Change, Held};

/// What a rule said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// It does not apply to this call.
    DoesNotApply,
    /// It applies and lets the call pass.
    Passes,
    /// It applies and asks for a human.
    Asks,
    /// It applies and would deny, and is only recorded.
    WouldDeny,
    /// It applies and denies: nothing further was looked at.
    Denies,
}

/// One rule that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// The rule, with file and line.
    pub rule: RuleRef,
    /// What it states, as it is written: a pattern, a mode, a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<String>,
    /// What it was held against: a mode, a canonical path, a host, a count.
    pub asked: String,
    /// What it said.
    pub said: Said,
}

/// What the judge looked at. It names what links lead to, so it is for the person at the machine, not for the agent.
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
    /// One that nothing is written on: for calls that are only judged.
    pub fn off() -> Self {
        Trail { written: None }
    }

    /// One that every step is written on.
    pub fn on() -> Self {
        Trail { written: Some(Written::default()) }
    }

    /// Every rule that was looked at, in order. What [`judge`](crate::judge) looked at once more with the same result
    /// stands once.
    pub fn steps(&self) -> &[Step] {
        self.written.as_ref().map_or(&[], |written| &written.steps)
    }

    /// The smallest changes of the rules, one for each rule that stands in the way, after which this rule would let
    /// the call run by itself. Empty for a call that runs, and where no file can change the answer.
    pub fn changes(&self) -> &[Change] {
        self.written.as_ref().map_or(&[], |written| &written.changes)
    }
}

/// What one stage of the judge keeps while it works: the rules it passed, and the trail, if one is written.
pub(crate) struct Notes<'t> {
    pub(crate) passed: Vec<RuleRef>,
    trail: &'t mut Trail,
    /// What the last step was asked, for the rule that then denies.
    asked: String,
    /// What the rule that then denies would have to say of it, as a file writes it.
    offered: Option<String>,
}

impl<'t> Notes<'t> {
    pub(crate) fn on(trail: &'t mut Trail) -> Self {
        Notes { passed: Vec::new(), trail, asked: String::new(), offered: None }
    }

    /// A rule that lets the call pass, and belongs to those that led to the verdict.
    pub(crate) fn passes(&mut self, rule: RuleRef, states: impl Fn() -> String, asked: impl Fn() -> String) {
        self.add(&rule, || Some(states()), asked, Said::Passes);
        self.passed.push(rule);
    }

    /// A rule that holds without having led to the verdict.
    pub(crate) fn holds(&mut self, rule: &RuleRef, states: impl Fn() -> String, asked: impl Fn() -> String) {
        self.add(rule, || Some(states()), asked, Said::Passes);
    }

    /// What is held against the rules that follow.
    pub(crate) fn asks(&mut self, asked: impl Fn() -> String) {
        if self.trail.written.is_some() {
            self.asked = asked();
            self.offered = None;
        }
    }

    /// How a file writes what was asked last, or the pattern that is about to deny it.
    pub(crate) fn offers(&mut self, written: impl Fn() -> String) {
        if self.trail.written.is_some() {
            self.offered = Some(written());
        }
    }

    /// Rules that do not apply to what was asked last.
    pub(crate) fn skips<'r>(&mut self, rules: impl IntoIterator<Item = (&'r RuleRef, String)>) {
        if self.trail.written.is_none() {
            return;
        }
        for (rule, states) in rules {
            let asked = self.asked.clone();
            self.add(rule, || Some(states.clone()), || asked.clone(), Said::DoesNotApply);
        }
    }

    /// Whether anybody reads what is written: for lists that are dear to make.
    pub(crate) fn are_read(&self) -> bool {
        self.trail.written.is_some()
    }

    /// The rules that ask for a human.
    pub(crate) fn asked_by(&mut self, rules: &[RuleRef], asked: impl Fn() -> String) {
        for rule in rules {
            self.add(rule, || None, &asked, Said::Asks);
        }
        if let Some(written) = &mut self.trail.written {
            written.changes.extend(rules.iter().map(remedy::of_question));
        }
    }

    /// A rule that would deny if its tool's rules were enforced.
    pub(crate) fn would_deny(&mut self, grounds: &Grounds) {
        if let Some(rule) = grounds.rule() {
            let asked = grounds.reason().to_owned();
            self.add(rule, || None, || asked.clone(), Said::WouldDeny);
        }
    }

    /// The rule that denies, and what would have to change.
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
