//! Which arguments of a tool are commands or addresses on the network. Found once, from the schema, when a definition
//! is made. Governance looks nowhere else, so one declared anywhere else is refused.

use serde_json::Value;

use crate::{Arguments, DefinitionError, LONGEST_WORD, shorten};

/// What an argument leads to outside the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outward {
    /// A program and its words: an array of texts, or one text with spaces between the words. `format: command`.
    Command,
    /// An address on the network: a text, or an array of them. `format: uri` or `format: url`.
    Url,
}

/// One argument that is a command or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutwardArgument {
    /// The key of the argument.
    pub key: String,
    /// What it is.
    pub kind: Outward,
}

impl OutwardArgument {
    /// All such arguments of an object schema, which declares none anywhere else.
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

    /// The texts of an address argument, or the texts of a command: its words if it is an array, else the one line.
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

/// Every place that declares one. What is not known as data is taken for a schema, so that nothing hides.
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

/// The argument a place belongs to, if governance would look there.
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
    fn commands_and_addresses_are_found_where_governance_looks() {
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
    fn elsewhere_they_are_refused() {
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
