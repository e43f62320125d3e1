//! Positions at which a schema may declare a path: an argument, or the items of an array argument. The path
//! rules check only these, so a schema with a path declared anywhere else is refused.

use serde_json::{Map, Value};

use crate::definition::DefinitionError;
use crate::text::{MAX_QUOTED_CHARS, nearest_word, shorten};

/// Keyword that states the access a tool needs to a path.
pub(crate) const ACCESS_KEYWORD: &str = "x-sinew-access";
const ACCESS_VALUES: [&str; 3] = ["read", "write", "remove"];

/// Returns true if a schema declares its value to be a path.
pub(crate) fn is_path(schema: &Value) -> bool {
    schema["format"] == "path"
}

/// Refuses a schema that declares a path at a position no rule checks, or with an unknown access.
pub(crate) fn check(schema: &Value) -> Result<(), DefinitionError> {
    let mut inspection = PathDeclarationCheck::default();
    inspection.visit_schema(schema, "", SchemaPosition::Root)?;
    match inspection.reference {
        Some(at) if inspection.declares_path => Err(DefinitionError::PathReference(at)),
        _ => Ok(()),
    }
}

/// Position of a subschema in the whole schema.
#[derive(Clone, Copy)]
enum SchemaPosition {
    Root,
    Argument,
    Items,
    Elsewhere,
}

impl SchemaPosition {
    /// Returns the position of the subschema under this keyword.
    fn under(self, keyword: &str) -> SchemaPosition {
        match (self, keyword) {
            (SchemaPosition::Root, "properties") => SchemaPosition::Argument,
            (SchemaPosition::Argument, "items") => SchemaPosition::Items,
            _ => SchemaPosition::Elsewhere,
        }
    }
}

#[derive(Default)]
struct PathDeclarationCheck {
    declares_path: bool,
    /// First reference that may lead to an argument.
    reference: Option<String>,
}

impl PathDeclarationCheck {
    fn visit_schema(
        &mut self,
        schema: &Value,
        at: &str,
        position: SchemaPosition,
    ) -> Result<(), DefinitionError> {
        match schema {
            Value::Object(keywords) => {
                self.check_declaration(keywords, at, position)?;
                keywords
                    .iter()
                    .try_for_each(|(keyword, value)| self.visit_keyword(keyword, value, at, position))
            }
            Value::Array(schemas) => schemas.iter().enumerate().try_for_each(|(index, schema)| {
                self.visit_schema(schema, &format!("{at}/{index}"), SchemaPosition::Elsewhere)
            }),
            _ => Ok(()),
        }
    }

    /// Visits the value of a keyword. An unknown keyword counts as a schema, so that it cannot hide a path.
    fn visit_keyword(
        &mut self,
        keyword: &str,
        value: &Value,
        at: &str,
        position: SchemaPosition,
    ) -> Result<(), DefinitionError> {
        let (at, position) =
            (format!("{at}/{}", shorten(keyword, MAX_QUOTED_CHARS)), position.under(keyword));
        match (keyword, value) {
            ("const" | "default" | "enum" | "examples", _) => Ok(()),
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                | "dependencies",
                Value::Object(schemas),
            ) => schemas.iter().try_for_each(|(name, schema)| {
                self.visit_schema(schema, &format!("{at}/{}", shorten(name, MAX_QUOTED_CHARS)), position)
            }),
            ("$ref" | "$dynamicRef" | "$recursiveRef", target) => {
                if !target.as_str().is_some_and(refers_to_definition) {
                    self.reference.get_or_insert(at);
                }
                Ok(())
            }
            _ => self.visit_schema(value, &at, position),
        }
    }

    fn check_declaration(
        &mut self,
        keywords: &Map<String, Value>,
        at: &str,
        position: SchemaPosition,
    ) -> Result<(), DefinitionError> {
        let itself = keywords.get("format").is_some_and(|format| format == "path");
        check_access(keywords, at, itself)?;
        let items = match position {
            SchemaPosition::Root | SchemaPosition::Elsewhere if itself => {
                return Err(DefinitionError::MisplacedPath(at.to_owned()));
            }
            SchemaPosition::Argument => keywords.get("items").is_some_and(is_path),
            SchemaPosition::Root | SchemaPosition::Items | SchemaPosition::Elsewhere => false,
        };
        if (itself || items) && !admits_only_paths(keywords, itself, items) {
            return Err(DefinitionError::PathType(at.to_owned()));
        }
        self.declares_path |= itself;
        Ok(())
    }
}

