//! Entries as they are written, turned into checked ones. Whatever could only confuse a caller is an error here.

use std::collections::{HashMap, HashSet};

use document::{Document, DocumentError, Located};
use serde_json::Value;
use tool::{Arguments, LONGEST_WORD, RuleRef, ToolName};

use crate::curated_file::{CuratedEntry, GuardrailsFile};
use crate::entry::Entry;
use crate::example;

/// The checked entries, or everything that is wrong with them.
pub(super) fn entries(
    document: &Document,
    file: GuardrailsFile,
) -> Result<HashMap<ToolName, Entry>, Vec<DocumentError>> {
    let mut inspection = Inspection { document, errors: Vec::new() };
    let mut entries = HashMap::new();
    for (key, written) in file.tools {
        let name = match ToolName::new(&key) {
            Ok(name) => name,
            Err(error) => {
                inspection.error(&key, &error.to_string(), "");
                continue;
            }
        };
        let entry = inspection.entry(key, written);
        if let Some(first) = entries.get(&name) {
            let first: &Entry = first;
            let message = format!("`{}` stands twice, first on line {}", entry.key.value, first.key.line);
            inspection.error(&entry.key, &message, "names are compared without case: merge the two");
            continue;
        }
        inspection.example(&entry);
        entries.insert(name, entry);
    }
    if inspection.errors.is_empty() { Ok(entries) } else { Err(inspection.errors) }
}

struct Inspection<'a> {
    document: &'a Document,
    errors: Vec<DocumentError>,
}

impl Inspection<'_> {
    fn error<T>(&mut self, at: &Located<T>, message: &str, suggestion: &str) {
        let error = self.document.error_at(at.line, at.column, message);
        self.errors.push(if suggestion.is_empty() { error } else { error.suggest(suggestion) });
    }

    fn entry(&mut self, key: Located<String>, written: CuratedEntry) -> Entry {
        let CuratedEntry { required, required_any, min_length, calls, example, deprecated } = written;
        let rule = RuleRef {
            file: self.document.name().into(),
            line: key.line,
            id: format!("guardrails.{}", key.value).into(),
        };
        let least: Vec<_> = min_length.into_iter().collect();
        let entry = Entry {
            rule,
            groups: required_any.into_iter().map(|group| self.group(group)).collect(),
            least: least.into_iter().map(|(field, least)| (field, self.least(&least))).collect(),
            example: example.map(|example| self.bounded(example)),
            deprecated: deprecated.map(|words| self.words(words)),
            required,
            calls,
            key,
        };
        self.fields(&entry);
        let demands = entry.fields().next().is_some();
        if !demands && entry.example.is_none() && entry.deprecated.is_none() {
            let message = format!("`{}` demands nothing and shows nothing", entry.key.value);
            self.error(&entry.key, &message, "state `required`, or remove it");
        }
        entry
    }

    fn group(&mut self, group: Located<Vec<Located<String>>>) -> Vec<Located<String>> {
        match group.len() {
            0 => self.error(&group, "an empty group can never be satisfied", "remove it"),
            1 => self.error(&group, "a group of one is no choice", "put it under `required`"),
            _ => {}
        }
        group.value
    }

    fn least(&mut self, least: &Located<u32>) -> u32 {
        if least.value == 0 {
            self.error(least, "a least length of 0 demands nothing", "remove it");
        }
        least.value
    }

    fn words(&mut self, words: Located<String>) -> String {
        if words.trim().is_empty() {
            self.error(&words, "`deprecated` says what to use instead", "such as: use write_file");
        }
        words.value
    }

    fn bounded(&mut self, example: Located<Arguments>) -> Located<Value> {
        let example = example.map(Value::Object);
        if example.to_string().len() > example::LONGEST {
            let message =
                format!("the example is longer than {} bytes, and would not be shown", example::LONGEST);
            self.error(&example, &message, "shorten its values");
        }
        example
    }

    /// A name that no argument can have, or that is demanded twice, is a slip.
    fn fields(&mut self, entry: &Entry) {
        let mut seen = HashSet::new();
        for field in entry.required.iter().chain(entry.groups.iter().flatten()) {
            if !seen.insert(field.as_str()) {
                self.error(field, &format!("`{}` is demanded twice", field.value), "remove one");
            }
        }
        for field in entry.fields() {
            if field.is_empty() || field.chars().count() > LONGEST_WORD {
                let message = format!("an argument's name has 1 to {LONGEST_WORD} characters");
                self.error(field, &message, "");
            }
        }
    }

    /// An example that its own entry refuses would teach a mistake.
    fn example(&mut self, entry: &Entry) {
        let Some(example) = &entry.example else { return };
        for problem in entry.problems(example, None) {
            let message =
                format!("the example of `{}` would be refused: {}", entry.key.value, problem.message);
            self.error(example, &message, "");
        }
    }
}
