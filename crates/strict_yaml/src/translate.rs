//! Conversion of parser errors into `DocumentError`: what was found, what was expected, what was probably
//! meant.

use serde_saphyr::{
    DuplicateKeyPolicy, Error, MergeKeyPolicy, MessageFormatter, Options, UserMessageFormatter,
};

use crate::scan::MAX_EVENTS;
use crate::{Document, DocumentError};

/// Returns the options of the second pass. The first pass has refused most of this; neither relies on the
/// other.
pub(crate) fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 2 * MAX_EVENTS,
            max_nodes: MAX_EVENTS,
            max_aliases: 0,
            max_anchors: 0,
            max_depth: 48,
            max_documents: 1,
            max_merge_keys: 0,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 0, max_replay_stack_depth: 0 },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        emit_comments: false,
        with_snippet: false,
    }
}

/// Converts an error of the second pass.
pub(crate) fn translate(document: &Document, error: &Error) -> DocumentError {
    let error = error.without_snippet();
    let (line, column) = error.location().map_or((0, 0), |location| (location.line(), location.column()));
    let (message, suggestion) = message_and_suggestion(error);
    DocumentError { suggestion, ..document.error_at(line, column, &message) }
}

fn message_and_suggestion(error: &Error) -> (String, Option<String>) {
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            (format!("unknown key `{field}`"), Some(suggest_known(field, expected)))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            (format!("unknown word `{variant}`"), Some(suggest_known(variant, expected)))
        }
        Error::SerdeMissingField { field, .. } => (format!("the key `{field}` is missing"), None),
        Error::SerdeInvalidType { unexpected, expected, .. } => {
            (format!("expected {expected}, found {unexpected}"), None)
        }
        Error::SerdeInvalidValue { unexpected, expected, .. } => {
            (format!("expected {expected}, found {unexpected}"), None)
        }
        Error::InvalidBooleanStrict { .. } => ("expected `true` or `false`".to_owned(), None),
        Error::Budget { .. } => ("the file is too complex".to_owned(), None),
        Error::Message { msg, .. } => (msg.clone(), None),
        other => (without_rust_types(UserMessageFormatter.format_message(other).into_owned()), None),
    }
}

/// Replaces the name of a Rust number type by the numbers that it holds.
fn without_rust_types(message: String) -> String {
    let whole = |max: u64| format!("expected a whole number from 0 to {max}");
    match message.as_str() {
        "invalid u8" => whole(u8::MAX.into()),
        "invalid u16" => whole(u16::MAX.into()),
        "invalid u32" => whole(u32::MAX.into()),
        "invalid u64" | "invalid usize" => whole(u64::MAX),
        "invalid f32" | "invalid f64" => "expected a number".to_owned(),
        _ => message,
    }
}

fn suggest_known(unknown: &str, known: &[&'static str]) -> String {
    match tool::text::nearest_word(unknown, known.iter().copied()) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("known here: {}", known.join(", ")),
    }
}
