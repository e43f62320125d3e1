//! JSON Schema of a layered file, for editors.

use schemars::Schema;
use serde_json::{Value, json};

/// Changes the schema of a mapping so that it accepts `{add: […]}` and `{remove: […]}` in place of each list,
/// and requires no key: the layer below has it.
pub fn allow_list_changes(schema: &mut Schema) {
    schema.remove("required");
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties {
        let is_list = match property.get("type") {
            Some(Value::String(kind)) => kind == "array",
            Some(Value::Array(kinds)) => kinds.contains(&json!("array")),
            _ => false,
        };
        // Examples are replaced as a whole.
        if is_list && name != "examples" {
            let mut list = property.take();
            let description = list.as_object_mut().and_then(|list| list.remove("description"));
            let change = json!({"type": "object", "minProperties": 1, "additionalProperties": false,
                "properties": {"add": list, "remove": list}});
            *property = json!({"anyOf": [list, change]});
            if let (Some(description), Some(property)) = (description, property.as_object_mut()) {
                property.insert("description".to_owned(), description);
            }
        }
    }
}
