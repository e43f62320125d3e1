//! Collector of the diagnostics of one document.

use std::collections::BTreeSet;

use strict_yaml::{Document, Located, YamlNode};

use crate::diagnostic::{Diagnostic, DiagnosticCode, DiagnosticSeverity};

/// Maximum number of diagnostics per file. A file of a megabyte could have a hundred thousand errors.
const MAX_DIAGNOSTICS: usize = 200;

pub(crate) struct DiagnosticCollector<'d> {
    document: &'d Document,
    diagnostics: Vec<Diagnostic>,
    error_count: usize,
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
        DiagnosticCollector { document, diagnostics: Vec::new(), error_count: 0, hidden_lines: hidden }
    }

    pub(crate) fn add(&mut self, code: DiagnosticCode, at: FieldPosition<'_>, message: &str, fix: &str) {
        self.error_count += usize::from(code.severity() == DiagnosticSeverity::Error);
        if self.diagnostics.len() >= MAX_DIAGNOSTICS {
            return;
        }
        let mut place = self.document.error_at(at.line, at.column, message).with_suggestion(fix);
        if self.is_hidden_line(at.line) {
            place.excerpt.clear();
        }
        self.diagnostics.push(Diagnostic { code, field: at.field.to_owned(), error: place });
    }

    /// Returns true if this line must not be shown. A message about it must not quote any of its words.
    pub(crate) fn is_hidden_line(&self, line: u64) -> bool {
        self.hidden_lines.contains(&line)
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.error_count > 0
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
