//! First pass over a text, which refuses ambiguous YAML before the text is parsed into a type.
//!
//! It works on parser events and stores only the keys of open mappings, so that the size of the text bounds
//! its cost.

use std::collections::HashMap;

use serde_saphyr::granit_parser::{self, Event, Parser, ScalarStyle, Span};

use crate::node::{Builder, Node};

/// Maximum nesting depth; our deepest file has seven levels.
const DEEPEST: usize = 32;

/// Maximum number of parser events in one file: values, keys, and ends of lists and mappings. A policy with a
/// thousand tools of a hundred patterns each has fewer.
pub(crate) const MOST_NODES: usize = 120_000;

/// Reason and position of a refusal.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) line: u64,
    pub(crate) column: u64,
    pub(crate) message: String,
    pub(crate) suggestion: Option<String>,
}

/// Refuses a text that is empty, contains several documents, or uses tags, anchors, aliases, merge keys,
/// duplicate keys, keys that are not words, or nulls.
pub(crate) fn refuse_ambiguity(text: &str) -> Result<(), Refused> {
    events(text, |_, _| {})
}

/// Like `refuse_ambiguity`, and returns the tree.
pub(crate) fn tree(text: &str) -> Result<Node, Refused> {
    let mut builder = Builder::default();
    events(text, |event, span| builder.event(event, span))?;
    builder.finish().ok_or_else(|| empty(1, 1))
}

fn events(text: &str, mut passed: impl FnMut(&Event<'_>, Span)) -> Result<(), Refused> {
    let options = granit_parser::options! { emit_comments: false, emit_unresolved_aliases: true };
    let mut scan = Scan::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| syntax(&error))?;
        scan.event(&event, span)?;
        passed(&event, span);
    }
    if scan.documents == 0 {
        return Err(empty(1, 1));
    }
    Ok(())
}

#[derive(Default)]
struct Scan {
    documents: usize,
    nodes: usize,
    open: Vec<Frame>,
}

enum Frame {
    List,
    Mapping { keys: HashMap<String, u64>, at: Place },
}

enum Place {
    Key,
    ValueOf(String),
}

impl Scan {
    fn event(&mut self, event: &Event<'_>, span: Span) -> Result<(), Refused> {
        self.nodes += 1;
        if self.nodes > MOST_NODES {
            return Err(refused(span, &format!("the file has more than {MOST_NODES} values")));
        }
        match event {
            Event::DocumentStart(..) => self.document(span),
            Event::Scalar(text, style, anchor, tag) => {
                refuse_decoration(*anchor, tag.is_some(), span)?;
                self.scalar(text, *style, span)
            }
            Event::SequenceStart(_, anchor, tag) => {
                refuse_decoration(*anchor, tag.is_some(), span)?;
                self.collection(Frame::List, span)
            }
            Event::MappingStart(_, anchor, tag) => {
                refuse_decoration(*anchor, tag.is_some(), span)?;
                self.collection(Frame::Mapping { keys: HashMap::new(), at: Place::Key }, span)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.open.pop();
                self.value_ended();
                Ok(())
            }
            Event::Alias(_) => {
                Err(refused(span, "aliases (`*name`) are not supported").suggest("write the value out"))
            }
            // Almost always a pattern that was meant as text.
            Event::UnresolvedAlias(name) => {
                let message = "an unquoted `*` begins an alias, and aliases are not supported";
                Err(refused(span, message).suggest(&format!("quote it: \"*{name}\"")))
            }
            _ => Ok(()),
        }
    }

    fn document(&mut self, span: Span) -> Result<(), Refused> {
        self.documents += 1;
        if self.documents > 1 {
            return Err(refused(span, "a second document begins here")
                .suggest("a file may contain only one document"));
        }
        Ok(())
    }

    fn collection(&mut self, frame: Frame, span: Span) -> Result<(), Refused> {
        if let Some(Frame::Mapping { at: Place::Key, .. }) = self.open.last() {
            return Err(refused(span, "a key must be a word, not a list or a mapping"));
        }
        if self.open.len() >= DEEPEST {
            return Err(refused(span, &format!("nested deeper than {DEEPEST} levels")));
        }
        self.open.push(frame);
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, span: Span) -> Result<(), Refused> {
        let plain = style == ScalarStyle::Plain;
        match self.open.last_mut() {
            Some(Frame::Mapping { keys, at: at @ Place::Key }) => {
                if plain && (is_null(text) || text == "<<") {
                    let message =
                        format!("`{text}` cannot be a key; merge keys and null keys are not supported");
                    return Err(refused(span, &message));
                }
                let line = span.start.line() as u64;
                if let Some(first) = keys.insert(text.to_owned(), line) {
                    let message =
                        format!("the key `{text}` occurs twice in this mapping, first on line {first}");
                    return Err(refused(span, &message).suggest("merge the two or remove one"));
                }
                *at = Place::ValueOf(text.to_owned());
                Ok(())
            }
            _ if plain && is_null(text) => Err(self.null(text, span)),
            _ => {
                self.value_ended();
                Ok(())
            }
        }
    }

    /// Creates the error for a null. A type with optional fields would treat null as absent, but to a person
    /// `forbidden_paths:` with its list cut off does not mean "nothing is forbidden".
    fn null(&self, text: &str, span: Span) -> Refused {
        let error = match self.open.last() {
            None => return empty(span.start.line() as u64, span.start.col() as u64 + 1),
            Some(Frame::Mapping { at: Place::ValueOf(key), .. }) => {
                refused(span, &format!("the key `{key}` has no value"))
            }
            Some(_) => refused(span, "a list item has no value"),
        };
        // For a missing value the parser reports `~` with an empty span.
        match text {
            "~" if !span.is_empty() => {
                error.suggest("an unquoted `~` means null: write \"~\" or $HOME for the home directory")
            }
            _ => error.suggest("give it a value, [] for an empty list, or remove it"),
        }
    }

    fn value_ended(&mut self) {
        if let Some(Frame::Mapping { at, .. }) = self.open.last_mut() {
            *at = Place::Key;
        }
    }
}

fn is_null(plain: &str) -> bool {
    matches!(plain, "" | "~" | "null" | "Null" | "NULL")
}

fn refuse_decoration(anchor: usize, tagged: bool, span: Span) -> Result<(), Refused> {
    if anchor != 0 {
        return Err(refused(span, "anchors (`&name`) are not supported")
            .suggest("write the value out where it is used"));
    }
    if tagged {
        let span = span.tag_span().unwrap_or(span);
        return Err(
            refused(span, "tags (`!name`) are not supported").suggest("write the value without its tag")
        );
    }
    Ok(())
}

fn refused(span: Span, message: &str) -> Refused {
    let (line, column) = (span.start.line() as u64, span.start.col() as u64 + 1);
    Refused { line, column, message: message.to_owned(), suggestion: None }
}

fn empty(line: u64, column: u64) -> Refused {
    let message = "the file is empty, or contains only comments".to_owned();
    let suggestion = Some("restore its content; an empty file is never treated as \"no rules\"".to_owned());
    Refused { line, column, message, suggestion }
}

fn syntax(error: &granit_parser::ScanError) -> Refused {
    let (line, column) = (error.marker().line() as u64, error.marker().col() as u64 + 1);
    Refused { line, column, message: format!("not valid YAML: {}", error.info()), suggestion: None }
}

impl Refused {
    fn suggest(mut self, suggestion: &str) -> Self {
        self.suggestion = Some(suggestion.to_owned());
        self
    }
}
