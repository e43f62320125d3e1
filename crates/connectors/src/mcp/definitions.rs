//! Tool definitions of a server. They are pinned: a tool whose description, arguments or annotations differ
//! from the accepted ones is not called. A caller receives this text only if the manifest has no own text and the
//! operator has accepted it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::canonical;

use crate::bounded_json;
use crate::error::McpError;

/// Limit of tools per server, so that an operator can review them.
const MAX_TOOLS: usize = 1_000;
/// Size limit of all definitions together.
const MAX_DEFINITIONS_BYTES: usize = 1 << 20;
/// Length limit of a tool name.
const MAX_NAME_BYTES: usize = 128;
/// Pinned members of a definition: everything that can influence a caller or client.
const PINNED_MEMBERS: [&str; 5] = ["title", "description", "inputSchema", "outputSchema", "annotations"];

/// Tool definitions by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ServerToolDefinitions(BTreeMap<String, Value>);

impl ServerToolDefinitions {
    /// Adds a page of `tools/list`.
    pub(crate) fn add_page(&mut self, page: Value) -> Result<(), McpError> {
        let garbled = |reason: &str| McpError::ProtocolViolation(reason.to_owned());
        let Value::Array(tools) = page else { return Err(garbled("its list of tools is not an array")) };
        let (mut bytes, mut values) = (0, 0);
        let mut has_space = |parts: &Value| {
            let text = canonical::bytes(parts);
            bytes += text.len();
            values += tool::strict_json::count_values(&text);
            bytes <= MAX_DEFINITIONS_BYTES && values <= bounded_json::MAX_JSON_VALUES
        };
        let mut fits = self.0.values().all(&mut has_space);
        for mut tool in tools {
            let Some(Value::String(name)) = tool.get_mut("name").map(Value::take) else {
                return Err(garbled("a tool without a name"));
            };
            // A manifest cannot contain such a name, so the tool cannot be called.
            if !is_tool_name(&name) {
                continue;
            }
            let part = |part: &str| Some((part.to_owned(), tool.get_mut(part)?.take()));
            let parts: Map<String, Value> = PINNED_MEMBERS.into_iter().filter_map(part).collect();
            let parts = Value::Object(parts);
            fits &= has_space(&parts) && self.0.len() < MAX_TOOLS;
            if !fits {
                return Err(garbled("its tool definitions exceed the size limit"));
            }
            if self.0.insert(name, parts).is_some() {
                return Err(garbled("two tools have the same name"));
            }
        }
        Ok(())
    }

    pub(crate) fn get(&self, tool: &str) -> Option<&Value> {
        self.0.get(tool)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        canonical::bytes(&serde_json::to_value(self).unwrap_or_default())
    }
}

/// Returns true for a valid MCP tool name.
fn is_tool_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=MAX_NAME_BYTES).contains(&text.len()) && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pinned_members_are_kept_and_duplicates_refused() {
        let mut found = ServerToolDefinitions::default();
        let tool = |name: &str| json!({"name": name, "description": "d", "inputSchema": {}, "icons": [], "_meta": {}});
        found.add_page(json!([tool("a"), tool("b")])).unwrap();
        assert_eq!(found.get("a"), Some(&json!({"description": "d", "inputSchema": {}})));
        assert_eq!(ServerToolDefinitions::from_bytes(&found.to_bytes()).unwrap(), found);
        for bad in [
            json!({}),
            json!([{"title": "x"}]),
            json!([tool("a")]),
            json!([{"name": "l", "title": "x".repeat(MAX_DEFINITIONS_BYTES)}]),
        ] {
            assert!(found.add_page(bad).is_err());
        }
    }

    #[test]
    fn definitions_are_bounded_over_all_pages() {
        let page = |from: usize, count: usize, schema: Value| {
            Value::Array(
                (from..from + count)
                    .map(|n| json!({"name": format!("t{n}"), "inputSchema": schema}))
                    .collect(),
            )
        };
        let mut half = ServerToolDefinitions::default();
        half.add_page(page(0, 1, json!("x".repeat(MAX_DEFINITIONS_BYTES / 2)))).unwrap();
        assert!(half.clone().add_page(page(1, 1, json!("x"))).is_ok());
        assert!(half.add_page(page(1, 1, json!("x".repeat(MAX_DEFINITIONS_BYTES / 2)))).is_err());
        let zeros = vec![0; bounded_json::MAX_JSON_VALUES / 2];
        let mut small = ServerToolDefinitions::default();
        small.add_page(page(0, 1, json!(zeros))).unwrap();
        assert!(small.add_page(page(1, 1, json!(zeros))).is_err());
        let mut many = ServerToolDefinitions::default();
        many.add_page(page(0, MAX_TOOLS, json!({}))).unwrap();
        assert!(many.add_page(page(MAX_TOOLS, 1, json!({}))).is_err());
    }

    #[test]
    fn a_tool_with_an_invalid_name_is_skipped() {
        let mut found = ServerToolDefinitions::default();
        let names = [
            "get.a_B-1".to_owned(),
            "x".repeat(128),
            "x".repeat(129),
            String::new(),
            "a b".to_owned(),
            "\u{1b}".to_owned(),
        ];
        found.add_page(Value::Array(names.iter().map(|name| json!({"name": name})).collect())).unwrap();
        assert_eq!(found.names().collect::<Vec<_>>(), ["get.a_B-1", "x".repeat(128).as_str()]);
    }
}
