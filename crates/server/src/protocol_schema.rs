//! JSON Schema of the protocol: parameters and result of every method of both sockets. It is assembled from
//! `protocol.json`, which the tests compare with the method tables and with replies of a daemon, and from the
//! Rust types of results. Client libraries are generated from it.

use execution::Explanation;
use schemars::{Schema, generate::SchemaSettings};
use serde_json::{Map, Value, json};
use tool::{Refusal, ToolResult};

const DESCRIPTIONS: &str = include_str!("../protocol.json");

/// Returns the schema: an object with one property per method, each with `params` and `result`.
pub fn protocol_schema() -> Schema {
    // The descriptions are part of the program and parsed by every test run, so they always parse.
    let descriptions: &Value = &serde_json::from_str(DESCRIPTIONS).unwrap_or_default();
    let sockets = items(&descriptions["sockets"]);
    let methods: Map<String, Value> = sockets
        .flat_map(|socket| {
            items(&socket["methods"]).map(|method| (text(&method["name"]), method_schema(socket, method)))
        })
        .collect();
    let mut schema = Schema::default();
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!("SinewProtocol"));
    schema.insert(
        "description".to_owned(),
        json!("Methods of both sockets, each with its parameters and its result."),
    );
    schema.insert("type".to_owned(), json!("object"));
    schema.insert("properties".to_owned(), methods.into());
    schema.insert("$defs".to_owned(), definitions(&descriptions["definitions"]).into());
    schema
}

/// Definitions of the Rust types, and those that only the descriptions have.
fn definitions(described: &Value) -> Map<String, Value> {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    generator.subschema_for::<ToolResult>();
    generator.subschema_for::<Refusal>();
    generator.subschema_for::<Explanation>();
    let mut definitions = generator.take_definitions(true);
    definitions.extend(described.as_object().cloned().unwrap_or_default());
    definitions
}

fn method_schema(socket: &Value, method: &Value) -> Value {
    json!({
        "type": "object",
        "description": method["summary"],
        "x-sinew-socket": socket["socket"],
        "properties": {
            "params": fields_schema(&method["params"], Side::Params),
            "result": fields_schema(&method["result"], Side::Result),
        },
    })
}

/// Direction of an object. Only a caller's object is closed: a client ignores fields that it does not know.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Params,
    Result,
}

fn fields_schema(fields: &Value, side: Side) -> Value {
    let properties: Map<String, Value> =
        items(fields).map(|field| (text(&field["name"]), field_schema(field, side))).collect();
    let required: Vec<&Value> =
        items(fields).filter(|field| field["optional"] != true).map(|field| &field["name"]).collect();
    let mut object = json!({"type": "object", "properties": properties, "required": required});
    if let (Side::Params, Some(object)) = (side, object.as_object_mut()) {
        object.insert("additionalProperties".to_owned(), json!(false));
    }
    object
}

fn field_schema(field: &Value, side: Side) -> Value {
    let of_type = |word: &str| if word == "any" { json!({}) } else { json!({"type": word}) };
    let mut schema = match field.get("schema") {
        Some(schema) => schema.clone(),
        None => of_type(field["type"].as_str().unwrap_or("any")),
    };
    let may_be_null = field["nullable"] == true || (side == Side::Result && field["optional"] == true);
    if may_be_null && schema != json!({}) {
        schema = json!({"anyOf": [schema, {"type": "null"}]});
    }
    if let Some(object) = schema.as_object_mut() {
        object.insert("description".to_owned(), field["text"].clone());
    }
    schema
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_of_the_schema_has_a_definition() {
        let schema = protocol_schema().to_value();
        let text = schema.to_string();
        let names: Vec<&str> =
            text.split("\"#/$defs/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(names.contains(&"Refusal") && names.contains(&"ApprovalSummary"), "{names:?}");
        for name in names {
            assert!(schema["$defs"][name].is_object(), "{name} is not defined");
        }
    }

    #[test]
    fn fields_become_properties_with_their_types() {
        let fields = json!([
            {"name": "id", "type": "string", "text": "an id"},
            {"name": "note", "type": "string", "text": "a note", "optional": true},
            {"name": "any", "type": "any", "text": "a value", "optional": true}
        ]);
        let result = fields_schema(&fields, Side::Result);
        assert_eq!(result["required"], json!(["id"]));
        assert_eq!(result["properties"]["note"]["anyOf"][1], json!({"type": "null"}));
        assert_eq!(result["properties"]["any"], json!({"description": "a value"}));
        let params = fields_schema(&fields, Side::Params);
        assert_eq!(params["properties"]["note"], json!({"type": "string", "description": "a note"}));
        assert_eq!(params["additionalProperties"], false);
    }
}
