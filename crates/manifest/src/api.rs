//! Parser and evaluation of the rules that detect the form of an API response.

use serde_json::Value;

use crate::knowledge_file::ApiComplexity;

/// Rule that detects the form of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Detection {
    /// The field is present.
    Exists(String),
    /// The field has this value.
    Equals(String, String),
}

impl Detection {
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
            return is_path(path).then(|| Detection::Equals(path.to_owned(), value.to_owned()));
        }
        match text.split_whitespace().collect::<Vec<_>>().as_slice() {
            [path] | [path, "field" | "exists"] | [path, "field", "exists"] if is_path(path) => {
                Some(Detection::Exists((*path).to_owned()))
            }
            _ => None,
        }
    }

    fn holds(&self, answer: &Value) -> bool {
        match self {
            Detection::Exists(path) => at(answer, path).is_some(),
            Detection::Equals(path, text) => match at(answer, path) {
                Some(Value::String(found)) => found == text,
                Some(found) => serde_json::from_str(text).is_ok_and(|stated: Value| stated == *found),
                None => false,
            },
        }
    }
}

impl ApiComplexity {
    /// Returns the form and payload of a response: the first form that matches and whose payload is present.
    pub fn payload_of<'a>(&self, answer: &'a Value) -> Option<(&str, &'a Value)> {
        self.payload_schemas.iter().find_map(|schema| {
            let detection = Detection::parse(&schema.detection)?;
            let payload = detection.holds(answer).then(|| at(answer, &schema.payload_path))??;
            Some((schema.kind.as_str(), payload))
        })
    }
}

/// Returns the value at a dotted path. A number is an index into a list.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, part| match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        other => other.get(part),
    })
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
}
