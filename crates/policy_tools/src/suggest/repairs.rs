//! Refusals after which the caller always did the same permitted thing.
//!
//! The rule works and the caller corrects itself, so no change is suggested. Instructions for the caller could
//! name the permitted target. Arguments are recorded as digests, so only programs, hosts and folders are compared.

use std::collections::BTreeMap;

use governance::RecordedCall;
use governance::files::VerdictKind;
use jiff::SignedDuration;

use super::tool_record::ToolRecord;
use super::{ReplayEffect, Suggestion, SuggestionKind, counted, folder_text};

/// Fewest refusals that show a habit.
const MIN_REFUSALS: usize = 3;
/// Longest time between a refusal and its repair.
const MAX_GAP: SignedDuration = SignedDuration::from_mins(5);

pub(super) fn find(tool: &ToolRecord<'_>) -> Vec<Suggestion> {
    let mut calls: Vec<_> = tool.judged.iter().collect();
    calls.sort_by_key(|judged| judged.call.time);
    // The next permitted call of each party, from the end of the record.
    let mut next = BTreeMap::new();
    let mut repairs: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
    for judged in calls.into_iter().rev() {
        let party = judged.call.party.as_str();
        match (judged.verdict, target(judged.facts)) {
            (VerdictKind::Deny, Some(refused)) => {
                let repaired = next.get(party).filter(|(time, _)| judged.call.time + MAX_GAP >= *time);
                let by = repaired.and_then(|(_, target): &(_, Option<String>)| target.clone());
                repairs.entry(refused).or_default().push(by);
            }
            (VerdictKind::Deny, None) => {}
            (VerdictKind::Allow | VerdictKind::Ask, target) => {
                drop(next.insert(party, (judged.call.time, target)))
            }
        }
    }
    let always = repairs.into_iter().filter_map(|(refused, repaired)| {
        let first = repaired.first()?.clone()?;
        let same = repaired.len() >= MIN_REFUSALS && repaired.iter().all(|one| one.as_ref() == Some(&first));
        (same && first != refused).then_some((refused, first, repaired.len()))
    });
    always.map(|(refused, repaired, count)| suggestion(tool, &refused, &repaired, count)).collect()
}

fn suggestion(tool: &ToolRecord<'_>, refused: &str, repaired: &str, count: usize) -> Suggestion {
    Suggestion {
        kind: SuggestionKind::RepairedRefusal,
        tool: tool.name().to_owned(),
        summary: format!("{}: refused for {refused}, then always repeated with {repaired}", tool.name()),
        evidence: vec![format!("{}, each repaired within five minutes", counted(count, "refusal"))],
        caution: None,
        change: None,
        effect: ReplayEffect::default(),
    }
}

/// Returns the target of a call as text: its program, its host or its folder.
fn target(facts: &RecordedCall) -> Option<String> {
    let program = facts.commands().next().and_then(|words| words.first().cloned());
    let host = || facts.hosts().next();
    let folder = || facts.paths().next().map(|(_, path)| folder_text(path));
    program.or_else(host).or_else(folder)
}
