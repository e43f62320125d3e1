//! Gathers what is wrong with one document.

use std::collections::BTreeSet;

use document::{Document, Located, Node};

use crate::diagnostic::{Code, Diagnostic, Severity};

/// A file of a megabyte could be wrong a hundred thousand times; nobody reads past this.
const MOST: usize = 200;

pub(crate) struct Findings<'d> {
    document: &'d Document,
    found: Vec<Diagnostic>,
    errors: usize,
    /// The lines that nobody is shown.
    hidden: BTreeSet<u64>,
}

/// Where in the file, and what it is called there.
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
    /// About a document of which these lines are not shown.
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

    /// Whether this line is one that nobody is shown: what is said about it repeats none of its words.
    pub(crate) fn hides(&self, line: u64) -> bool {
        self.hidden.contains(&line)
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// How many there are, those that nobody is told of included.
    pub(crate) fn errors(&self) -> usize {
        self.errors
    }

    /// In the order of the file.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|one| (one.place.line, one.place.column));
        self.found
    }
}
