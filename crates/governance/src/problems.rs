//! Collects every error and warning of a policy file, so that one report shows them all.

use std::sync::Arc;

use strict_yaml::{Document, DocumentError, Located};
use tool::text::nearest_word;
use tool::{Mode, RuleRef};

/// Error of a policy that does not load, with every problem that was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub struct PolicyError {
    problems: Vec<DocumentError>,
}

impl PolicyError {
    /// Creates the error from its problems.
    pub fn new(problems: Vec<DocumentError>) -> Self {
        PolicyError { problems }
    }

    /// Returns the problems, each with its location.
    pub fn problems(&self) -> &[DocumentError] {
        &self.problems
    }

    fn text(&self) -> String {
        self.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n")
    }
}

/// Collector of the errors and warnings of one file.
pub(crate) struct FileInspection<'a> {
    document: &'a Document,
    pub(crate) errors: Vec<DocumentError>,
    pub(crate) warnings: Vec<DocumentError>,
}

impl<'a> FileInspection<'a> {
    pub(crate) fn new(document: &'a Document) -> Self {
        FileInspection { document, errors: Vec::new(), warnings: Vec::new() }
    }

    pub(crate) fn error<T>(&mut self, at: &Located<T>, message: &str, suggestion: Option<String>) {
        let error = self.document.error_at(at.line, at.column, message);
        self.errors.push(DocumentError { suggestion, ..error });
    }

    pub(crate) fn warn<T>(&mut self, at: &Located<T>, message: &str, suggestion: Option<String>) {
        let warning = self.document.error_at(at.line, at.column, message);
        self.warnings.push(DocumentError { suggestion, ..warning });
    }

    /// Returns the reference of the rule at this location.
    pub(crate) fn rule_ref<T>(&self, at: &Located<T>, id: impl Into<Arc<str>>) -> RuleRef {
        rule_at(self.document, at, id)
    }

    /// Parses a mode (case-sensitive) and reports an unknown one.
    pub(crate) fn parse_mode(&mut self, word: &Located<String>) -> Option<Mode> {
        let mode = word.parse().ok();
        if mode.is_none() {
            self.error(word, &format!("unknown mode `{}`", word.value), Some(suggest_mode(word)));
        }
        mode
    }

    /// Parses a list of modes, each with its own line, and reports duplicates.
    pub(crate) fn parse_modes(&mut self, words: &[Located<String>], id: &str) -> Vec<(Mode, RuleRef)> {
        let mut modes: Vec<(Mode, RuleRef)> = Vec::new();
        for word in words {
            let Some(mode) = self.parse_mode(word) else { continue };
            if modes.iter().any(|(known, _)| *known == mode) {
                self.error(word, &format!("`{mode}` appears twice in `{id}`"), Some("remove one".to_owned()));
            }
            modes.push((mode, self.rule_ref(word, id)));
        }
        modes
    }
}

/// Returns the reference of the rule that was written at this location of a merged document.
pub(crate) fn rule_at<T>(document: &Document, at: &Located<T>, id: impl Into<Arc<str>>) -> RuleRef {
    let origin = document.origin(at.line, at.column);
    RuleRef { file: origin.document.name().into(), line: origin.line, id: id.into() }
}

pub(crate) fn suggest_mode(word: &str) -> String {
    let known = Mode::ALL.map(Mode::as_str);
    match nearest_word(word, known) {
        Some(mode) => format!("did you mean `{mode}`?"),
        None => format!("the modes are {}", known.join(", ")),
    }
}
