//! Applies one rule change to the text of a policy file and keeps every other line, including comments.
//!
//! Works on text only and does not interpret rules: the caller loads a policy from the result to check it.
//! Returns `None` where a file is written in a form that cannot be edited line by line.

mod flow_list;
mod yaml_lines;

use governance::policy_environment::PolicyEnvironment;
use governance::suggested_change::{EditAction, PolicyEdit};
use governance::{Policy, PolicyError};

use yaml_lines::{KeyLookup, YamlEntry};

/// Returns the policy with one edit applied to its files, or `None` where the file is written in a form
/// that only a person should edit.
pub fn amended(
    policy: &Policy,
    edit: &PolicyEdit,
    environment: &PolicyEnvironment,
) -> Result<Option<Policy>, PolicyError> {
    match apply_edit(policy.text(edit.file), edit) {
        Some(text) => policy.with_text(edit.file, &text, environment).map(Some),
        None => Ok(None),
    }
}

/// Returns the text after the edit, or `None` where it cannot be applied line by line.
fn apply_edit(text: &str, edit: &PolicyEdit) -> Option<String> {
    if text.contains('\r') {
        return None;
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match (yaml_lines::find_key(&lines, &edit.keys)?, &edit.action) {
        (KeyLookup::Found(entry), EditAction::Add(value)) => add_item(&mut lines, &entry, value)?,
        (KeyLookup::Found(entry), EditAction::Remove { line, text }) => {
            remove_item(&mut lines, &entry, usize::try_from(*line).ok()?, text)?;
        }
        (KeyLookup::Found(entry), EditAction::Set(value)) => set_value(&mut lines, &entry, value)?,
        (KeyLookup::Missing(place), EditAction::Add(value)) => {
            place.insert(&mut lines, &format!("[{value}]"))
        }
        (KeyLookup::Missing(place), EditAction::Set(value)) => place.insert(&mut lines, value),
        (KeyLookup::Missing(_), EditAction::Remove { .. }) => return None,
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
