//! Approvals that were always granted.
//!
//! A tool with paths gets `unattended_paths` for the folders in which every approval request was granted; the
//! questions elsewhere stay. A tool without paths loses its own `requires_approval` if every question was
//! granted. Approvals required by a mode, by `safety.yaml` or by the definition stay.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use governance::Policy;
use governance::files::VerdictKind;
use governance::suggested_change::PolicyFile;
use serde_json::Value;

use super::replay_effect::ReplayEffect;
use super::tool_record::{JudgedCall, ToolRecord};
use super::user_file_edit::ToolKey;
use super::{OperatorAnswer, SuggestContext, Suggestion, SuggestionKind, counted, folder_text};
use crate::seen_paths::path_patterns;

/// Fewest questions that show a habit.
const MIN_QUESTIONS: usize = 5;

pub(super) fn find(context: &SuggestContext<'_>, tool: &ToolRecord<'_>) -> Vec<Suggestion> {
    let asked = tool.judged.iter().filter(|judged| judged.verdict == VerdictKind::Ask);
    let questions: Vec<&JudgedCall<'_>> = asked.filter(|judged| judged.call.answer.is_some()).collect();
    if questions.is_empty() {
        return Vec::new();
    }
    if tool.definition.path_arguments().is_empty() {
        return waive_for_tool(context, tool, &questions).into_iter().collect();
    }
    by_folder(&questions)
        .into_values()
        .filter_map(|questions| waive_in_folder(context, tool, &questions))
        .collect()
}

/// Groups the questions by the folder of their first path. Questions without a path stay.
fn by_folder<'q, 'r>(questions: &[&'q JudgedCall<'r>]) -> BTreeMap<PathBuf, Vec<&'q JudgedCall<'r>>> {
    let mut folders: BTreeMap<PathBuf, Vec<&JudgedCall<'_>>> = BTreeMap::new();
    for question in questions {
        if let Some(folder) = question.facts.paths().next().and_then(|(_, path)| path.parent()) {
            folders.entry(folder.to_owned()).or_default().push(question);
        }
    }
    folders
}

fn waive_in_folder(
    context: &SuggestContext<'_>,
    tool: &ToolRecord<'_>,
    questions: &[&JudgedCall<'_>],
) -> Option<Suggestion> {
    let seconds = approval_delays(questions)?;
    let seen: BTreeSet<&Path> =
        questions.iter().flat_map(|question| question.facts.paths().map(|(_, path)| path)).collect();
    let folder = folder_text(seen.first()?);
    let refused = tool.judged.iter().filter(|judged| was_refused(judged));
    let refused = refused.flat_map(|judged| judged.facts.paths().map(|(_, path)| path)).collect();
    let patterns = path_patterns(context.policy, tool.definition, &seen, &refused);
    let key = ToolKey { tool: tool.name(), key: "unattended_paths" };
    let candidate = key.change_list(context, &[], &patterns)?;
    let summary = format!("{}: every approval request in {folder} was granted", tool.name());
    suggestion(context, tool, &candidate, summary, &seconds)
}

fn waive_for_tool(
    context: &SuggestContext<'_>,
    tool: &ToolRecord<'_>,
    questions: &[&JudgedCall<'_>],
) -> Option<Suggestion> {
    let seconds = approval_delays(questions)?;
    let key = ToolKey { tool: tool.name(), key: "requires_approval" };
    // Only a line of the user's own file is taken back.
    if key.user_value(context.policy) != Some(Value::Bool(true)) {
        return None;
    }
    let candidate = key.set(context, &Value::Bool(false))?;
    let summary = format!("{}: every approval request was granted", tool.name());
    suggestion(context, tool, &candidate, summary, &seconds)
}

fn suggestion(
    context: &SuggestContext<'_>,
    tool: &ToolRecord<'_>,
    candidate: &Policy,
    summary: String,
    seconds: &[u64],
) -> Option<Suggestion> {
    let effect = ReplayEffect::of(candidate, context, tool);
    let text = candidate.user_text(PolicyFile::Tools)?.to_owned();
    let median = seconds.get(seconds.len() / 2).copied().unwrap_or_default();
    effect.only_asks_less().then(|| Suggestion {
        kind: SuggestionKind::AlwaysApproved,
        tool: tool.name().to_owned(),
        summary,
        evidence: vec![format!(
            "{} approved, none denied, half of them within {}",
            counted(seconds.len(), "question"),
            counted(usize::try_from(median).unwrap_or(usize::MAX), "second")
        )],
        caution: None,
        change: Some((PolicyFile::Tools, text)),
        effect,
    })
}

/// Returns the sorted times to approval if there were enough questions and every answer was yes.
fn approval_delays(questions: &[&JudgedCall<'_>]) -> Option<Vec<u64>> {
    let answered = |question: &&JudgedCall<'_>| match question.call.answer {
        Some(OperatorAnswer::Granted { seconds }) => Some(seconds),
        Some(OperatorAnswer::Denied | OperatorAnswer::Unanswered) | None => None,
    };
    let mut seconds = questions.iter().map(answered).collect::<Option<Vec<u64>>>()?;
    seconds.sort_unstable();
    (seconds.len() >= MIN_QUESTIONS).then_some(seconds)
}

/// Returns true if the rules or the operator refused the call.
fn was_refused(judged: &JudgedCall<'_>) -> bool {
    judged.verdict == VerdictKind::Deny || judged.call.answer == Some(OperatorAnswer::Denied)
}
