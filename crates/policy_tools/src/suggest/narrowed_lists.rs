//! Wildcards that permit every program or host, where few were used.

use std::collections::BTreeMap;

use governance::Policy;
use governance::rules::{EffectivePolicy, HostPattern};
use governance::suggested_change::PolicyFile;
use serde_json::Value;
use tool::definition::ExternalTargetKind;

use super::replay_effect::ReplayEffect;
use super::tool_record::{JudgedCall, ToolRecord};
use super::unused_rules::{REDIRECTS, allowlists};
use super::user_file_edit::ToolKey;
use super::{SuggestContext, Suggestion, SuggestionKind, counted};

/// Fewest calls that show what a tool is used for.
const MIN_TOOL_CALLS: usize = 20;
/// Most names that a person would review.
const MAX_NAMES: usize = 20;

pub(super) fn find(context: &SuggestContext<'_>, tool: &ToolRecord<'_>) -> Vec<Suggestion> {
    if tool.unknown_runs > 0 || tool.permitted().count() < MIN_TOOL_CALLS {
        return Vec::new();
    }
    let programs =
        used(tool, |call| call.facts.commands().filter_map(|words| words.first().cloned()).collect());
    let hosts = used(tool, |call| call.facts.hosts().collect());
    let commands = ToolKey { tool: tool.name(), key: "allowed_commands" };
    let domains = ToolKey { tool: tool.name(), key: "allowed_domains" };
    let any_program = replace_wildcard(context, tool, commands, &programs);
    let any_host = match has_host_list(context.policy, tool) {
        true => replace_wildcard(context, tool, domains, &hosts),
        false => add_host_list(context, tool, domains, &hosts),
    };
    let programs =
        any_program.and_then(|policy| suggestion(context, tool, &policy, (&programs, "program"), None));
    let hosts =
        any_host.and_then(|policy| suggestion(context, tool, &policy, (&hosts, "host"), Some(REDIRECTS)));
    programs.into_iter().chain(hosts).collect()
}

/// Counts the calls of each name.
fn used(tool: &ToolRecord<'_>, names: impl Fn(&JudgedCall<'_>) -> Vec<String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for name in tool.permitted().flat_map(names) {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

fn has_host_list(policy: &Policy, tool: &ToolRecord<'_>) -> bool {
    EffectivePolicy::new(policy, tool.definition).rules.is_some_and(|rules| rules.hosts.is_some())
}

fn replace_wildcard(
    context: &SuggestContext<'_>,
    tool: &ToolRecord<'_>,
    key: ToolKey<'_>,
    names: &BTreeMap<String, usize>,
) -> Option<Policy> {
    let lists = allowlists(context.policy, tool);
    let (_, items) = lists.into_iter().find(|(known, _)| known.key == key.key)?;
    let wildcard = items.iter().find(|item| item.content == "*")?.clone();
    let is_listed = |name: &&String| items.iter().any(|item| item.content == **name);
    let added: Vec<String> = names.keys().filter(|name| !is_listed(name)).cloned().collect();
    key.change_list(context, &[wildcard], &added)
}

/// Gives a tool without a list of its own the hosts that it used, if the gateway permits every host.
fn add_host_list(
    context: &SuggestContext<'_>,
    tool: &ToolRecord<'_>,
    key: ToolKey<'_>,
    names: &BTreeMap<String, usize>,
) -> Option<Policy> {
    let mut arguments = tool.definition.external_target_arguments().iter();
    let gateway = &context.policy.safety_rules().gateway.allowed.hosts;
    let is_open = gateway.iter().any(|rule| rule.pattern == HostPattern::Any);
    let has_url = arguments.any(|argument| argument.kind == ExternalTargetKind::Url);
    let hosts = names.keys().cloned().map(Value::String).collect();
    if has_url && is_open { key.set(context, &Value::Array(hosts)) } else { None }
}

fn suggestion(
    context: &SuggestContext<'_>,
    tool: &ToolRecord<'_>,
    candidate: &Policy,
    (names, noun): (&BTreeMap<String, usize>, &str),
    caution: Option<&'static str>,
) -> Option<Suggestion> {
    if names.is_empty() || names.len() > MAX_NAMES {
        return None;
    }
    let effect = ReplayEffect::of(candidate, context, tool);
    let text = candidate.user_text(PolicyFile::Tools)?.to_owned();
    effect.changes_nothing().then(|| Suggestion {
        kind: SuggestionKind::Wildcard,
        tool: tool.name().to_owned(),
        summary: format!(
            "{}: every {noun} is permitted, {} used",
            tool.name(),
            match names.len() {
                1 => "1 was".to_owned(),
                many => format!("{many} were"),
            }
        ),
        evidence: names
            .iter()
            .map(|(name, calls)| format!("`{name}`: {}", counted(*calls, "call")))
            .collect(),
        caution,
        change: Some((PolicyFile::Tools, text)),
        effect,
    })
}
