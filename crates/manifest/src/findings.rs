//! Collector of the diagnostics of one document.

use std::collections::BTreeSet;

use strict_yaml::{Document, Located, Node};

use crate::diagnostic::{Code, Diagnostic, Severity};

/// Maximum number of diagnostics per file. A file of a megabyte could have a hundred thousand errors.
const MOST: usize = 200;

pub(crate) struct Findings<'d> {
    document: &'d Document,
    found: Vec<Diagnostic>,
    errors: usize,
    /// Lines that must not be shown, because they may contain a secret.
    hidden: BTreeSet<u64>,
}

/// Position in the file, with the dotted path of the field.
#[derive(Clone, Copy)]
pub(crate) struct At<'p> {
    pub(crate) line: u64,
    pub(crate) column: u64,
    pub(crate) field: &'p str,
}

impl<'p> At<'p> {
    pub(crate) fn node(node: &Node, field: &'p str) -> Self {
        At { line: node.line, column: node.column, field }
    }

    pub(crate) fn key(key: &Located<String>, field: &'p str) -> Self {
        At { line: key.line, column: key.column, field }
    }
}

impl<'d> Findings<'d> {
    /// Creates a collector for a document. Diagnostics show no excerpt of the lines in `hidden`.
    pub(crate) fn new(document: &'d Document, hidden: BTreeSet<u64>) -> Self {
        Findings { document, found: Vec::new(), errors: 0, hidden }
    }

    pub(crate) fn add(&mut self, code: Code, at: At<'_>, message: &str, fix: &str) {
        self.errors += usize::from(code.severity() == Severity::Error);
        if self.found.len() >= MOST {
            return;
        }
        let mut place = self.document.error_at(at.line, at.column, message).suggest(fix);
        if self.hides(at.line) {
            place.excerpt.clear();
        }
        self.found.push(Diagnostic { code, field: at.field.to_owned(), place });
    }

    /// Returns true if this line must not be shown. A message about it must not quote any of its words.
    pub(crate) fn hides(&self, line: u64) -> bool {
        self.hidden.contains(&line)
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Returns the number of errors, including those over the limit.
    pub(crate) fn errors(&self) -> usize {
        self.errors
    }

    /// Returns the diagnostics in file order.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|one| (one.place.line, one.place.column));
        self.found
    }
}
