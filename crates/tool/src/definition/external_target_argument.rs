//! Arguments of a tool that are commands or network addresses. They are found once, from the schema, when a
//! definition is checked. Governance checks only these positions, so a declaration anywhere else is an error.

use serde_json::Value;

use crate::Arguments;
use crate::definition::DefinitionError;
use crate::text::{MAX_QUOTED_CHARS, shorten};

/// Kind of external target that an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternalTargetKind {
    /// Program with its arguments: an array of strings, or one string split at spaces. `format: command`.
    Command,
    /// Network address: a string, or an array of strings. `format: uri` or `format: url`.
    Url,
}

/// Argument that is a command or a network address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalTargetArgument {
    /// Key of the argument.
    pub key: String,
    /// Kind of its target.
    pub kind: ExternalTargetKind,
    /// For a command whose argument has only the last words: the program and the words before them.
    pub prefix: Vec<String>,
}

/// Keyword beside `format: command` with the words that come before those of the argument.
pub const COMMAND_PREFIX: &str = "x-sinew-command-prefix";

impl ExternalTargetArgument {
    /// Finds all such arguments of an object schema. A declaration at any other position is an error.
    pub(crate) fn find(schema: &Value) -> Result<Vec<ExternalTargetArgument>, DefinitionError> {
        let mut targets = Vec::new();
        collect_declarations(schema, "", &mut targets);
        let mut found = Vec::new();
        for (at, kind) in targets {
            let argument =
                argument_at(schema, &at, kind).ok_or(DefinitionError::MisplacedExternalTarget(at))?;
            if !found.contains(&argument) {
                found.push(argument);
            }
        }
        Ok(found)
    }

    /// Returns the strings of this argument: its items if it is an array, else the string itself.
    pub fn texts<'a>(&self, arguments: &'a Arguments) -> impl Iterator<Item = &'a str> {
        let value = arguments.get(&self.key);
        let items = value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        value.and_then(Value::as_str).into_iter().chain(items)
    }
}

fn target_kind(schema: &Value) -> Option<ExternalTargetKind> {
    match schema.get("format").and_then(Value::as_str)? {
        "command" => Some(ExternalTargetKind::Command),
        "uri" | "url" => Some(ExternalTargetKind::Url),
        _ => None,
    }
}

/// Collects every position that declares a target. An unknown keyword counts as a schema, so that it cannot
/// hide a declaration.
fn collect_declarations(schema: &Value, at: &str, targets: &mut Vec<(String, ExternalTargetKind)>) {
    match schema {
        Value::Object(keywords) => {
            targets.extend(target_kind(schema).map(|kind| (at.to_owned(), kind)));
            for (keyword, value) in keywords {
                if !matches!(keyword.as_str(), "const" | "default" | "enum" | "examples") {
                    collect_declarations(
                        value,
                        &format!("{at}/{}", shorten(keyword, MAX_QUOTED_CHARS)),
                        targets,
                    );
                }
            }
        }
        Value::Array(schemas) => {
            for (index, schema) in schemas.iter().enumerate() {
                collect_declarations(schema, &format!("{at}/{index}"), targets);
            }
        }
        _ => {}
    }
}

/// Returns the argument a position belongs to, or none if governance does not check that position.
fn argument_at(schema: &Value, at: &str, kind: ExternalTargetKind) -> Option<ExternalTargetArgument> {
    let (argument, in_items) = match at.strip_prefix("/properties/")?.split_once('/') {
        None => (at.strip_prefix("/properties/")?, false),
        Some((argument, "items")) => (argument, true),
        Some(_) => return None,
    };
    let property = schema.get("properties")?.get(argument)?;
    let has = |schema: &Value, wanted: &str| match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().all(|kind| kind == wanted || kind == "null"),
        Some(kind) => kind == wanted,
        None => false,
    };
    let texts = || property.get("items").is_some_and(|items| has(items, "string"));
    let fits = match (kind, in_items) {
        (ExternalTargetKind::Command, false) => {
            has(property, "string") || (has(property, "array") && texts())
        }
        (ExternalTargetKind::Command, true) => false,
        (ExternalTargetKind::Url, false) => has(property, "string"),
        (ExternalTargetKind::Url, true) => has(property, "array") && texts(),
    };
    let prefix = property.get(COMMAND_PREFIX).and_then(Value::as_array).into_iter().flatten();
    let prefix = prefix.filter_map(Value::as_str).map(str::to_owned).collect();
    fits.then(|| ExternalTargetArgument { key: argument.to_owned(), kind, prefix })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commands_and_addresses_of_arguments_are_found() {
        let schema = json!({"properties": {
            "argv": {"type": "array", "format": "command", "items": {"type": "string"}},
            "line": {"type": "string", "format": "command"},
            "url": {"type": ["string", "null"], "format": "uri"},
            "urls": {"type": "array", "items": {"type": "string", "format": "url"}},
            "other": {"type": "string", "default": {"format": "uri"}}}});
        let found = ExternalTargetArgument::find(&schema).unwrap();
        let shown: Vec<_> = found.iter().map(|found| (found.key.as_str(), found.kind)).collect();
        let (command, url) = (ExternalTargetKind::Command, ExternalTargetKind::Url);
        assert_eq!(shown, [("argv", command), ("line", command), ("url", url), ("urls", url)]);
        let arguments = json!({"urls": ["a", "b"], "line": "x y"});
        let texts = |at: usize| found[at].texts(arguments.as_object().unwrap()).collect::<Vec<_>>();
        assert_eq!((texts(1), texts(3), texts(2)), (vec!["x y"], vec!["a", "b"], vec![]));
    }

    #[test]
    fn declarations_at_other_positions_are_refused() {
        let uri = json!({"type": "string", "format": "uri"});
        for (at, schema) in [
            ("/properties/a/properties/b", json!({"properties": {"a": {"properties": {"b": uri}}}})),
            ("/properties/a/anyOf/0", json!({"properties": {"a": {"anyOf": [uri]}}})),
            ("/$defs/u", json!({"$defs": {"u": uri}})),
            ("/properties/a", json!({"properties": {"a": {"format": "uri"}}})),
            ("/properties/a", json!({"properties": {"a": {"type": "array", "format": "command"}}})),
            (
                "/properties/a/items",
                json!({"properties": {"a": {"type": "array", "items": {"type": "string", "format": "command"}}}}),
            ),
        ] {
            let refused = ExternalTargetArgument::find(&schema).unwrap_err();
            assert_eq!(refused, DefinitionError::MisplacedExternalTarget(at.to_owned()), "{schema}");
        }
    }
}
