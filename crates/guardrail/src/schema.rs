//! A tool's input schema, compiled once and bounded: a hostile schema costs little and reaches no network.

mod cost;
mod graph;

use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

use crate::lore::Lore;
use crate::validators::Validators;

/// Deeper schemas are refused: nobody writes them by hand, and validators recurse.
const DEEPEST: usize = 64;
/// A schema may not have more values than this, a list of allowed words included.
const MOST_VALUES: usize = 100_000;
/// A compiled pattern may not need more memory than this.
const LARGEST_PATTERN: usize = 1 << 20;
/// Of what is wrong with a value, which may quote it.
const LONGEST_OBJECTION: usize = 300;
/// The format of an argument that is a list of `{tool_slug, arguments}`.
const CALLS: &str = "calls";
/// The dialects there are, by the addresses they are declared under.
const DIALECTS: [(&str, Draft); 5] = [
    ("json-schema.org/draft/2020-12/schema", Draft::Draft202012),
    ("json-schema.org/draft/2019-09/schema", Draft::Draft201909),
    ("json-schema.org/draft-07/schema", Draft::Draft7),
    ("json-schema.org/draft-06/schema", Draft::Draft6),
    ("json-schema.org/draft-04/schema", Draft::Draft4),
];

/// A compiled JSON Schema (2020-12, or the older draft it declares).
#[derive(Debug)]
pub struct InputSchema {
    validator: Validator,
    /// The arguments that hold calls of other tools.
    calls: Vec<String>,
    /// What the tool requires beyond it.
    validators: Option<Arc<Validators>>,
    /// What is known of the mistakes people make.
    lore: Option<Arc<Lore>>,
}

impl InputSchema {
    /// Compiles a schema. References outside it are refused, patterns run in linear time, and what could take for
    /// ever to use is an error here.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        if depth_exceeds(schema, DEEPEST) {
            return Err(SchemaError::TooDeep);
        }
        if values_exceed(schema, MOST_VALUES).is_none() {
            return Err(SchemaError::TooLarge);
        }
        let draft = dialect(schema)?;
        cost::check(schema)?;
        let patterns = PatternOptions::regex().size_limit(LARGEST_PATTERN).dfa_size_limit(LARGEST_PATTERN);
        let options = jsonschema::options().offline().with_draft(draft).with_pattern_options(patterns);
        let validator = options.build(schema).map_err(|error| SchemaError::Invalid(error.to_string()))?;
        let properties = schema["properties"].as_object().into_iter().flatten();
        let calls = properties.filter(|(_, property)| property["format"] == CALLS);
        let calls = calls.map(|(name, _)| name.clone()).collect();
        Ok(InputSchema { validator, calls, validators: None, lore: None })
    }

    /// The same, with what the tool requires beyond it. No call of the tool is valid before these were asked.
    pub fn validated_by(self, validators: Arc<Validators>) -> Self {
        InputSchema { validators: Some(validators), ..self }
    }

    /// The same, with what is told where its arguments are wrong.
    pub fn taught_by(self, lore: Arc<Lore>) -> Self {
        InputSchema { lore: Some(lore), ..self }
    }

    /// The first thing that is wrong with a value, in words that fit on a line. For what is not a call: an answer.
    pub fn objection(&self, value: &Value) -> Option<String> {
        let error = self.validator.iter_errors(value).next()?;
        let (at, what) = (error.instance_path().to_string(), error.to_string());
        let what: String = tool::visible_line(&what).chars().take(LONGEST_OBJECTION).collect();
        Some(if at.is_empty() { what } else { format!("at {at}: {what}") })
    }

    pub(crate) fn validators(&self) -> Option<&Arc<Validators>> {
        self.validators.as_ref()
    }

    pub(crate) fn lore(&self) -> Option<&Lore> {
        self.lore.as_deref()
    }

    /// The arguments that hold calls of other tools: those of the format `calls`.
    pub(crate) fn calls(&self) -> &[String] {
        &self.calls
    }

    pub(crate) fn validator(&self) -> &Validator {
        &self.validator
    }
}

/// The declared dialect; the newest where none is declared. One we do not know may mean anything by its words.
fn dialect(schema: &Value) -> Result<Draft, SchemaError> {
    let Some(declared) = schema.get("$schema") else { return Ok(Draft::Draft202012) };
    let address = declared.as_str().map(|address| address.trim_end_matches('#'));
    let address = address.and_then(|it| it.strip_prefix("https://").or_else(|| it.strip_prefix("http://")));
    let known = DIALECTS.iter().find(|(known, _)| address == Some(known));
    known.map(|(_, draft)| *draft).ok_or_else(|| SchemaError::Dialect(shown(declared)))
}

fn shown(declared: &Value) -> String {
    tool::shorten(&declared.to_string(), tool::LONGEST_WORD).into_owned()
}

fn depth_exceeds(value: &Value, left: usize) -> bool {
    let deeper = |child: &Value| left == 0 || depth_exceeds(child, left - 1);
    match value {
        Value::Array(items) => items.iter().any(deeper),
        Value::Object(map) => map.values().any(deeper),
        _ => false,
    }
}

/// What is left of `left` once every value is counted.
fn values_exceed(value: &Value, left: usize) -> Option<usize> {
    let left = left.checked_sub(1)?;
    match value {
        Value::Array(items) => items.iter().try_fold(left, |left, item| values_exceed(item, left)),
        Value::Object(map) => map.values().try_fold(left, |left, child| values_exceed(child, left)),
        _ => Some(left),
    }
}

/// Why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// It nests too deeply.
    #[error("the input schema is nested deeper than {DEEPEST} levels")]
    TooDeep,
    /// It has too many values.
    #[error("the input schema has more than {MOST_VALUES} values")]
    TooLarge,
    /// It leads back to itself without going into a value.
    #[error("the input schema refers to itself in a loop that never reaches a value")]
    Loop,
    /// Its references multiply.
    #[error(
        "the input schema costs too much to use: its parts refer to one another so that one value may be held against \
         more than {} of them, or it has more than {} parts",
        cost::DEAREST,
        graph::MOST_SUBSCHEMAS
    )]
    TooDear,
    /// It declares a dialect that is not known here.
    #[error("the input schema declares the dialect {0}; known are the drafts 4, 6, 7, 2019-09 and 2020-12")]
    Dialect(String),
    /// It is not a schema, or refers to something outside itself.
    #[error("the input schema cannot be used: {0}")]
    Invalid(String),
}

#[cfg(test)]
mod tests;
