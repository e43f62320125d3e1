//! Types of the client libraries, from the schema of the protocol and the definitions of the built-in tools:
//! `clients/python/src/sinew_client/_types.py` and `_calls.py`, and `clients/typescript/src/types.ts`.

mod python;
mod schema_model;
mod typescript;

use anyhow::{Context, Result};
use serde_json::Value;

use self::schema_model::{Method, Reader, Tool, camel};
use super::Pages;

const PYTHON_TYPES: &str = "clients/python/src/sinew_client/_types.py";
const PYTHON_CALLS: &str = "clients/python/src/sinew_client/_calls.py";
const TYPESCRIPT_TYPES: &str = "clients/typescript/src/types.ts";

/// Generates the files of both libraries.
pub(super) fn pages(protocol: &Value, tools: &[Value]) -> Result<Pages> {
    let mut reader = Reader::default();
    for (name, schema) in entries(&protocol["$defs"]) {
        reader.define(name, schema);
    }
    let methods = protocol.get("properties").context("the schema of the protocol has no methods")?;
    let methods: Vec<Method> =
        entries(methods).map(|(name, schema)| method_types(&mut reader, name, schema)).collect();
    let listed = tools.iter().map(|tool| tool_types(&mut reader, tool)).collect::<Result<Vec<Tool>>>()?;
    let model = reader.finish();
    Ok([
        (PYTHON_TYPES, python::types(&model)),
        (PYTHON_CALLS, python::calls(&model, &listed)),
        (TYPESCRIPT_TYPES, typescript::types(&model, &methods, &listed)),
    ]
    .map(|(path, text)| (path.to_owned(), text))
    .into())
}

fn method_types(reader: &mut Reader, method: &str, schema: &Value) -> Method {
    let name = method_type(method);
    let (params, result) = (format!("{name}Params"), format!("{name}Result"));
    let parts = &schema["properties"];
    reader.define(&params, &parts["params"]);
    reader.define(&result, &parts["result"]);
    let summary = schema["description"].as_str().unwrap_or_default().to_owned();
    Method { name: method.to_owned(), summary, params, result }
}

fn tool_types(reader: &mut Reader, tool: &Value) -> Result<Tool> {
    let name = tool["name"].as_str().context("a tool without a name")?;
    let (arguments, output) = (format!("{}Arguments", camel(name)), format!("{}Output", camel(name)));
    reader.define(&arguments, &tool["input_schema"]);
    reader.define(&output, &tool["output_schema"]);
    let summary = tool["description"].as_str().unwrap_or_default().to_owned();
    Ok(Tool { name: name.to_owned(), summary, arguments, output })
}

/// Prefix of the type names of a method: `sinew/session.open` is `SessionOpen`, MCP's `tools/call` is
/// `McpToolsCall`.
fn method_type(method: &str) -> String {
    match method.split_once('/') {
        Some(("sinew", rest)) => camel(rest),
        Some(("control", rest)) => format!("Control{}", camel(rest)),
        _ => format!("Mcp{}", camel(method)),
    }
}

fn entries(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_schema_gives_the_types_of_both_libraries() {
        let protocol = json!({
            "$defs": {"Mode": {"enum": ["NORMAL", "ALERT"]}},
            "properties": {"sinew/session.open": {"properties": {
                "params": {"type": "object", "properties": {"allowlist": {"type": "array", "items": {"type": "string"}}},
                    "required": ["allowlist"]},
                "result": {"type": "object", "properties": {"from": {"type": "string"},
                    "mode": {"anyOf": [{"$ref": "#/$defs/Mode"}, {"type": "null"}]}}, "required": ["from"]}}}}});
        let tools = [json!({"name": "read_file", "description": "Read a file.",
            "input_schema": {"type": "object", "properties": {"path": {"type": "string"}, "from": {"type": "integer"}},
                "required": ["path"]},
            "output_schema": {"type": "object", "properties": {"lines": {"type": "array", "items": {
                "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}}}})];
        let pages = pages(&protocol, &tools).unwrap();
        let check = |path: &str, parts: &[&str]| {
            for part in parts {
                assert!(pages[path].contains(part), "{part}\n{}", pages[path]);
            }
        };
        check(
            PYTHON_TYPES,
            &[
                "Mode = Literal[\"NORMAL\", \"ALERT\"]",
                "class SessionOpenParams(TypedDict):\n    allowlist: list[str]",
                // `from` is a keyword, so it cannot be an attribute of a class.
                "\"from\": \"str\"",
                "lines: list[ReadFileOutputLinesItem]",
            ],
        );
        check(PYTHON_CALLS, &["tool: Literal[\"read_file\"], /, *, path: str) -> _types.ReadFileOutput"]);
        check(
            TYPESCRIPT_TYPES,
            &[
                "export type Mode = \"NORMAL\" | \"ALERT\";",
                "  mode?: Mode | null;",
                "  \"sinew/session.open\": { params: SessionOpenParams; result: SessionOpenResult };",
                "  read_file: { arguments: ReadFileArguments; output: ReadFileOutput };",
            ],
        );
    }
}
