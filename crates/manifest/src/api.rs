//! Responses of the API behind a tool: the rules that detect the form of a response, and the fields that have
//! their own structure.

use serde_json::Value;

use crate::knowledge_file::ApiComplexity;

/// Rule that detects the form of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PayloadDetection {
    /// The field is present.
    Exists(String),
    /// The field has this value.
    Equals(String, String),
}

impl PayloadDetection {
    /// Parses `NAME field exists`, `NAME field`, `NAME exists`, `NAME` or `NAME == VALUE`. Other text is
    /// prose.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_path = |path: &str| {
            let part = |part: &str| {
                !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
            };
            path.split('.').all(part)
        };
        if let Some((path, value)) = text.split_once("==") {
            let (path, value) = (path.trim(), value.trim().trim_matches(['"', '\'']));
            return is_path(path).then(|| PayloadDetection::Equals(path.to_owned(), value.to_owned()));
        }
        match text.split_whitespace().collect::<Vec<_>>().as_slice() {
            [path] | [path, "field" | "exists"] | [path, "field", "exists"] if is_path(path) => {
                Some(PayloadDetection::Exists((*path).to_owned()))
            }
            _ => None,
        }
    }

    fn matches(&self, response: &Value) -> bool {
        match self {
            PayloadDetection::Exists(path) => value_at_path(response, path).is_some(),
            PayloadDetection::Equals(path, text) => match value_at_path(response, path) {
                Some(Value::String(found)) => found == text,
                Some(found) => serde_json::from_str(text).is_ok_and(|stated: Value| stated == *found),
                None => false,
            },
        }
    }
}

impl ApiComplexity {
    /// Returns the form and payload of a response: the first form that matches and whose payload is present.
    pub fn payload_of<'a>(&self, response: &'a Value) -> Option<(&str, &'a Value)> {
        self.payload_schemas.iter().find_map(|schema| {
            let detection = PayloadDetection::parse(&schema.detection)?;
            let payload =
                detection.matches(response).then(|| value_at_path(response, &schema.payload_path))??;
            Some((schema.kind.as_str(), payload))
        })
    }

    /// Returns all field mappings, inside and outside groups.
    pub fn mappings(&self) -> Vec<FieldMapping> {
        let own = |value: &Value| ["structure", "extraction"].iter().any(|key| value.get(key).is_some());
        let one = |group: Option<&String>, name: &str, value: &Value| FieldMapping {
            group: group.cloned(),
            name: name.to_owned(),
            structure: value.get("structure").cloned(),
            extraction: extraction_helper(value),
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

/// Returns the value at a dotted path. A number is an index into a list.
fn value_at_path<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, part| match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        other => other.get(part),
    })
}

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

fn extraction_helper(mapping: &Value) -> Option<String> {
    mapping.get("extraction")?.as_str()?.strip_prefix("helpers.").map(str::to_owned)
}

impl FieldMapping {
    /// Returns the first deviation from the structure. A word that is not a type, such as `user_id`, matches
    /// anything.
    pub fn structure_mismatch(&self, value: &Value) -> Option<String> {
        mismatch(&self.name, self.structure.as_ref()?, value)
    }
}

fn mismatch(at: &str, structure: &Value, value: &Value) -> Option<String> {
    let wrong = |wanted: &str| Some(format!("`{at}` is {}, not {wanted}", tool::text::json_kind(value)));
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

    #[test]
    fn first_matching_form_gives_the_payload() {
        let api: ApiComplexity = serde_json::from_value(json!({"payload_schemas": [
            {"type": "standard", "detection": "event field exists", "payload_path": "body.payload"},
            {"type": "webhook", "detection": "webhook_id field", "payload_path": "data.list.1"},
            {"type": "said", "detection": "meta.kind == 'said'", "payload_path": "x"},
            {"type": "prose", "detection": "it depends", "payload_path": "x"},
        ]}))
        .unwrap();
        let check = |answer: Value, expect: Option<(&str, Value)>| {
            let found = api.payload_of(&answer).map(|(kind, payload)| (kind, payload.clone()));
            assert_eq!(found, expect, "{answer}");
        };
        check(json!({"event": 1, "body": {"payload": {"a": 1}}}), Some(("standard", json!({"a": 1}))));
        check(json!({"webhook_id": 7, "data": {"list": [1, 2]}}), Some(("webhook", json!(2))));
        check(json!({"meta": {"kind": "said"}, "x": 0}), Some(("said", json!(0))));
        check(json!({"event": 1}), None);
        check(json!({"x": 1}), None);
        check(json!([1]), None);
    }

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
            assert_eq!(found[0].structure_mismatch(&value).as_deref(), expect, "{value}");
        };
        check(json!({"at": {"lat": 1.5}, "tags": ["a"], "by": 7}), None);
        check(json!({}), None);
        check(json!({"at": {"lat": "1"}}), Some("`location.at.lat` is string, not number"));
        check(json!({"tags": ["a", 1]}), Some("`location.tags.1` is number, not string"));
        check(json!({"tags": "a"}), Some("`location.tags` is string, not array"));
        check(json!([]), Some("`location` is array, not object"));
        assert_eq!(found[1].structure_mismatch(&json!("x")), None);
    }
}
