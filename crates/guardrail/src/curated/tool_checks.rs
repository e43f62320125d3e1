//! Checks the curated map against the existing tools: an entry must not make its tool impossible to call, and
//! a typing error must not leave an entry without effect.

use serde_json::Value;
use strict_yaml::DocumentError;
use tool::text::nearest_word;

use super::{CuratedError, CuratedGuardrails, CuratedRequirements};
use crate::guardrail::{Guardrail, KnownTool};

impl CuratedGuardrails {
    /// Compares the map with the existing tools and returns warnings. A name that no tool has is allowed,
    /// since callers bring names from other hosts. A misspelt tool name or an alias of a tool is an error.
    pub fn check_tools<'a>(
        &self,
        tools: impl IntoIterator<Item = KnownTool<'a>>,
    ) -> Result<Vec<DocumentError>, CuratedError> {
        let tools: Vec<KnownTool<'a>> = tools.into_iter().collect();
        let mut report = ToolCheckReport { curated: self, errors: Vec::new(), warnings: Vec::new() };
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|(_, entry)| entry.key.line);
        for (name, entry) in entries {
            match tools.iter().find(|tool| tool.definition.name() == name) {
                Some(tool) => report.check_existing(entry, *tool),
                None => report.check_unknown_name(entry, &tools),
            }
        }
        if report.errors.is_empty() {
            Ok(report.warnings)
        } else {
            Err(CuratedError { problems: report.errors })
        }
    }
}

struct ToolCheckReport<'c> {
    curated: &'c CuratedGuardrails,
    errors: Vec<DocumentError>,
    warnings: Vec<DocumentError>,
}

impl ToolCheckReport<'_> {
    fn error_at(&self, position: (u64, u64), message: &str, suggestion: &str) -> Option<DocumentError> {
        let error = self.curated.document.as_ref()?.error_at(position.0, position.1, message);
        Some(error.with_suggestion(suggestion))
    }

    fn check_existing(&mut self, entry: &CuratedRequirements, tool: KnownTool<'_>) {
        let name = tool.definition.name();
        let parameters = || tool.definition.parameters().iter().map(|parameter| parameter.name.as_str());
        if tool.definition.input_schema()["additionalProperties"] == Value::Bool(false) {
            for field in entry.field_names().filter(|field| parameters().all(|known| known != field.as_str()))
            {
                let near = nearest_word(field, parameters());
                let help = near.map_or("every call would be refused".to_owned(), |near| {
                    format!("did you mean `{near}`?")
                });
                let message = format!("`{name}` has no argument `{}`", field.value);
                self.errors.extend(self.error_at((field.line, field.column), &message, &help));
            }
        }
        if let Some(example) = entry.example.as_ref().filter(|example| example.is_object()) {
            let guard = Guardrail::new(self.curated, &|_| None);
            if let Err(rejected) = guard.check(tool, example.value.clone()) {
                let errors = rejected.refusal.schema_error.unwrap_or_default();
                let message = format!("`{name}` would refuse this example: {errors}");
                let help = "every example must be a valid call";
                self.errors.extend(self.error_at((example.line, example.column), &message, help));
            }
        }
        if entry.deprecated.is_some() {
            let message = format!("`{name}` is marked deprecated, but the tool exists");
            let warning =
                self.error_at((entry.key.line, entry.key.column), &message, "calls to it still run");
            self.warnings.extend(warning);
        }
    }

    fn check_unknown_name(&mut self, entry: &CuratedRequirements, tools: &[KnownTool<'_>]) {
        let position = (entry.key.line, entry.key.column);
        let named = entry.key.to_ascii_lowercase();
        let alias_of = tools.iter().find(|tool| tool.definition.matches_name(&named));
        if let Some(tool) = alias_of {
            let name = tool.definition.name();
            // A tool added by a manifest must not make the whole map fail to load, so this is only a warning.
            if is_from_manifest(tool) {
                let message = format!("`{}` is also a short name of `{name}`", entry.key.value);
                let help = format!("calls to `{name}` are checked against its own schema");
                self.warnings.extend(self.error_at(position, &message, &help));
                return;
            }
            let message =
                format!("`{}` is an alias of `{name}`, so this entry would never apply", entry.key.value);
            self.errors.extend(self.error_at(position, &message, &format!("write `{name}`")));
            return;
        }
        // Such a name is often similar to its replacement, so it is not a typing error.
        if entry.deprecated.is_some() || entry.replacement.is_some() {
            return;
        }
        let built_in = tools.iter().filter(|tool| !is_from_manifest(tool));
        if let Some(near) = nearest_word(&named, built_in.map(|tool| tool.definition.name().as_str())) {
            let message = format!("no tool is called `{}`", entry.key.value);
            self.errors.extend(self.error_at(position, &message, &format!("did you mean `{near}`?")));
        }
    }
}

/// Returns true if a tool comes from a manifest: those are named `id.command`.
fn is_from_manifest(tool: &KnownTool<'_>) -> bool {
    tool.definition.name().as_str().contains('.')
}
