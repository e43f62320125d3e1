//! Collector of the diagnostics of one document.

use std::collections::BTreeSet;

use strict_yaml::{Document, Located, YamlNode};

use crate::diagnostic::{Diagnostic, DiagnosticCode, DiagnosticSeverity};

/// Maximum number of diagnostics per file. A file of a megabyte could have a hundred thousand errors.
const MAX_DIAGNOSTICS: usize = 200;

/// Sections that only inform. An error in one of them costs its entry, not the manifest.
const INFORMING_SECTIONS: [&str; 3] = ["tool.api_complexity", "tool.anti_patterns", "tool.examples"];
/// Keys that decide what runs, where, with which rights, or which calls are refused. One that is misspelt or has
/// no value is an error.
pub(crate) const DECIDING_KEYS: [&str; 38] = [
    "aggregates",
    "allowed_modes",
    "argv",
    "category",
    "checks",
    "cli_specific",
    "commands",
    "entry_point",
    "environment_variables",
    "executable",
    "executable_knowledge",
    "field",
    "format",
    "function",
    "helpers",
    "input_schema",
    "key",
    "language",
    "local_specific",
    "mcp_specific",
    "meta_specific",
    "orchestration",
    "output_schema",
    "parameters",
    "process_input",
    "process_output",
    "processors",
    "rate_limit_per_hour",
    "required_fields",
    "requires_approval",
    "risk_level",
    "runtime",
    "server_command",
    "timeout_seconds",
    "transport",
    "url",
    "validates",
    "validators",
];

/// Returns true for a field of a section that only informs.
pub(crate) fn only_informs(field: &str) -> bool {
    let is_subfield = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
    INFORMING_SECTIONS.iter().any(|section| field.strip_prefix(section).is_some_and(is_subfield))
}

pub(crate) struct DiagnosticCollector<'d> {
    document: &'d Document,
    diagnostics: Vec<Diagnostic>,
    error_count: usize,
    blocking_count: usize,
    /// Lines that must not be shown, because they may contain a secret.
    hidden_lines: BTreeSet<u64>,
}

/// Position in the file, with the dotted path of the field.
#[derive(Clone, Copy)]
pub(crate) struct FieldPosition<'p> {
    pub(crate) line: u64,
    pub(crate) column: u64,
    pub(crate) field: &'p str,
}

impl<'p> FieldPosition<'p> {
    pub(crate) fn node(node: &YamlNode, field: &'p str) -> Self {
        FieldPosition { line: node.line, column: node.column, field }
    }

    pub(crate) fn key(key: &Located<String>, field: &'p str) -> Self {
        FieldPosition { line: key.line, column: key.column, field }
    }
}

impl<'d> DiagnosticCollector<'d> {
    /// Creates a collector for a document. Diagnostics show no excerpt of the lines in `hidden`.
    pub(crate) fn new(document: &'d Document, hidden: BTreeSet<u64>) -> Self {
        DiagnosticCollector {
            document,
            diagnostics: Vec::new(),
            error_count: 0,
            blocking_count: 0,
            hidden_lines: hidden,
        }
    }

    pub(crate) fn add(&mut self, code: DiagnosticCode, at: FieldPosition<'_>, message: &str, fix: &str) {
        let is_error = code.severity() == DiagnosticSeverity::Error;
        // The limits on entries, which are invalid values, hold everywhere.
        let costs_entry = only_informs(at.field) && code != DiagnosticCode::InvalidValue;
        self.error_count += usize::from(is_error);
        self.blocking_count += usize::from(is_error && !costs_entry);
        if self.diagnostics.len() >= MAX_DIAGNOSTICS {
            return;
        }
        let mut error = self.document.error_at(at.line, at.column, message).with_suggestion(fix);
        if self.is_hidden_line(at.line) {
            error.excerpt.clear();
        }
        self.diagnostics.push(Diagnostic { code, field: at.field.to_owned(), error });
    }

    /// Returns true if this line must not be shown. A message about it must not quote any of its words.
    pub(crate) fn is_hidden_line(&self, line: u64) -> bool {
        self.hidden_lines.contains(&line)
    }

    /// Returns true if an error keeps the manifest from loading.
    pub(crate) fn blocks_loading(&self) -> bool {
        self.blocking_count > 0
    }

    /// Returns the number of errors, including those over the limit.
    pub(crate) fn error_count(&self) -> usize {
        self.error_count
    }

    /// Returns the diagnostics in file order.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.diagnostics.sort_by_key(|one| (one.error.line, one.error.column));
        self.diagnostics
    }
}
