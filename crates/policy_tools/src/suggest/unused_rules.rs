//! Entries of the user's allowlists that no call of the period needed.
//!
//! Forbidding rules are not waste when nothing meets them, so they are never suggested for removal.

use governance::Policy;
use governance::rules::EffectivePolicy;
use governance::suggested_change::PolicyFile;
use jiff::Timestamp;
use tool::RuleRef;

use super::replay_effect::ReplayEffect;
use super::tool_record::ToolRecord;
use super::user_file_edit::{ToolKey, UserItem};
use super::{SuggestContext, Suggestion, SuggestionKind};

/// Limit of the record: only the hosts in the arguments of a call are in it.
pub(super) const REDIRECTS: &str =
    "redirects are not recorded: a page that redirects to another host would be refused";

pub(super) fn find(context: &SuggestContext<'_>, tool: &ToolRecord<'_>) -> Vec<Suggestion> {
    // A call whose record is incomplete may have needed any of the entries.
    if tool.unknown_runs > 0 {
        return Vec::new();
    }
    let lists = allowlists(context.policy, tool);
    if lists.iter().all(|(_, items)| items.is_empty()) {
        return Vec::new();
    }
    let used = tool.uses_in_period(context);
    let mut last_uses = None;
    let mut found = Vec::new();
    for (key, items) in lists {
        let is_unused = |item: &UserItem| !used.contains_key(&(key.key.to_owned(), item.content.clone()));
        let unused: Vec<UserItem> = items.into_iter().filter(is_unused).collect();
        if unused.is_empty() {
            continue;
        }
        let last_uses = last_uses.get_or_insert_with(|| tool.uses_before(context));
        let dates = unused.iter().map(|item| {
            let last = last_uses.get(&(key.key.to_owned(), item.content.clone()));
            (item.content.clone(), last.copied())
        });
        found.extend(suggestion(context, tool, key, &unused, &dates.collect::<Vec<_>>()));
    }
    found
}

fn suggestion(
    context: &SuggestContext<'_>,
    tool: &ToolRecord<'_>,
    key: ToolKey<'_>,
    unused: &[UserItem],
    last_uses: &[(String, Option<Timestamp>)],
) -> Option<Suggestion> {
    let candidate = key.change_list(context, unused, &[])?;
    let effect = ReplayEffect::of(&candidate, context, tool);
    let text = candidate.user_text(PolicyFile::Tools)?.to_owned();
    let evidence = last_uses.iter().map(|(content, last)| match last {
        Some(time) => format!("`{content}`: last used on {}", time.strftime("%Y-%m-%d")),
        None => format!("`{content}`: not used in the record"),
    });
    let verb = if unused.len() == 1 { "was" } else { "were" };
    effect.changes_nothing().then(|| Suggestion {
        kind: SuggestionKind::UnusedRule,
        tool: tool.name().to_owned(),
        summary: format!(
            "{}: {} of {} {verb} not used",
            tool.name(),
            match unused.len() {
                1 => "1 entry".to_owned(),
                many => format!("{many} entries"),
            },
            key.key
        ),
        evidence: evidence.collect(),
        caution: (key.key == "allowed_domains").then_some(REDIRECTS),
        change: Some((PolicyFile::Tools, text)),
        effect,
    })
}

/// Returns the allowlists of a tool with the entries that the user's file contains.
pub(super) fn allowlists<'t>(policy: &Policy, tool: &ToolRecord<'t>) -> Vec<(ToolKey<'t>, Vec<UserItem>)> {
    let Some(rules) =
        EffectivePolicy::new(policy, tool.definition).rules.filter(|rules| rules.shadow.is_none())
    else {
        return Vec::new();
    };
    let key = |key| ToolKey { tool: tool.name(), key };
    let items = |key: ToolKey<'t>, compiled: Vec<(String, &RuleRef)>| {
        (key, key.user_items(policy, compiled.into_iter()))
    };
    // Folders of a sandboxed program are mounted, whether a call names them or not.
    let paths = rules.allowed_paths.iter().filter(|_| !tool.definition.requires_sandbox());
    let paths = paths.flat_map(|list| list.globs.patterns());
    let unattended = rules.unattended_paths.patterns().iter();
    let commands = rules.commands.allowed.iter().flat_map(|list| &list.rules);
    let hosts = rules.hosts.iter().flat_map(|list| &list.hosts);
    vec![
        items(key("allowed_paths"), paths.map(|one| (one.text.clone(), &one.rule)).collect()),
        items(key("unattended_paths"), unattended.map(|one| (one.text.clone(), &one.rule)).collect()),
        items(key("allowed_commands"), commands.map(|one| (one.to_string(), &one.rule)).collect()),
        items(key("allowed_domains"), hosts.map(|one| (one.pattern.to_string(), &one.rule)).collect()),
    ]
}
