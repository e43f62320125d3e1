//! Applies one rule change to the text of a policy file and keeps every other line, including comments.
//!
//! Works on text only and does not interpret rules: the caller loads a policy from the result to check it.
//! Returns `None` where a file is written in a form that cannot be edited line by line.

mod flow_list;
mod widen;
mod yaml_lines;

use governance::policy_environment::PolicyEnvironment;
use governance::rules::quote_yaml;
use governance::suggested_change::{EditAction, PolicyEdit};
use governance::{Policy, PolicyError};
use serde_json::{Value, json};
use strict_yaml::{Document, YamlNode, YamlNodeKind};

use crate::suggest::flow_text;
pub use widen::wider_edits;
use yaml_lines::{KeyLookup, YamlEntry};

/// Returns the policy with one edit applied to the user's files, or `None` where the file is written in a form
/// that only a person should edit.
pub fn amended(
    policy: &Policy,
    edit: &PolicyEdit,
    environment: &PolicyEnvironment,
) -> Result<Option<Policy>, PolicyError> {
    let below = if has_list(policy, edit) { ListBelow::Present } else { ListBelow::Absent };
    match apply_edit(policy.user_text(edit.file).unwrap_or_default(), edit, below) {
        Some(text) => policy.with_user_text(edit.file, &text, environment).map(Some),
        None => Ok(None),
    }
}

/// List of the built-in policy at the place of an edit. It is changed, not replaced, where the user's file does
/// not have the key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListBelow {
    Present,
    Absent,
}

/// Returns true if the merged policy has a list at the place of an edit.
pub(crate) fn has_list(policy: &Policy, edit: &PolicyEdit) -> bool {
    let Ok(tree) = policy.merged_document(edit.file).tree() else { return false };
    let find = |node: YamlNode, key: &String| {
        let mut entries = node.entries().iter();
        entries.find(|(known, _)| known.eq_ignore_ascii_case(key)).map(|(_, value)| value.clone())
    };
    let found = edit.keys.iter().try_fold(tree, find);
    found.is_some_and(|node| matches!(node.kind, YamlNodeKind::List(_)))
}

/// Returns the text after the edit, or `None` where it cannot be applied line by line.
fn apply_edit(text: &str, edit: &PolicyEdit, below: ListBelow) -> Option<String> {
    if text.contains('\r') {
        return None;
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    yaml_lines::open_empty_mapping(&mut lines, edit.keys.first()?);
    match (yaml_lines::find_key(&lines, &edit.keys)?, &edit.action) {
        (KeyLookup::Found(entry), EditAction::Add(_) | EditAction::Remove { .. })
            if yaml_lines::is_list_change(&lines, &entry) =>
        {
            change_list_change(&mut lines, edit)?;
        }
        (KeyLookup::Found(entry), EditAction::Add(value)) => add_item(&mut lines, &entry, value)?,
        (KeyLookup::Found(entry), EditAction::Remove { line, text }) => {
            remove_item(&mut lines, &entry, usize::try_from(*line).ok()?, text)?;
        }
        (KeyLookup::Found(entry), EditAction::Set(value)) => set_value(&mut lines, &entry, value)?,
        (KeyLookup::Missing(place), EditAction::Add(value)) => match below {
            ListBelow::Present => place.below("add").insert(&mut lines, &format!("[{value}]")),
            ListBelow::Absent => place.insert(&mut lines, &format!("[{value}]")),
        },
        (KeyLookup::Missing(place), EditAction::Remove { text, .. }) if below == ListBelow::Present => {
            place.below("remove").insert(&mut lines, &format!("[{}]", quote_yaml(text)));
        }
        (KeyLookup::Missing(place), EditAction::Set(value)) => place.insert(&mut lines, value),
        (KeyLookup::Missing(_), EditAction::Remove { .. }) => return None,
    }
    Some(lines.join("\n") + "\n")
}

/// Returns the text with items added to a list, each below a comment line. Where the list is part of a value in one
/// line, that value is written again and the comments precede it. `None` where the file is written in a form that only
/// a person should edit.
pub(crate) fn add_commented_items(
    text: &str,
    keys: &[String],
    has_list_below: bool,
    items: &[(String, String)],
) -> Option<String> {
    add_item_lines(text, keys, has_list_below, items)
        .or_else(|| rewrite_with_items(text, keys, has_list_below, items))
}

/// Writes the outer value again that shares its line with the list, and puts the comments above it.
fn rewrite_with_items(
    text: &str,
    keys: &[String],
    has_list_below: bool,
    items: &[(String, String)],
) -> Option<String> {
    let mut document = Document::from_text("edit", text).ok()?.tree().ok()?.to_json();
    let (key, outer) = keys.split_last()?;
    let holder = outer.iter().try_fold(&mut document, |node, key| entry_mut(node, key))?.as_object_mut()?;
    let empty = || if has_list_below { json!({"add": []}) } else { json!([]) };
    let known = holder.keys().find(|known| known.eq_ignore_ascii_case(key)).unwrap_or(key).clone();
    let list = match holder.entry(known).or_insert_with(empty) {
        Value::Object(change) => change.entry("add").or_insert_with(|| json!([])),
        list => list,
    };
    for (value, _) in items {
        list.as_array_mut()?.push(widen::parse(value)?);
    }
    (1..keys.len()).rev().find_map(|depth| {
        let outer = keys.get(..depth)?;
        let value = outer.iter().try_fold(&mut document, |node, key| entry_mut(node, key))?;
        let text = replace_value(text, outer, &flow_text(value))?;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let KeyLookup::Found(entry) = yaml_lines::find_key(&lines, outer)? else { return None };
        let indent = " ".repeat(yaml_lines::indent(lines.get(entry.line)?));
        let comments = items.iter().map(|(value, comment)| format!("{indent}# {value}: {comment}"));
        lines.splice(entry.line..entry.line, comments.collect::<Vec<_>>());
        Some(lines.join("\n") + "\n")
    })
}

/// Returns the value of a key, compared without case.
fn entry_mut<'v>(node: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    node.as_object_mut()?
        .iter_mut()
        .find(|(known, _)| known.eq_ignore_ascii_case(key))
        .map(|(_, value)| value)
}

