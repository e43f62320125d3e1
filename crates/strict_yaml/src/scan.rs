//! First pass over a text, which refuses ambiguous YAML before the text is parsed into a type.
//!
//! It works on parser events and stores only the keys of open mappings, so that the size of the text bounds
//! its cost.

use std::collections::HashMap;

use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle, Span};

use crate::node::{YamlNode, YamlTreeBuilder};

/// Maximum nesting depth; our deepest file has seven levels.
const MAX_DEPTH: usize = 32;

/// Maximum number of parser events in one file: values, keys, and ends of lists and mappings. A policy with a
/// thousand tools of a hundred patterns each has fewer.
pub(crate) const MAX_EVENTS: usize = 120_000;

/// Reason and position of a refusal.
#[derive(Debug)]
pub(crate) struct ScanError {
    pub(crate) line: u64,
    pub(crate) column: u64,
    pub(crate) message: String,
    pub(crate) suggestion: Option<String>,
}

/// Treatment of values that are absent or null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NullValues {
    Refused,
    Admitted,
}

/// Refuses a text that is empty, contains several documents, or uses tags, anchors, aliases, merge keys,
/// duplicate keys, keys that are not words, or nulls.
pub(crate) fn refuse_ambiguity(text: &str) -> Result<(), ScanError> {
    scan_events(text, NullValues::Refused, |_, _| {})
}

/// Like `refuse_ambiguity`, and returns the tree.
pub(crate) fn scan_into_tree(text: &str, nulls: NullValues) -> Result<YamlNode, ScanError> {
    let mut builder = YamlTreeBuilder::default();
    scan_events(text, nulls, |event, span| builder.add_event(event, span))?;
    builder.finish().ok_or_else(|| empty_file_error(1, 1))
}

fn scan_events(
    text: &str,
    nulls: NullValues,
    mut passed: impl FnMut(&Event<'_>, Span),
) -> Result<(), ScanError> {
    let options = granit_parser::options! { emit_comments: false, emit_unresolved_aliases: true };
    let mut scan = AmbiguityScan { nulls, documents: 0, nodes: 0, open: Vec::new() };
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| syntax_error(&error))?;
        scan.check_event(&event, span)?;
        passed(&event, span);
    }
    if scan.documents == 0 {
        return Err(empty_file_error(1, 1));
    }
    Ok(())
}

struct AmbiguityScan {
    nulls: NullValues,
    documents: usize,
    nodes: usize,
    open: Vec<OpenFrame>,
}

enum OpenFrame {
    List,
    Mapping { keys: HashMap<String, u64>, at: MappingPosition },
}

enum MappingPosition {
    Key,
    ValueOf(String),
}

impl AmbiguityScan {
    fn check_event(&mut self, event: &Event<'_>, span: Span) -> Result<(), ScanError> {
        self.nodes += 1;
        if self.nodes > MAX_EVENTS {
            return Err(scan_error(span, &format!("the file has more than {MAX_EVENTS} values")));
        }
        match event {
            Event::DocumentStart(..) => self.begin_document(span),
            Event::Scalar(text, style, anchor, tag) => {
                refuse_anchors_and_tags(*anchor, tag.is_some(), span)?;
                self.check_scalar(text, *style, span)
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse_anchors_and_tags(*anchor, tag.is_some(), span)?;
                self.begin_collection(OpenFrame::List, span)
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse_anchors_and_tags(*anchor, tag.is_some(), span)?;
                self.begin_collection(
                    OpenFrame::Mapping { keys: HashMap::new(), at: MappingPosition::Key },
                    span,
                )
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.open.pop();
                self.end_value();
                Ok(())
            }
            Event::Alias(_) => Err(scan_error(span, "aliases (`*name`) are not supported")
                .with_suggestion("write the value out")),
            // Almost always a pattern that was meant as text.
            Event::UnresolvedAlias(name) => {
                let message = "an unquoted `*` begins an alias, and aliases are not supported";
                Err(scan_error(span, message).with_suggestion(&format!("quote it: \"*{name}\"")))
            }
            _ => Ok(()),
        }
    }

    fn begin_document(&mut self, span: Span) -> Result<(), ScanError> {
        self.documents += 1;
        if self.documents > 1 {
            return Err(scan_error(span, "a second document begins here")
                .with_suggestion("a file may contain only one document"));
        }
        Ok(())
    }

