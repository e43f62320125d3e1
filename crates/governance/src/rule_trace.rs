//! Trace of a decision: every rule that was evaluated, in order, with the value it was evaluated against and
//! its outcome.
//!
//! The judge records a trace only on request. For an ordinary call the trace is disabled
//! (`RuleTrace::disabled`), and a step costs one comparison.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{RuleRef, ToolDefinition};

use crate::denial_reason::DenialReason;
use crate::suggested_change::{self, RuleOperand, SuggestedChange};

/// Outcome of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleOutcome {
    /// The rule does not apply to this call.
    DoesNotApply,
    /// The rule applies and lets the call pass.
    Passes,
    /// The rule applies and requires approval.
    RequiresApproval,
    /// The rule applies and would deny, but is only recorded.
    WouldDeny,
    /// The rule applies and denies: no further rule was evaluated.
    Denies,
}

/// One evaluated rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceStep {
    /// Rule, with file and line.
    pub rule: RuleRef,
    /// Content of the rule as written: a pattern, a mode, a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Value that the rule was evaluated against: a mode, a canonical path, a host, a count.
    pub value: String,
    /// Outcome of the rule.
    pub outcome: RuleOutcome,
}

/// Trace of the evaluated rules. It contains the targets of symbolic links, so it is for the operator, not
/// for the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleTrace {
    content: Option<TraceContent>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TraceContent {
    steps: Vec<TraceStep>,
    changes: Vec<SuggestedChange>,
}

impl RuleTrace {
    /// Creates a trace that records nothing, for ordinary calls.
    pub fn disabled() -> Self {
        RuleTrace { content: None }
    }

    /// Creates a trace that records every step.
    pub fn enabled() -> Self {
        RuleTrace { content: Some(TraceContent::default()) }
    }

    /// Returns every evaluated rule, in order. A rule that `judge` evaluated again with the same outcome is
    /// listed once.
    pub fn steps(&self) -> &[TraceStep] {
        self.content.as_ref().map_or(&[], |written| &written.steps)
    }

    /// Returns the smallest changes of the rules, one for each rule that denies or requires approval, after
    /// which that rule would let the call run without approval. Empty for a call that runs, and where no file
    /// can change the outcome.
    pub fn changes(&self) -> &[SuggestedChange] {
        self.content.as_ref().map_or(&[], |written| &written.changes)
    }
}

/// Recorder of one stage: the rules that passed, and the trace if it is enabled.
pub(crate) struct TraceRecorder<'t> {
    pub(crate) passed_rules: Vec<RuleRef>,
    trace: &'t mut RuleTrace,
    /// Value of the last step, for the rule that denies next.
    value: String,
    /// YAML text of that value, or of the pattern that denies it, for the suggested change.
    yaml: Option<String>,
}

impl<'t> TraceRecorder<'t> {
    pub(crate) fn new(trace: &'t mut RuleTrace) -> Self {
        TraceRecorder { passed_rules: Vec::new(), trace, value: String::new(), yaml: None }
    }

    /// Records a rule that lets the call pass and contributes to the verdict.
    pub(crate) fn record_passed(
        &mut self,
        rule: RuleRef,
        content: impl Fn() -> String,
        value: impl Fn() -> String,
    ) {
        self.add_step(&rule, || Some(content()), value, RuleOutcome::Passes);
        self.passed_rules.push(rule);
    }

    /// Records a rule that is satisfied but does not contribute to the verdict.
    pub(crate) fn record_satisfied(
        &mut self,
        rule: &RuleRef,
        content: impl Fn() -> String,
        value: impl Fn() -> String,
    ) {
        self.add_step(rule, || Some(content()), value, RuleOutcome::Passes);
    }

    /// Sets the value that the following rules are evaluated against.
    pub(crate) fn set_value(&mut self, value: impl Fn() -> String) {
        if self.trace.content.is_some() {
            self.value = value();
            self.yaml = None;
        }
    }

    /// Sets the YAML text of the current value, or of the pattern that is about to deny it.
    pub(crate) fn set_yaml(&mut self, written: impl Fn() -> String) {
        if self.trace.content.is_some() {
            self.yaml = Some(written());
        }
    }

    /// Records rules that do not apply to the current value.
    pub(crate) fn record_skipped<'r>(&mut self, rules: impl IntoIterator<Item = (&'r RuleRef, String)>) {
        if self.trace.content.is_none() {
            return;
        }
        for (rule, content) in rules {
            let value = self.value.clone();
            self.add_step(rule, || Some(content.clone()), || value.clone(), RuleOutcome::DoesNotApply);
        }
    }

    /// Returns true if the trace is recorded. Lets callers skip expensive lists.
    pub(crate) fn is_enabled(&self) -> bool {
        self.trace.content.is_some()
    }

    /// Records the rules that require approval.
    pub(crate) fn record_approvals(&mut self, rules: &[RuleRef], value: impl Fn() -> String) {
        for rule in rules {
            self.add_step(rule, || None, &value, RuleOutcome::RequiresApproval);
        }
        if let Some(written) = &mut self.trace.content {
            written.changes.extend(rules.iter().map(suggested_change::for_approval));
        }
    }

    /// Records a shadow rule that would deny if it were enforced.
    pub(crate) fn record_shadow_denial(&mut self, denial_reason: &DenialReason) {
        if let Some(rule) = denial_reason.rule() {
            let value = denial_reason.reason().to_owned();
            self.add_step(rule, || None, || value.clone(), RuleOutcome::WouldDeny);
        }
    }

    /// Records the rule that denies, and the suggested change.
    pub(crate) fn record_denied(&mut self, definition: &ToolDefinition, denial_reason: &DenialReason) {
        let Some(rule) = denial_reason.rule() else { return };
        let value = self.value.clone();
        self.add_step(rule, || None, || value.clone(), RuleOutcome::Denies);
        if let Some(written) = &mut self.trace.content {
            let offered = self.yaml.take().unwrap_or_else(|| suggested_change::quote_yaml(&value));
            let operand = RuleOperand { value: &value, yaml: &offered };
            written.changes.extend(suggested_change::for_denial(definition, denial_reason, operand));
        }
    }

    fn add_step(
        &mut self,
        rule: &RuleRef,
        content: impl FnOnce() -> Option<String>,
        value: impl FnOnce() -> String,
        outcome: RuleOutcome,
    ) {
        let Some(written) = &mut self.trace.content else { return };
        let step = TraceStep { rule: rule.clone(), content: content(), value: value(), outcome };
        if !written.steps.contains(&step) {
            self.value.clone_from(&step.value);
            written.steps.push(step);
        }
    }
}
