//! Edits of one key of a tool in the user's `tools.yaml`.
//!
//! A list is edited in place, so that comments stay. Where the file is written in a form that cannot be edited
//! line by line, the value is written again as a whole.

use governance::Policy;
use governance::rules::{EXACT_SUFFIX, quote_yaml};
use governance::suggested_change::{EditAction, PolicyEdit, PolicyFile};
use serde_json::{Map, Value};
use strict_yaml::Document;
use tool::RuleRef;

use super::SuggestContext;
use crate::amend::{amended, has_list, replace_value};

/// Keys that a suggestion may change. None of them forbids anything.
const EDITABLE_KEYS: [&str; 6] = [
    "allowed_paths",
    "allowed_commands",
    "allowed_domains",
    "unattended_paths",
    "rate_limit_per_hour",
    "requires_approval",
];

/// Key of a tool in the user's file.
#[derive(Clone, Copy)]
pub(super) struct ToolKey<'a> {
    pub(super) tool: &'a str,
    pub(super) key: &'static str,
}

/// Entry of a list that the user's file itself contains.
#[derive(Clone, Debug)]
pub(super) struct UserItem {
    /// Position in the user's list.
    index: usize,
    /// Entry as the judge shows it.
    pub(super) content: String,
    line: u64,
}

impl ToolKey<'_> {
    fn keys(self) -> Vec<String> {
        ["tools", self.tool, self.key].map(str::to_owned).to_vec()
    }

    fn edit(self, action: EditAction) -> PolicyEdit {
        PolicyEdit { file: PolicyFile::Tools, keys: self.keys(), action }
    }

    /// Returns the value that the user's file has for this key.
    pub(super) fn user_value(self, policy: &Policy) -> Option<Value> {
        let keys = self.keys();
        keys.iter().try_fold(user_document(policy)?, |node, key| find_key(&node, key).cloned())
    }

    /// Returns the compiled entries of a list that are written in the user's file for this key. Entries of a
    /// named set and of the built-in layer are not among them.
    pub(super) fn user_items<'i>(
        self,
        policy: &Policy,
        compiled: impl Iterator<Item = (String, &'i RuleRef)>,
    ) -> Vec<UserItem> {
        let value = self.user_value(policy);
        let Some(written) = value.as_ref().and_then(list_of) else { return Vec::new() };
        let text_of = |item: &Value| match item {
            Value::String(text) => Some(text.clone()),
            // A pattern for arguments has the form of the judge: words with spaces, choices with bars.
            Value::Object(pattern) => {
                let is_exact = pattern.get("exact") == Some(&Value::Bool(true));
                let end = if is_exact { EXACT_SUFFIX } else { "" };
                pattern.get("argv").and_then(Value::as_array).map(|words| argv_text(words) + end)
            }
            _ => None,
        };
        let texts: Vec<Option<String>> = written.iter().map(text_of).collect();
        let found =
            compiled.filter(|(_, rule)| !rule.file.starts_with("built-in")).filter_map(|(content, rule)| {
                let index = texts.iter().position(|text| text.as_deref() == Some(content.as_str()))?;
                Some(UserItem { index, content, line: rule.line })
            });
        found.collect()
    }

    /// Returns the policy with entries removed from and added to the user's list.
    pub(super) fn change_list(
        self,
        context: &SuggestContext<'_>,
        removed: &[UserItem],
        added: &[String],
    ) -> Option<Policy> {
        let value = self.user_value(context.policy);
        let is_plain = value.as_ref().is_none_or(Value::is_array);
        let extends = value.is_some() || has_list(context.policy, &self.edit(EditAction::Set(String::new())));
        let in_place = if is_plain { self.change_lines(context, removed, added) } else { None };
        in_place.or_else(|| {
            self.rewrite(context, |value| {
                let mut list = list_of(value).cloned().unwrap_or_default();
                let gone: Vec<usize> = removed.iter().map(|item| item.index).collect();
                let mut index = 0;
                list.retain(|_| {
                    index += 1;
                    !gone.contains(&(index - 1))
                });
                list.extend(added.iter().cloned().map(Value::String));
                match value {
                    // The built-in layer has a list: a plain one would replace it.
                    Value::Object(change) if extends => {
                        drop(change.insert("add".to_owned(), Value::Array(list)));
                    }
                    other => *other = Value::Array(list),
                }
            })
        })
    }

    fn change_lines(
        self,
        context: &SuggestContext<'_>,
        removed: &[UserItem],
        added: &[String],
    ) -> Option<Policy> {
        let mut removed: Vec<&UserItem> = removed.iter().collect();
        // From the last line up, so that the lines of the others stay where they are.
        removed.sort_by_key(|item| std::cmp::Reverse((item.line, item.index)));
        let removals = removed
            .into_iter()
            .map(|item| EditAction::Remove { line: item.line, text: item.content.clone() });
        let additions = added.iter().map(|text| EditAction::Add(quote_yaml(text)));
        let mut policy: Option<Policy> = None;
        for action in removals.chain(additions) {
            let present = policy.as_ref().unwrap_or(context.policy);
            policy = Some(amended(present, &self.edit(action), context.environment).ok()??);
        }
        policy
    }

    /// Returns the policy with another value.
    pub(super) fn set(self, context: &SuggestContext<'_>, new: &Value) -> Option<Policy> {
        let edit = self.edit(EditAction::Set(flow_text(new)));
        let in_place = amended(context.policy, &edit, context.environment).ok().flatten();
        in_place.or_else(|| self.rewrite(context, |value| *value = new.clone()))
    }

    /// Writes the value again, together with the mappings around it that share its line.
    fn rewrite(self, context: &SuggestContext<'_>, change: impl FnOnce(&mut Value)) -> Option<Policy> {
        if !EDITABLE_KEYS.contains(&self.key) {
            return None;
        }
        let keys = self.keys();
        let mut document = user_document(context.policy).unwrap_or_else(|| Value::Object(Map::new()));
        change(keys.iter().try_fold(&mut document, |node, key| entry_of(node, key))?);
        let text = context.policy.user_text(PolicyFile::Tools).unwrap_or_default();
        (1..=keys.len()).rev().find_map(|depth| {
            let outer = keys.get(..depth)?;
            let value = outer.iter().try_fold(&document, |node, key| find_key(node, key))?;
            let text = replace_value(text, outer, &flow_text(value))?;
            context.policy.with_user_text(PolicyFile::Tools, &text, context.environment).ok()
        })
    }
}

