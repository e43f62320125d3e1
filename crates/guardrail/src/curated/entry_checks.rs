//! Checks the raw entries of `guardrails.yaml` and turns them into `CuratedRequirements`. An entry that could
//! only confuse a caller is an error.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use strict_yaml::{Document, DocumentError, Located};
use tool::text::MAX_QUOTED_CHARS;
use tool::{RuleRef, ToolName};

use crate::curated::CuratedRequirements;
use crate::curated_file::{CuratedEntry, GuardrailsFile};
use crate::example;

/// Returns the checked entries, or every error found in them.
pub(super) fn check_entries(
    document: &Document,
    file: GuardrailsFile,
) -> Result<HashMap<ToolName, CuratedRequirements>, Vec<DocumentError>> {
    let mut inspection = EntryInspection { document, errors: Vec::new() };
    let mut entries = HashMap::new();
    for (key, written) in file.tools {
        let name = match ToolName::new(&key) {
            Ok(name) => name,
            Err(error) => {
                inspection.push_error(&key, &error.to_string(), "");
                continue;
            }
        };
        let entry = inspection.check_entry(key, written);
        if let Some(first) = entries.get(&name) {
            let first: &CuratedRequirements = first;
            let message = format!("`{}` is defined twice, first on line {}", entry.key.value, first.key.line);
            inspection.push_error(
                &entry.key,
                &message,
                "names are compared case-insensitively: merge the two entries",
            );
            continue;
        }
        inspection.check_example(&entry);
        entries.insert(name, entry);
    }
    if inspection.errors.is_empty() { Ok(entries) } else { Err(inspection.errors) }
}

struct EntryInspection<'a> {
    document: &'a Document,
    errors: Vec<DocumentError>,
}

impl EntryInspection<'_> {
    fn push_error<T>(&mut self, at: &Located<T>, message: &str, suggestion: &str) {
        let error = self.document.error_at(at.line, at.column, message);
        self.errors.push(if suggestion.is_empty() { error } else { error.with_suggestion(suggestion) });
    }

    fn check_entry(&mut self, key: Located<String>, written: CuratedEntry) -> CuratedRequirements {
        let CuratedEntry { required, required_any, min_length, calls, example, deprecated, replacement } =
            written;
        let origin = self.document.origin(key.line, key.column);
        let rule = RuleRef {
            file: origin.document.name().into(),
            line: origin.line,
            id: format!("guardrails.{}", key.value).into(),
        };
        let least: Vec<_> = min_length.into_iter().collect();
        let entry = CuratedRequirements {
            rule,
            any_of_groups: required_any.into_iter().map(|group| self.check_group(group)).collect(),
            min_lengths: least
                .into_iter()
                .map(|(field, least)| (field, self.check_min_length(&least)))
                .collect(),
            example: example.map(|example| self.check_example_size(example)),
            deprecated: deprecated.map(|text| self.check_deprecation(text)),
            replacement: replacement.map(|name| name.value),
            required,
            calls_field: calls,
            key,
        };
        self.check_field_names(&entry);
        let has_requirements = entry.field_names().next().is_some();
        if !has_requirements && entry.example.is_none() && entry.deprecated.is_none() {
            let message = format!("`{}` requires nothing and has no example", entry.key.value);
            self.push_error(&entry.key, &message, "add `required`, or remove the entry");
        }
        entry
    }

    fn check_group(&mut self, group: Located<Vec<Located<String>>>) -> Vec<Located<String>> {
        match group.len() {
            0 => self.push_error(&group, "an empty group can never be satisfied", "remove it"),
            1 => self.push_error(&group, "a group needs at least two arguments", "put it under `required`"),
            _ => {}
        }
        group.value
    }

    fn check_min_length(&mut self, least: &Located<u32>) -> u32 {
        if least.value == 0 {
            self.push_error(least, "a minimum length of 0 has no effect", "remove it");
        }
        least.value
    }

    fn check_deprecation(&mut self, text: Located<String>) -> String {
        if text.trim().is_empty() {
            self.push_error(&text, "`deprecated` must name the replacement", "for example: use write_file");
        }
        text.value
    }

    fn check_example_size(&mut self, example: Located<Value>) -> Located<Value> {
        if !example.is_object() && !example.is_string() {
            self.push_error(&example, "an example must be arguments or a text", "");
        }
        if example.to_string().len() > example::MAX_EXAMPLE_BYTES {
            let message = format!(
                "the example is longer than {} bytes and would not be shown",
                example::MAX_EXAMPLE_BYTES
            );
            self.push_error(&example, &message, "shorten its values");
        }
        example
    }

    /// Reports argument names that cannot exist or that are required twice.
    fn check_field_names(&mut self, entry: &CuratedRequirements) {
        let mut seen = HashSet::new();
        for field in entry.required.iter().chain(entry.any_of_groups.iter().flatten()) {
            if !seen.insert(field.as_str()) {
                self.push_error(field, &format!("`{}` is required twice", field.value), "remove one");
            }
        }
        for field in entry.field_names() {
            if field.is_empty() || field.chars().count() > MAX_QUOTED_CHARS {
                let message = format!("an argument name must have 1 to {MAX_QUOTED_CHARS} characters");
                self.push_error(field, &message, "");
            }
        }
    }

    /// Reports an example that its own entry would refuse, since callers copy examples.
    fn check_example(&mut self, entry: &CuratedRequirements) {
        let Some(example) = entry.example.as_ref().filter(|example| example.is_object()) else { return };
        for problem in entry.problems(example, None) {
            let message =
                format!("the example of `{}` would be refused: {}", entry.key.value, problem.message);
            self.push_error(example, &message, "");
        }
    }
}
