//! Checks the raw entries of `guardrails.yaml` and turns them into `CuratedRequirements`. An entry that could
//! only confuse a caller is an error.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use strict_yaml::{Document, DocumentError, Located};
use tool::{Arguments, LONGEST_WORD, RuleRef, ToolName};

use crate::curated::Entry;
use crate::curated_file::{CuratedEntry, GuardrailsFile};
use crate::example;

/// Returns the checked entries, or every error found in them.
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
            let message = format!("`{}` is defined twice, first on line {}", entry.key.value, first.key.line);
            inspection.error(
                &entry.key,
                &message,
                "names are compared case-insensitively: merge the two entries",
            );
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
            let message = format!("`{}` requires nothing and has no example", entry.key.value);
            self.error(&entry.key, &message, "add `required`, or remove the entry");
        }
        entry
    }

    fn group(&mut self, group: Located<Vec<Located<String>>>) -> Vec<Located<String>> {
        match group.len() {
            0 => self.error(&group, "an empty group can never be satisfied", "remove it"),
            1 => self.error(&group, "a group needs at least two arguments", "put it under `required`"),
            _ => {}
        }
        group.value
    }

    fn least(&mut self, least: &Located<u32>) -> u32 {
        if least.value == 0 {
            self.error(least, "a minimum length of 0 has no effect", "remove it");
        }
        least.value
    }

    fn words(&mut self, words: Located<String>) -> String {
        if words.trim().is_empty() {
            self.error(&words, "`deprecated` must name the replacement", "for example: use write_file");
        }
        words.value
    }

    fn bounded(&mut self, example: Located<Arguments>) -> Located<Value> {
        let example = example.map(Value::Object);
        if example.to_string().len() > example::LONGEST {
            let message =
                format!("the example is longer than {} bytes and would not be shown", example::LONGEST);
            self.error(&example, &message, "shorten its values");
        }
        example
    }

    /// Reports argument names that cannot exist or that are required twice.
    fn fields(&mut self, entry: &Entry) {
        let mut seen = HashSet::new();
        for field in entry.required.iter().chain(entry.groups.iter().flatten()) {
            if !seen.insert(field.as_str()) {
                self.error(field, &format!("`{}` is required twice", field.value), "remove one");
            }
        }
        for field in entry.fields() {
            if field.is_empty() || field.chars().count() > LONGEST_WORD {
                let message = format!("an argument name must have 1 to {LONGEST_WORD} characters");
                self.error(field, &message, "");
            }
        }
    }

    /// Reports an example that its own entry would refuse, since callers copy examples.
    fn example(&mut self, entry: &Entry) {
        let Some(example) = &entry.example else { return };
        for problem in entry.problems(example, None) {
            let message =
                format!("the example of `{}` would be refused: {}", entry.key.value, problem.message);
            self.error(example, &message, "");
        }
    }
}
