//! Where a schema may speak of paths: in an argument, or in the items of an array argument. The path rules look
//! nowhere else, so a path declared anywhere else would be under no rule, and such a schema is refused.

use serde_json::{Map, Value};

use crate::{DefinitionError, LONGEST_WORD, nearest, shorten};

/// The keyword that states what a tool does with a path.
pub(crate) const ACCESS: &str = "x-sinew-access";
const ACCESSES: [&str; 3] = ["read", "write", "remove"];

/// Whether a schema declares its value a path.
pub(crate) fn is_path(schema: &Value) -> bool {
    schema["format"] == "path"
}

/// Refuses a schema that declares a path where no rule would see it, or says of one what nobody understands.
pub(crate) fn check(schema: &Value) -> Result<(), DefinitionError> {
    let mut inspection = Inspection::default();
    inspection.schema(schema, "", Place::Root)?;
    match inspection.reference {
        Some(at) if inspection.finds_paths => Err(DefinitionError::PathReference(at)),
        _ => Ok(()),
    }
}

/// Where in the whole a schema stands.
#[derive(Clone, Copy)]
enum Place {
    Root,
    Argument,
    Items,
    Elsewhere,
}

impl Place {
    /// Where the schema under this keyword stands.
    fn under(self, keyword: &str) -> Place {
        match (self, keyword) {
            (Place::Root, "properties") => Place::Argument,
            (Place::Argument, "items") => Place::Items,
            _ => Place::Elsewhere,
        }
    }
}

#[derive(Default)]
struct Inspection {
    finds_paths: bool,
    /// The first reference that may lead back to an argument.
    reference: Option<String>,
}

impl Inspection {
    fn schema(&mut self, schema: &Value, at: &str, place: Place) -> Result<(), DefinitionError> {
        match schema {
            Value::Object(words) => {
                self.words(words, at, place)?;
                words.iter().try_for_each(|(keyword, value)| self.keyword(keyword, value, at, place))
            }
            Value::Array(schemas) => schemas.iter().enumerate().try_for_each(|(index, schema)| {
                self.schema(schema, &format!("{at}/{index}"), Place::Elsewhere)
            }),
            _ => Ok(()),
        }
    }

    /// Keywords that are not known are taken for schemas: what is not understood must not hide a path.
    fn keyword(
        &mut self,
        keyword: &str,
        value: &Value,
        at: &str,
        place: Place,
    ) -> Result<(), DefinitionError> {
        let (at, place) = (format!("{at}/{}", shorten(keyword, LONGEST_WORD)), place.under(keyword));
        match (keyword, value) {
            ("const" | "default" | "enum" | "examples", _) => Ok(()),
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                | "dependencies",
                Value::Object(schemas),
            ) => schemas.iter().try_for_each(|(name, schema)| {
                self.schema(schema, &format!("{at}/{}", shorten(name, LONGEST_WORD)), place)
            }),
            ("$ref" | "$dynamicRef" | "$recursiveRef", target) => {
                if !target.as_str().is_some_and(leads_to_a_definition) {
                    self.reference.get_or_insert(at);
                }
                Ok(())
            }
            _ => self.schema(value, &at, place),
        }
    }

    fn words(&mut self, words: &Map<String, Value>, at: &str, place: Place) -> Result<(), DefinitionError> {
        let itself = words.get("format").is_some_and(|format| format == "path");
        check_access(words, at, itself)?;
        let items = match place {
            Place::Root | Place::Elsewhere if itself => {
                return Err(DefinitionError::PathPlace(at.to_owned()));
            }
            Place::Argument => words.get("items").is_some_and(is_path),
            Place::Root | Place::Items | Place::Elsewhere => false,
        };
        if (itself || items) && !holds_paths_only(words, itself, items) {
            return Err(DefinitionError::PathType(at.to_owned()));
        }
        self.finds_paths |= itself;
        Ok(())
    }
}

/// The definitions of a schema hold no path themselves, so a reference to one leads to none.
fn leads_to_a_definition(target: &str) -> bool {
    let name = target.strip_prefix("#/$defs/").or_else(|| target.strip_prefix("#/definitions/"));
    name.is_some_and(|name| !name.contains('/'))
}

/// Texts, and arrays of texts, are put under the path rules; a value of any other shape would slip through.
fn holds_paths_only(words: &Map<String, Value>, itself: bool, items: bool) -> bool {
    let kinds = match words.get("type") {
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

fn check_access(words: &Map<String, Value>, at: &str, on_a_path: bool) -> Result<(), DefinitionError> {
    let Some(stated) = words.get(ACCESS) else { return Ok(()) };
    let known = stated.as_str().filter(|word| ACCESSES.contains(word));
    if known.is_some() && on_a_path {
        return Ok(());
    }
    let at = at.to_owned();
    if known.is_some() {
        return Err(DefinitionError::AccessWithoutPath(at));
    }
    let near = stated.as_str().and_then(|word| nearest(word, ACCESSES));
    let suggestion = near.map(|near| format!(": did you mean `{near}`?")).unwrap_or_default();
    let stated = stated.as_str().map_or_else(|| stated.to_string(), str::to_owned);
    let stated = shorten(&stated, LONGEST_WORD).escape_debug().to_string();
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
    fn a_path_that_no_rule_would_see_is_refused() {
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
                "`format: path` at `{at}` would be under no path rule: declare each path as an argument of its own, \
                 or as the `items` of an array argument"
            );
            assert_eq!(refused(&schema), Some(expect), "{schema}");
        }
    }

    #[test]
    fn what_is_no_schema_declares_nothing() {
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
    fn a_reference_does_not_carry_a_path_elsewhere() {
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
            assert_eq!(with(false, json!({"$ref": target})), None, "no path, no danger: {target}");
        }
        assert_eq!(with(true, json!({"$ref": "#/$defs/tree"})), None);
    }

    #[test]
    fn a_path_is_a_text_or_an_array_of_texts() {
        let refuses = |a: Value| refused(&json!({"properties": {"a": a}}));
        let path = || json!({"type": "string", "format": "path"});
        for wrong in [
            json!({"format": "path"}),
            json!({"type": "array", "format": "path"}),
            json!({"type": ["string", "object"], "format": "path"}),
            json!({"items": path()}),
            json!({"type": ["array", "string"], "items": path()}),
        ] {
            let error = refuses(wrong.clone()).unwrap_or_else(|| panic!("{wrong} was taken"));
            assert!(error.starts_with("the path at `/properties/a` must have"), "{error}");
        }
        assert_eq!(refuses(json!({"type": ["array", "null"], "items": path()})), None);
        let items = refuses(json!({"type": "array", "items": {"format": "path"}})).unwrap();
        assert!(items.starts_with("the path at `/properties/a/items`"), "{items}");
    }

    #[test]
    fn an_access_nobody_understands_is_refused() {
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
            let error = refuses(wrong.clone()).unwrap_or_else(|| panic!("{wrong} was taken"));
            assert!(error.contains("it takes read, write or remove") && error.len() < 512, "{error}");
        }
        let list = json!({"properties": {"a": {"type": "array", "x-sinew-access": "write",
            "items": {"type": "string", "format": "path"}}}});
        assert!(refused(&list).unwrap().starts_with("`x-sinew-access` at `/properties/a` says nothing"));
    }
}