fn add_item_lines(
    text: &str,
    keys: &[String],
    has_list_below: bool,
    items: &[(String, String)],
) -> Option<String> {
    if text.contains('\r') {
        return None;
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    yaml_lines::open_empty_mapping(&mut lines, keys.first()?);
    match yaml_lines::find_key(&lines, keys)? {
        KeyLookup::Found(entry) if yaml_lines::is_list_change(&lines, &entry) => {
            let add = [keys, &["add".to_owned()]].concat();
            return add_item_lines(&lines.join("\n"), &add, false, items);
        }
        KeyLookup::Found(entry) => match entry.value(&lines)?.chars().next() {
            None => {
                let last = yaml_lines::list_items(&lines, &entry).pop()?;
                let dash = yaml_lines::indent(lines.get(last.start)?);
                lines.splice(last.end..last.end, yaml_lines::commented_items(items, dash));
            }
            // A list in one line has no place for comments, so they precede the key.
            Some('[') => {
                for (value, comment) in items {
                    let KeyLookup::Found(entry) = yaml_lines::find_key(&lines, keys)? else { return None };
                    add_item(&mut lines, &entry, value)?;
                    let indent = " ".repeat(yaml_lines::indent(lines.get(entry.line)?));
                    lines.insert(entry.line, format!("{indent}# {value}: {comment}"));
                }
            }
            Some(_) => return None,
        },
        KeyLookup::Missing(place) => {
            let place = if has_list_below { place.below("add") } else { place };
            place.insert_items(&mut lines, items);
        }
    }
    Some(lines.join("\n") + "\n")
}

/// Extends the lists `add` and `remove` of a key that changes a built-in list.
fn change_list_change(lines: &mut Vec<String>, edit: &PolicyEdit) -> Option<()> {
    let (part, value) = match &edit.action {
        EditAction::Add(value) => ("add", value.clone()),
        EditAction::Remove { text, .. } => ("remove", quote_yaml(text)),
        EditAction::Set(_) => return None,
    };
    let keys = [edit.keys.as_slice(), &[part.to_owned()]].concat();
    match yaml_lines::find_key(lines, &keys)? {
        KeyLookup::Found(entry) => add_item(lines, &entry, &value),
        KeyLookup::Missing(place) => {
            place.insert(lines, &format!("[{value}]"));
            Some(())
        }
    }
}

/// Returns the text with a new value for a key, which replaces all lines of the old one. `None` where an outer
/// key has its value on the same line.
pub fn replace_value(text: &str, keys: &[String], value: &str) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    yaml_lines::open_empty_mapping(&mut lines, keys.first()?);
    match yaml_lines::find_key(&lines, keys)? {
        KeyLookup::Missing(place) => place.insert(&mut lines, value),
        KeyLookup::Found(entry) => {
            let key = lines.get(entry.line)?.get(..entry.value_start)?;
            let line = format!("{key} {value}");
            lines.splice(entry.line..entry.end_line, [line]);
        }
    }
    Some(lines.join("\n") + "\n")
}

fn add_item(lines: &mut Vec<String>, entry: &YamlEntry, value: &str) -> Option<()> {
    match entry.value(lines)?.chars().next() {
        Some('[') => flow_list::edit_flow_list(lines, entry, |list| list.with_item(value)),
        None => {
            let last = yaml_lines::list_items(lines, entry).pop()?;
            let dash = " ".repeat(yaml_lines::indent(lines.get(last.start)?));
            lines.insert(last.end, format!("{dash}- {value}"));
            Some(())
        }
        Some(_) => None,
    }
}

fn remove_item(lines: &mut Vec<String>, entry: &YamlEntry, line: usize, text: &str) -> Option<()> {
    match entry.value(lines)?.chars().next() {
        Some('[') => flow_list::edit_flow_list(lines, entry, |list| list.without_item(line, text)),
        None => {
            let items = yaml_lines::list_items(lines, entry);
            let removed = items.iter().find(|item| item.start + 1 == line)?.clone();
            lines.drain(removed);
            if items.len() == 1 {
                lines.get_mut(entry.line)?.insert_str(entry.value_start, " []");
            }
            Some(())
        }
        Some(_) => None,
    }
}

fn set_value(lines: &mut [String], entry: &YamlEntry, value: &str) -> Option<()> {
    let old = entry.value(lines)?.to_owned();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if old.is_empty() || !old.chars().all(is_plain) {
        return None;
    }
    let line = lines.get_mut(entry.line)?;
    let at = entry.value_start + line.get(entry.value_start..)?.find(&old)?;
    line.replace_range(at..at + old.len(), value);
    Some(())
}

#[cfg(test)]
mod tests;
