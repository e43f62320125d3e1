//! Recorded calls of one tool, judged by the present policy.

use std::collections::{BTreeMap, HashMap};

use governance::RecordedCall;
use governance::files::VerdictKind;
use governance::rule_trace::{RuleOutcome, RuleTrace};
use jiff::Timestamp;
use tool::ToolDefinition;

use super::{ObservedCall, SuggestContext};

/// Call of the period and its verdict under the present policy.
pub(super) struct JudgedCall<'r> {
    pub(super) call: &'r ObservedCall<'r>,
    pub(super) facts: &'r RecordedCall,
    pub(super) verdict: VerdictKind,
}

/// Calls of one tool.
pub(super) struct ToolRecord<'r> {
    pub(super) definition: &'r ToolDefinition,
    /// Calls of the period that can be judged, in the order of the record.
    pub(super) judged: Vec<JudgedCall<'r>>,
    /// Calls before the period that can be judged.
    older: Vec<(&'r ObservedCall<'r>, &'r RecordedCall)>,
    /// Calls of the period that ran and whose record is incomplete. Nothing is known about the rules that
    /// they needed.
    pub(super) unknown_runs: usize,
}

/// Entry of a list that let a call pass: the key of the list and the entry as the judge shows it.
pub(super) type RuleUse = (String, String);

impl<'r> ToolRecord<'r> {
    /// Groups the calls by tool. A tool without calls has an empty record.
    pub(super) fn group(context: &SuggestContext<'r>, calls: &'r [ObservedCall<'r>]) -> Vec<ToolRecord<'r>> {
        let empty = |definition: &'r ToolDefinition| ToolRecord {
            definition,
            judged: Vec::new(),
            older: Vec::new(),
            unknown_runs: 0,
        };
        let mut tools: BTreeMap<&str, ToolRecord<'r>> = BTreeMap::new();
        for definition in &context.definitions {
            tools.insert(definition.name().as_str(), empty(definition));
        }
        for call in calls {
            let name = call.definition.name().as_str();
            tools.entry(name).or_insert_with(|| empty(call.definition)).add(context, call);
        }
        tools.into_values().collect()
    }

    fn add(&mut self, context: &SuggestContext<'r>, call: &'r ObservedCall<'r>) {
        let in_period = call.time >= context.since;
        match &call.facts {
            Some(facts) if in_period => {
                let trace = RuleTrace::disabled();
                let now = context.policy.replay_call(call.definition, facts, context.workspaces, trace);
                self.judged.push(JudgedCall { call, facts, verdict: now.verdict });
            }
            Some(facts) => self.older.push((call, facts)),
            None if in_period && call.verdict != VerdictKind::Deny => self.unknown_runs += 1,
            None => {}
        }
    }

    /// Returns the name of the tool.
    pub(super) fn name(&self) -> &'r str {
        self.definition.name().as_str()
    }

    /// Returns the calls of the period that the present policy does not deny.
    pub(super) fn permitted(&self) -> impl Iterator<Item = &JudgedCall<'r>> {
        self.judged.iter().filter(|judged| judged.verdict != VerdictKind::Deny)
    }

    /// Returns the entries that let a call of the period pass.
    pub(super) fn uses_in_period(&self, context: &SuggestContext<'_>) -> HashMap<RuleUse, Timestamp> {
        self.uses(context, self.permitted().map(|judged| (judged.call.time, judged.facts)))
    }

    /// Returns the entries that let a call before the period pass, with the time of the last one.
    pub(super) fn uses_before(&self, context: &SuggestContext<'_>) -> HashMap<RuleUse, Timestamp> {
        self.uses(context, self.older.iter().map(|(call, facts)| (call.time, *facts)))
    }

    fn uses<'f>(
        &self,
        context: &SuggestContext<'_>,
        calls: impl Iterator<Item = (Timestamp, &'f RecordedCall)>,
    ) -> HashMap<RuleUse, Timestamp> {
        // The entry that matches depends on the targets alone, and most calls repeat earlier targets. A trace
        // costs several times as much as a verdict.
        let mut by_targets: HashMap<String, (Timestamp, &RecordedCall)> = HashMap::new();
        for (time, facts) in calls {
            let last = by_targets.entry(target_key(facts)).or_insert((time, facts));
            last.0 = last.0.max(time);
        }
        let mut uses = HashMap::new();
        for (time, facts) in by_targets.into_values() {
            let trace = RuleTrace::enabled();
            let found = context.policy.replay_call(self.definition, facts, context.workspaces, trace);
            let passed = found.trace.steps().iter().filter(|step| step.outcome == RuleOutcome::Passes);
            for step in passed {
                let Some((_, key)) = step.rule.id.rsplit_once('.') else { continue };
                let used = (key.to_owned(), step.content.clone().unwrap_or_default());
                let last: &mut Timestamp = uses.entry(used).or_insert(time);
                *last = (*last).max(time);
            }
        }
        uses
    }
}

fn target_key(facts: &RecordedCall) -> String {
    let paths: Vec<_> = facts.paths().collect();
    let commands: Vec<_> = facts.commands().collect();
    let hosts: Vec<_> = facts.hosts().collect();
    format!("{} {paths:?} {commands:?} {hosts:?}", facts.mode())
}