/// Returns true for a reference to a definition. Definitions contain no paths, so such a reference leads to
/// none.
fn refers_to_definition(target: &str) -> bool {
    let name = target.strip_prefix("#/$defs/").or_else(|| target.strip_prefix("#/definitions/"));
    name.is_some_and(|name| !name.contains('/'))
}

/// Returns true if the type admits only strings and arrays of strings: the path rules cover no other values.
fn admits_only_paths(keywords: &Map<String, Value>, itself: bool, items: bool) -> bool {
    let kinds = match keywords.get("type") {
        Some(Value::Array(kinds)) => kinds.as_slice(),
        Some(kind) => std::slice::from_ref(kind),
        None => return false,
    };
    kinds.iter().all(|kind| match kind.as_str() {
        Some("null") => true,
        Some("string") => itself,
        Some("array") => items,
        _ => false,
    })
}

fn check_access(keywords: &Map<String, Value>, at: &str, on_a_path: bool) -> Result<(), DefinitionError> {
    let Some(stated) = keywords.get(ACCESS_KEYWORD) else { return Ok(()) };
    let known = stated.as_str().filter(|word| ACCESS_VALUES.contains(word));
    if known.is_some() && on_a_path {
        return Ok(());
    }
    let at = at.to_owned();
    if known.is_some() {
        return Err(DefinitionError::AccessWithoutPath(at));
    }
    let near = stated.as_str().and_then(|word| nearest_word(word, ACCESS_VALUES));
    let suggestion = near.map(|near| format!(": did you mean `{near}`?")).unwrap_or_default();
    let stated = stated.as_str().map_or_else(|| stated.to_string(), str::to_owned);
    let stated = shorten(&stated, MAX_QUOTED_CHARS).escape_debug().to_string();
    Err(DefinitionError::Access { at, stated, suggestion })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(schema: &Value) -> Option<String> {
        check(schema).err().map(|error| error.to_string())
    }

    #[test]
    fn path_outside_the_checked_positions_is_refused() {
        let path = || json!({"type": "string", "format": "path"});
        let object = |name: &str| json!({"type": "object", "properties": {name: path()}});
        let cases = [
            ("", path()),
            ("/properties/a/properties/b", json!({"properties": {"a": object("b")}})),
            ("/properties/a/properties/enum", json!({"properties": {"a": object("enum")}})),
            ("/properties/a/anyOf/1", json!({"properties": {"a": {"anyOf": [{"type": "null"}, path()]}}})),
            ("/properties/a/oneOf/0", json!({"properties": {"a": {"oneOf": [path()]}}})),
            ("/allOf/0/properties/b", json!({"allOf": [object("b")]})),
            ("/then/properties/b", json!({"then": object("b")})),
            ("/$defs/p", json!({"properties": {"a": {"$ref": "#/$defs/p"}}, "$defs": {"p": path()}})),
            ("/definitions/p", json!({"definitions": {"p": path()}})),
            ("/x-ours/p", json!({"x-ours": {"p": path()}})),
            ("/additionalProperties", json!({"additionalProperties": path()})),
            (
                "/properties/a/additionalProperties",
                json!({"properties": {"a": {"additionalProperties": path()}}}),
            ),
            ("/patternProperties/^f", json!({"patternProperties": {"^f": path()}})),
            ("/propertyNames", json!({"propertyNames": path()})),
            ("/properties/a/prefixItems/0", json!({"properties": {"a": {"prefixItems": [path()]}}})),
            ("/properties/a/items/0", json!({"properties": {"a": {"items": [path()]}}})),
            ("/properties/a/items/items", json!({"properties": {"a": {"items": {"items": path()}}}})),
            ("/properties/a/items/properties/b", json!({"properties": {"a": {"items": object("b")}}})),
        ];
        for (at, schema) in cases {
            let expect = format!(
                "`format: path` at `{at}` is not covered by the path rules: declare each path as an argument of its own, \
                 or as the `items` of an array argument"
            );
            assert_eq!(refused(&schema), Some(expect), "{schema}");
        }
    }

    #[test]
    fn data_in_a_schema_declares_no_path() {
        let data = json!({"format": "path"});
        for schema in [
            json!({"properties": {"a": {"default": data, "const": data, "enum": [data], "examples": [data]}}}),
            json!({"properties": {"format": {"type": "string"}, "default": {"type": "string", "format": "path"}}}),
            json!({"properties": {"paths": {"type": "array", "items": {"type": "string", "format": "path"}}}}),
        ] {
            assert_eq!(refused(&schema), None, "{schema}");
        }
    }

    #[test]
    fn reference_that_may_lead_to_a_path_is_refused() {
        let with = |path: bool, reference: Value| {
            let p =
                if path { json!({"type": "string", "format": "path"}) } else { json!({"type": "string"}) };
            refused(
                &json!({"properties": {"p": p, "q": reference}, "$defs": {"tree": {"items": {"$ref": "#/$defs/tree"}}}}),
            )
        };
        for target in ["#", "#/properties/p", "#p", "#/$defs/tree/items", "https://x.invalid/"] {
            for keyword in ["$ref", "$dynamicRef"] {
                let error = with(true, json!({"type": "array", "items": {keyword: target}})).unwrap();
                assert!(
                    error.starts_with(&format!("the reference at `/properties/q/items/{keyword}`")),
                    "{error}"
                );
            }
            assert_eq!(
                with(false, json!({"$ref": target})),
                None,
                "a schema without paths may refer to {target}"
            );
        }
        assert_eq!(with(true, json!({"$ref": "#/$defs/tree"})), None);
    }

    #[test]
    fn path_must_be_a_string_or_an_array_of_strings() {
        let refuses = |a: Value| refused(&json!({"properties": {"a": a}}));
        let path = || json!({"type": "string", "format": "path"});
        for wrong in [
            json!({"format": "path"}),
            json!({"type": "array", "format": "path"}),
            json!({"type": ["string", "object"], "format": "path"}),
            json!({"items": path()}),
            json!({"type": ["array", "string"], "items": path()}),
        ] {
            let error = refuses(wrong.clone()).unwrap_or_else(|| panic!("{wrong} was accepted"));
            assert!(error.starts_with("the path at `/properties/a` must have"), "{error}");
        }
        assert_eq!(refuses(json!({"type": ["array", "null"], "items": path()})), None);
        let items = refuses(json!({"type": "array", "items": {"format": "path"}})).unwrap();
        assert!(items.starts_with("the path at `/properties/a/items`"), "{items}");
    }

    #[test]
    fn unknown_access_is_refused() {
        let refuses = |access: Value| {
            refused(
                &json!({"properties": {"a": {"type": "string", "format": "path", "x-sinew-access": access}}}),
            )
        };
        assert_eq!(refuses(json!("read")), None);
        let misspelt = "`x-sinew-access` at `/properties/a` is `wirte`; it takes read, write or remove: did you mean `write`?";
        assert_eq!(refuses(json!("wirte")).as_deref(), Some(misspelt));
        for wrong in
            [json!("Read"), json!("execute"), json!(null), json!(["read"]), json!("r".repeat(1 << 20))]
        {
            let error = refuses(wrong.clone()).unwrap_or_else(|| panic!("{wrong} was accepted"));
            assert!(error.contains("it takes read, write or remove") && error.len() < 512, "{error}");
        }
        let list = json!({"properties": {"a": {"type": "array", "x-sinew-access": "write",
            "items": {"type": "string", "format": "path"}}}});
        assert!(refused(&list).unwrap().starts_with("`x-sinew-access` at `/properties/a` has no effect"));
    }
}