    fn begin_collection(&mut self, frame: OpenFrame, span: Span) -> Result<(), ScanError> {
        if let Some(OpenFrame::Mapping { at: MappingPosition::Key, .. }) = self.open.last() {
            return Err(scan_error(span, "a key must be a word, not a list or a mapping"));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(scan_error(span, &format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.open.push(frame);
        Ok(())
    }

    fn check_scalar(&mut self, text: &str, style: ScalarStyle, span: Span) -> Result<(), ScanError> {
        let plain = style == ScalarStyle::Plain;
        match self.open.last_mut() {
            Some(OpenFrame::Mapping { keys, at: at @ MappingPosition::Key }) => {
                if plain && (is_null(text) || text == "<<") {
                    let message =
                        format!("`{text}` cannot be a key; merge keys and null keys are not supported");
                    return Err(scan_error(span, &message));
                }
                let line = span.start.line() as u64;
                if let Some(first) = keys.insert(text.to_owned(), line) {
                    let message =
                        format!("the key `{text}` occurs twice in this mapping, first on line {first}");
                    return Err(scan_error(span, &message).with_suggestion("merge the two or remove one"));
                }
                *at = MappingPosition::ValueOf(text.to_owned());
                Ok(())
            }
            // A file that consists of one null is empty in any case.
            open if plain && is_null(text) && (open.is_none() || self.nulls == NullValues::Refused) => {
                Err(self.null_error(text, span))
            }
            _ => {
                self.end_value();
                Ok(())
            }
        }
    }

    /// Creates the error for a null. A type with optional fields would treat null as absent, but to a person
    /// `forbidden_paths:` with its list cut off does not mean "nothing is forbidden".
    fn null_error(&self, text: &str, span: Span) -> ScanError {
        let error = match self.open.last() {
            None => return empty_file_error(span.start.line() as u64, span.start.col() as u64 + 1),
            Some(OpenFrame::Mapping { at: MappingPosition::ValueOf(key), .. }) => {
                scan_error(span, &format!("the key `{key}` has no value"))
            }
            Some(_) => scan_error(span, "a list item has no value"),
        };
        // For a missing value the parser reports `~` with an empty span.
        match text {
            "~" if !span.is_empty() => error
                .with_suggestion("an unquoted `~` means null: write \"~\" or $HOME for the home directory"),
            _ => error.with_suggestion("give it a value, [] for an empty list, or remove it"),
        }
    }

    fn end_value(&mut self) {
        if let Some(OpenFrame::Mapping { at, .. }) = self.open.last_mut() {
            *at = MappingPosition::Key;
        }
    }
}

pub(crate) fn is_null(plain: &str) -> bool {
    matches!(plain, "" | "~" | "null" | "Null" | "NULL")
}

fn refuse_anchors_and_tags(anchor: usize, tagged: bool, span: Span) -> Result<(), ScanError> {
    if anchor != 0 {
        return Err(scan_error(span, "anchors (`&name`) are not supported")
            .with_suggestion("write the value out where it is used"));
    }
    if tagged {
        let span = span.tag_span().unwrap_or(span);
        return Err(scan_error(span, "tags (`!name`) are not supported")
            .with_suggestion("write the value without its tag"));
    }
    Ok(())
}

fn scan_error(span: Span, message: &str) -> ScanError {
    let (line, column) = (span.start.line() as u64, span.start.col() as u64 + 1);
    ScanError { line, column, message: message.to_owned(), suggestion: None }
}

fn empty_file_error(line: u64, column: u64) -> ScanError {
    let message = "the file is empty, or contains only comments".to_owned();
    let suggestion = Some("restore its content; an empty file is never treated as \"no rules\"".to_owned());
    ScanError { line, column, message, suggestion }
}

fn syntax_error(error: &granit_parser::ScanError) -> ScanError {
    let (line, column) = (error.marker().line() as u64, error.marker().col() as u64 + 1);
    ScanError { line, column, message: format!("not valid YAML: {}", error.info()), suggestion: None }
}

impl ScanError {
    fn with_suggestion(mut self, suggestion: &str) -> Self {
        self.suggestion = Some(suggestion.to_owned());
        self
    }
}
