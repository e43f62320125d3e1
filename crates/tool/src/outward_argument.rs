//! Arguments of a tool that are commands or network addresses. They are found once, from the schema, when a
//! definition is checked. Governance checks only these positions, so a declaration anywhere else is an error.

use serde_json::Value;

use crate::{Arguments, DefinitionError, LONGEST_WORD, shorten};

/// Kind of external target that an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outward {
    /// Program with its arguments: an array of strings, or one string split at spaces. `format: command`.
    Command,
    /// Network address: a string, or an array of strings. `format: uri` or `format: url`.
    Url,
}

/// Argument that is a command or a network address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutwardArgument {
    /// Key of the argument.
    pub key: String,
    /// Kind of its target.
    pub kind: Outward,
}

impl OutwardArgument {
    /// Finds all such arguments of an object schema. A declaration at any other position is an error.
    pub(crate) fn find(schema: &Value) -> Result<Vec<OutwardArgument>, DefinitionError> {
        let mut places = Vec::new();
        declared(schema, "", &mut places);
        let mut found = Vec::new();
        for (at, kind) in places {
            let argument = argument_at(schema, &at, kind).ok_or(DefinitionError::OutwardPlace(at))?;
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

fn kind(schema: &Value) -> Option<Outward> {
    match schema.get("format").and_then(Value::as_str)? {
        "command" => Some(Outward::Command),
        "uri" | "url" => Some(Outward::Url),
        _ => None,
    }
}

/// Collects every position that declares a target. An unknown keyword counts as a schema, so that it cannot
/// hide a declaration.
fn declared(schema: &Value, at: &str, places: &mut Vec<(String, Outward)>) {
    match schema {
        Value::Object(words) => {
            places.extend(kind(schema).map(|kind| (at.to_owned(), kind)));
            for (keyword, value) in words {
                if !matches!(keyword.as_str(), "const" | "default" | "enum" | "examples") {
                    declared(value, &format!("{at}/{}", shorten(keyword, LONGEST_WORD)), places);
                }
            }
        }
        Value::Array(schemas) => {
            for (index, schema) in schemas.iter().enumerate() {
                declared(schema, &format!("{at}/{index}"), places);
            }
        }
        _ => {}
    }
}

/// Returns the argument a position belongs to, or none if governance does not check that position.
fn argument_at(schema: &Value, at: &str, kind: Outward) -> Option<OutwardArgument> {
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
        (Outward::Command, false) => has(property, "string") || (has(property, "array") && texts()),
        (Outward::Command, true) => false,
        (Outward::Url, false) => has(property, "string"),
        (Outward::Url, true) => has(property, "array") && texts(),
    };
    fits.then(|| OutwardArgument { key: argument.to_owned(), kind })
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
        let found = OutwardArgument::find(&schema).unwrap();
        let shown: Vec<_> = found.iter().map(|found| (found.key.as_str(), found.kind)).collect();
        let (command, url) = (Outward::Command, Outward::Url);
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
            let refused = OutwardArgument::find(&schema).unwrap_err();
            assert_eq!(refused, DefinitionError::OutwardPlace(at.to_owned()), "{schema}");
        }
    }
}
