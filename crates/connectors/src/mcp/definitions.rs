//! What a server says its tools are. It is pinned: a tool that is described in other words, takes other arguments or
//! promises something else than what was accepted is not called. None of these words reaches a caller unless the
//! manifest leaves them out and a human has accepted them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::canonical;

use crate::error::McpError;

/// More tools than this nobody has looked at.
const MOST_TOOLS: usize = 1_000;
/// What a definition may have: more is no description of a tool.
const LARGEST: usize = 256 * 1024;
/// What is pinned of a definition: everything a caller or a client could act on.
const PARTS: [&str; 5] = ["title", "description", "inputSchema", "outputSchema", "annotations"];

/// The tools of a server, by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Definitions(BTreeMap<String, Value>);

impl Definitions {
    /// Adds a page of a list.
    pub(crate) fn add(&mut self, page: Value) -> Result<(), McpError> {
        let garbled = |why: &str| McpError::Garbled(why.to_owned());
        let Value::Array(tools) = page else { return Err(garbled("its list of tools is no list")) };
        for mut tool in tools {
            let Some(Value::String(name)) = tool.get_mut("name").map(Value::take) else {
                return Err(garbled("a tool without a name"));
            };
            let part = |part: &str| Some((part.to_owned(), tool.get_mut(part)?.take()));
            let parts: Map<String, Value> = PARTS.into_iter().filter_map(part).collect();
            let parts = Value::Object(parts);
            if canonical::bytes(&parts).len() > LARGEST || self.0.len() >= MOST_TOOLS {
                return Err(garbled("more tools, or longer words about one, than anybody reads"));
            }
            if self.0.insert(name, parts).is_some() {
                return Err(garbled("two tools of one name"));
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

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        canonical::bytes(&serde_json::to_value(self).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_caller_could_act_on_is_kept_and_two_of_a_name_are_none() {
        let mut found = Definitions::default();
        let tool = |name: &str| json!({"name": name, "description": "d", "inputSchema": {}, "icons": [], "_meta": {}});
        found.add(json!([tool("a"), tool("b")])).unwrap();
        assert_eq!(found.get("a"), Some(&json!({"description": "d", "inputSchema": {}})));
        assert_eq!(Definitions::from_bytes(&found.to_bytes()), Some(found.clone()));
        for bad in [
            json!({}),
            json!([{"title": "x"}]),
            json!([tool("a")]),
            json!([{"name": "l", "title": "x".repeat(LARGEST)}]),
        ] {
            assert!(found.add(bad).is_err());
        }
    }
}