fn user_document(policy: &Policy) -> Option<Value> {
    let text = policy.user_text(PolicyFile::Tools)?;
    Some(Document::from_text(PolicyFile::Tools.name(), text).ok()?.tree().ok()?.to_json())
}

/// Returns the entries of a list, or those that `{add: [...]}` adds to the built-in one.
fn list_of(value: &Value) -> Option<&Vec<Value>> {
    value.as_array().or_else(|| value.get("add")?.as_array())
}

fn find_key<'v>(node: &'v Value, key: &str) -> Option<&'v Value> {
    node.as_object()?.iter().find(|(known, _)| known.eq_ignore_ascii_case(key)).map(|(_, value)| value)
}

fn entry_of<'v>(node: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    let mapping = node.as_object_mut()?;
    let known = mapping.keys().find(|known| known.eq_ignore_ascii_case(key)).cloned();
    Some(mapping.entry(known.unwrap_or_else(|| key.to_owned())).or_insert_with(|| Value::Object(Map::new())))
}

fn argv_text(words: &[Value]) -> String {
    let word = |word: &Value| match word {
        Value::Array(choice) => choice.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|"),
        word => word.as_str().unwrap_or_default().to_owned(),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Returns a value as YAML in one line.
pub(crate) fn flow_text(value: &Value) -> String {
    match value {
        Value::String(text) => quote_yaml(text),
        Value::Array(items) => format!("[{}]", items.iter().map(flow_text).collect::<Vec<_>>().join(", ")),
        Value::Object(entries) => {
            let entry =
                |(key, value): (&String, &Value)| format!("{}: {}", quote_yaml(key), flow_text(value));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        scalar => scalar.to_string(),
    }
}
