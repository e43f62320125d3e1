//! Applies one rule change to the text of a policy file and keeps every other line, including comments.
//!
//! Works on text only and does not interpret rules: the caller loads a policy from the result to check it.
//! Returns `None` where a file is written in a form that cannot be edited line by line.

mod flow;
mod lines;

use governance::{Act, Edit, Policy, PolicyError, Surroundings};

use lines::{Entry, Found};

/// Returns the policy with one edit applied to its files, or `None` where the file is written in a form
/// that only a person should edit.
pub fn amended(policy: &Policy, edit: &Edit, around: &Surroundings) -> Result<Option<Policy>, PolicyError> {
    match amend(policy.text(edit.file), edit) {
        Some(text) => policy.with_text(edit.file, &text, around).map(Some),
        None => Ok(None),
    }
}

/// Returns the text after the edit, or `None` where it cannot be applied line by line.
fn amend(text: &str, edit: &Edit) -> Option<String> {
    if text.contains('\r') {
        return None;
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    match (lines::find(&lines, &edit.keys)?, &edit.act) {
        (Found::Here(entry), Act::Add(value)) => add(&mut lines, &entry, value)?,
        (Found::Here(entry), Act::Remove { line, text }) => {
            remove(&mut lines, &entry, usize::try_from(*line).ok()?, text)?;
        }
        (Found::Here(entry), Act::Set(value)) => set(&mut lines, &entry, value)?,
        (Found::Absent(place), Act::Add(value)) => place.insert(&mut lines, &format!("[{value}]")),
        (Found::Absent(place), Act::Set(value)) => place.insert(&mut lines, value),
        (Found::Absent(_), Act::Remove { .. }) => return None,
    }
    Some(lines.join("\n") + "\n")
}

fn add(lines: &mut Vec<String>, entry: &Entry, value: &str) -> Option<()> {
    match entry.value(lines)?.chars().next() {
        Some('[') => flow::edit(lines, entry, |list| list.with(value)),
        None => {
            let last = lines::items(lines, entry).pop()?;
            let dash = " ".repeat(lines::indent(lines.get(last.start)?));
            lines.insert(last.end, format!("{dash}- {value}"));
            Some(())
        }
        Some(_) => None,
    }
}

fn remove(lines: &mut Vec<String>, entry: &Entry, line: usize, text: &str) -> Option<()> {
    match entry.value(lines)?.chars().next() {
        Some('[') => flow::edit(lines, entry, |list| list.without(line, text)),
        None => {
            let items = lines::items(lines, entry);
            let gone = items.iter().find(|item| item.start + 1 == line)?.clone();
            lines.drain(gone);
            if items.len() == 1 {
                lines.get_mut(entry.line)?.insert_str(entry.value_at, " []");
            }
            Some(())
        }
        Some(_) => None,
    }
}

fn set(lines: &mut [String], entry: &Entry, value: &str) -> Option<()> {
    let old = entry.value(lines)?.to_owned();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if old.is_empty() || !old.chars().all(is_plain) {
        return None;
    }
    let line = lines.get_mut(entry.line)?;
    let at = entry.value_at + line.get(entry.value_at..)?.find(&old)?;
    line.replace_range(at..at + old.len(), value);
    Some(())
}

#[cfg(test)]
mod tests;
