//! Rate limits of tools that are far above the recorded rate.
//!
//! Each record has the count that the limit was compared with, so the highest count is
//! known exactly. A limit that
//! refused a call is left alone: the rate that was needed is then not in the record.

use governance::files::VerdictKind;
use governance::rules::EffectivePolicy;
use governance::suggested_change::PolicyFile;
use serde_json::Value;

use super::replay_effect::ReplayEffect;
use super::tool_record::ToolRecord;
use super::user_file_edit::ToolKey;
use super::{SuggestContext, Suggestion, SuggestionKind};

/// Fewest calls that show a rate.
const MIN_TOOL_CALLS: usize = 20;
/// Lowest limit that is suggested.
const MIN_LIMIT: u32 = 10;
/// Suggested limit, as a multiple of the highest recorded count.
const HEADROOM: u32 = 2;
/// A limit is suggested if the present one is at least this many times as high.
const MIN_REDUCTION: u32 = 2;

pub(super) fn find(context: &SuggestContext<'_>, tool: &ToolRecord<'_>) -> Option<Suggestion> {
    let rules = EffectivePolicy::new(context.policy, tool.definition).rules?;
    let (limit, _) = rules.calls_per_hour.as_ref().filter(|_| rules.shadow.is_none())?;
    if tool.permitted().count() < MIN_TOOL_CALLS {
        return None;
    }
    let before = tool.permitted().map(|judged| judged.facts.counts().tool_last_hour).max()?;
    let peak = before.checked_add(1)?;
    let was_reached = tool
        .judged
        .iter()
        .any(|judged| judged.verdict == VerdictKind::Deny && judged.facts.counts().tool_last_hour >= *limit);
    let suggested = peak.checked_mul(HEADROOM)?.max(MIN_LIMIT);
    if was_reached || tool.unknown_runs > 0 || suggested.checked_mul(MIN_REDUCTION)? > *limit {
        return None;
    }
    let key = ToolKey { tool: tool.name(), key: "rate_limit_per_hour" };
    let candidate = key.set(context, &Value::from(suggested))?;
    let effect = ReplayEffect::of(&candidate, context, tool);
    let text = candidate.user_text(PolicyFile::Tools)?.to_owned();
    effect.changes_nothing().then(|| Suggestion {
        kind: SuggestionKind::Rate,
        tool: tool.name().to_owned(),
        summary: format!(
            "{}: {limit} calls an hour are permitted, the most in an hour were {peak}",
            tool.name()
        ),
        evidence: vec![match suggested {
            MIN_LIMIT => format!("{MIN_LIMIT} an hour is the lowest limit that is suggested"),
            _ => format!("{suggested} an hour is {HEADROOM} times the highest rate"),
        }],
        caution: None,
        change: Some((PolicyFile::Tools, text)),
        effect,
    })
}
