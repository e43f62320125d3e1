//! Suggestions that remove unneeded approvals and unused permissions, derived from the recorded calls.
//!
//! A pure function of the policy and the record. Each suggested change is a new text of one of the user's
//! files, and its effect is the result of judging the recorded calls again under it: a suggestion makes no
//! claim that the replay does not show. Only allowlists, a tool's own rate limit and its own approvals are
//! ever changed; built-in denials, secrets and every other forbidding rule stay as they are.

mod approval_questions;
mod narrowed_lists;
mod rates;
mod repairs;
mod replay_effect;
mod tool_record;
mod unused_rules;
mod user_file_edit;

#[cfg(test)]
mod tests;

use std::path::Path;

use governance::files::VerdictKind;
use governance::policy_environment::PolicyEnvironment;
use governance::suggested_change::PolicyFile;
use governance::{Policy, RecordedCall, Workspaces};
use jiff::Timestamp;
use serde::Serialize;
use tool::ToolDefinition;

pub use replay_effect::ReplayEffect;
use tool_record::ToolRecord;
pub(crate) use user_file_edit::flow_text;

/// Fewest recorded calls from which a rule counts as unused.
pub const MIN_CALLS: usize = 50;

/// Everything that the recorded calls are judged with.
pub struct SuggestContext<'a> {
    /// Policy to improve.
    pub policy: &'a Policy,
    /// Environment in which its files are loaded.
    pub environment: &'a PolicyEnvironment,
    /// Workspaces of the callers.
    pub workspaces: &'a Workspaces,
    /// Every tool.
    pub definitions: Vec<&'a ToolDefinition>,
    /// Start of the period that suggestions are based on. Earlier calls only tell when a rule was last used.
    pub since: Timestamp,
}

/// Call from the ledger.
pub struct ObservedCall<'a> {
    /// Id of the call.
    pub call_id: String,
    /// Time of the record.
    pub time: Timestamp,
    /// Definition by which the call is judged.
    pub definition: &'a ToolDefinition,
    /// Party that made the call.
    pub party: String,
    /// Verdict of the rules when the call was made.
    pub verdict: VerdictKind,
    /// The operator's answer, if this call asked the operator a question.
    pub answer: Option<OperatorAnswer>,
    /// Facts of the decision; `None` where the record is incomplete.
    pub facts: Option<RecordedCall>,
}

/// Answer to an approval request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperatorAnswer {
    /// Approved, after this many seconds.
    Granted {
        /// Time from the request to the approval.
        seconds: u64,
    },
    /// Denied.
    Denied,
    /// Not answered in time, or withdrawn.
    Unanswered,
}

/// Kind of waste that a suggestion removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SuggestionKind {
    /// Approvals that were always granted.
    AlwaysApproved,
    /// A wildcard that permits more than was used.
    Wildcard,
    /// Entries of an allowlist that no call needed.
    UnusedRule,
    /// A rate limit far above the recorded rate.
    Rate,
    /// Refusals after which the caller always did the same permitted thing. Nothing has to be changed.
    RepairedRefusal,
}

/// Suggested change, or an observation without one.
#[derive(Clone, Debug)]
pub struct Suggestion {
    /// Kind of waste.
    pub kind: SuggestionKind,
    /// Tool that it concerns.
    pub tool: String,
    /// Finding in one sentence.
    pub summary: String,
    /// Evidence, one fact per line.
    pub evidence: Vec<String>,
    /// Limit of what the record can show, if there is one.
    pub caution: Option<&'static str>,
    /// New text of a user's file; `None` for an observation.
    pub change: Option<(PolicyFile, String)>,
    /// Result of judging the recorded calls again with the change.
    pub effect: ReplayEffect,
}

/// Suggestions, and the record that they are based on.
#[derive(Clone, Debug)]
pub struct SuggestReport {
    /// Calls of the period that could be judged again.
    pub calls: usize,
    /// Calls of the period whose record is incomplete.
    pub not_judged: usize,
    /// Questions that the operator was asked in the period.
    pub questions: usize,
    /// Suggestions, the most useful first.
    pub suggestions: Vec<Suggestion>,
}

/// Finds waste in a policy by the recorded calls.
pub fn suggest<'a>(
    context: &SuggestContext<'a>,
    calls: impl IntoIterator<Item = ObservedCall<'a>>,
) -> SuggestReport {
    let calls: Vec<ObservedCall<'a>> = calls.into_iter().collect();
    let tools = ToolRecord::group(context, &calls);
    let judged = tools.iter().map(|tool| tool.judged.len()).sum();
    let in_period = calls.iter().filter(|call| call.time >= context.since);
    let mut suggestions = Vec::new();
    for tool in &tools {
        suggestions.extend(approval_questions::find(context, tool));
        suggestions.extend(narrowed_lists::find(context, tool));
        if judged >= MIN_CALLS {
            suggestions.extend(unused_rules::find(context, tool));
        }
        suggestions.extend(rates::find(context, tool));
        suggestions.extend(repairs::find(tool));
    }
    for suggestion in &mut suggestions {
        suggestion.effect.calls = judged;
    }
    suggestions.sort_by_key(|one| (one.kind, std::cmp::Reverse(one.effect.questions_fewer)));
    SuggestReport {
        calls: judged,
        not_judged: in_period.clone().count() - judged,
        questions: in_period.filter(|call| call.answer.is_some()).count(),
        suggestions,
    }
}

/// Returns the folder of a path as text for a person.
fn folder_text(path: &Path) -> String {
    path.parent().unwrap_or(path).display().to_string()
}

/// Returns `1 call` or `3 calls`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
