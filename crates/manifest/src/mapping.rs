//! Fields of an API with their own structure: how each is extracted from a response, and the form it must
//! have.

use serde_json::Value;

use crate::knowledge_file::ApiComplexity;

/// Field with its own structure.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldMapping {
    /// Name of the group that contains it, if any.
    pub group: Option<String>,
    /// Name of the field.
    pub name: String,
    /// Structure of the value: type words, nested in objects and lists.
    pub structure: Option<Value>,
    /// Id of the helper that extracts it.
    pub extraction: Option<String>,
}

impl ApiComplexity {
    /// Returns all field mappings, inside and outside groups.
    pub fn mappings(&self) -> Vec<FieldMapping> {
        let own = |value: &Value| ["structure", "extraction"].iter().any(|key| value.get(key).is_some());
        let one = |group: Option<&String>, name: &str, value: &Value| FieldMapping {
            group: group.cloned(),
            name: name.to_owned(),
            structure: value.get("structure").cloned(),
            extraction: helper(value),
        };
        let mut found = Vec::new();
        for (name, value) in &self.field_mappings {
            match value {
                value if own(value) => found.push(one(None, name, value)),
                Value::Object(group) => {
                    found.extend(group.iter().map(|(inner, value)| one(Some(name), inner, value)));
                }
                _ => {}
            }
        }
        found
    }
}

fn helper(mapping: &Value) -> Option<String> {
    mapping.get("extraction")?.as_str()?.strip_prefix("helpers.").map(str::to_owned)
}

impl FieldMapping {
    /// Returns the first deviation from the structure. A word that is not a type, such as `user_id`, matches
    /// anything.
    pub fn problem(&self, value: &Value) -> Option<String> {
        mismatch(&self.name, self.structure.as_ref()?, value)
    }
}

fn mismatch(at: &str, structure: &Value, value: &Value) -> Option<String> {
    let wrong = |wanted: &str| Some(format!("`{at}` is {}, not {wanted}", tool::json_kind(value)));
    match (structure, value) {
        (Value::String(word), value) => {
            let fits = match word.as_str() {
                "string" | "text" => value.is_string(),
                "number" => value.is_number(),
                "integer" => value.is_i64() || value.is_u64(),
                "boolean" => value.is_boolean(),
                "object" => value.is_object(),
                "array" => value.is_array(),
                _ => true,
            };
            if fits { None } else { wrong(word) }
        }
        (Value::Object(fields), Value::Object(found)) => fields.iter().find_map(|(key, structure)| {
            found.get(key).and_then(|value| mismatch(&format!("{at}.{key}"), structure, value))
        }),
        (Value::Array(items), Value::Array(found)) => {
            let structure = items.first()?;
            let numbered = found.iter().enumerate();
            numbered
                .into_iter()
                .find_map(|(index, value)| mismatch(&format!("{at}.{index}"), structure, value))
        }
        (Value::Object(_), _) => wrong("object"),
        (Value::Array(_), _) => wrong("array"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mappings() -> Vec<FieldMapping> {
        let api: ApiComplexity = serde_json::from_value(json!({"field_mappings": {
            "custom_fields": {"location": {"structure": {"at": {"lat": "number"}, "tags": ["string"], "by": "user_id"},
                "extraction": "helpers.extract"}},
            "status": {"structure": "string"}, "odd": 5,
        }}))
        .unwrap();
        api.mappings()
    }

    #[test]
    fn fields_are_found_inside_and_outside_groups() {
        let found = mappings();
        let brief = |one: &FieldMapping| (one.group.clone(), one.name.clone(), one.extraction.clone());
        let expect = [
            (Some("custom_fields".to_owned()), "location".to_owned(), Some("extract".to_owned())),
            (None, "status".to_owned(), None),
        ];
        assert_eq!(found.iter().map(brief).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn value_is_checked_against_its_structure() {
        let found = mappings();
        let check = |value: Value, expect: Option<&str>| {
            assert_eq!(found[0].problem(&value).as_deref(), expect, "{value}");
        };
        check(json!({"at": {"lat": 1.5}, "tags": ["a"], "by": 7}), None);
        check(json!({}), None);
        check(json!({"at": {"lat": "1"}}), Some("`location.at.lat` is string, not number"));
        check(json!({"tags": ["a", 1]}), Some("`location.tags.1` is number, not string"));
        check(json!({"tags": "a"}), Some("`location.tags` is string, not array"));
        check(json!([]), Some("`location` is array, not object"));
        assert_eq!(found[1].problem(&json!("x")), None);
    }
}
