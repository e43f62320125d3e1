//! Rendered lists of tools. Rendering takes milliseconds, and the list changes only with the configuration.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tool::ToolDefinition;
use tool::definition::ToolFormat;

use crate::rpc::{self, EncodedJson, RpcReply};

/// Lists that are kept: one for each format, and some for sessions and filters.
const MAX_LISTS: usize = 8;

/// Replies of `sinew/tools` that were rendered before. A list is found by the definitions that it shows, so it can
/// neither be stale nor be shown to a caller that may not see all of them.
#[derive(Default)]
pub(crate) struct RenderedToolLists(Mutex<VecDeque<RenderedToolList>>);

struct RenderedToolList {
    format: ToolFormat,
    tools: Vec<Arc<ToolDefinition>>,
    reply: EncodedJson,
}

impl RenderedToolList {
    fn shows(&self, format: ToolFormat, tools: &[Arc<ToolDefinition>]) -> bool {
        let same = |(one, other): (&Arc<ToolDefinition>, &Arc<ToolDefinition>)| Arc::ptr_eq(one, other);
        self.format == format && self.tools.len() == tools.len() && self.tools.iter().zip(tools).all(same)
    }
}

impl RenderedToolLists {
    /// Returns the reply that shows these tools.
    pub(crate) fn reply(&self, format: ToolFormat, tools: Vec<Arc<ToolDefinition>>) -> RpcReply {
        // Every statement leaves the list consistent, so a panic elsewhere cannot have broken it.
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lists.iter().find(|known| known.shows(format, &tools)) {
            return Ok(known.reply.clone());
        }
        let exported: Vec<Value> = tools.iter().map(|definition| format.export(definition)).collect();
        let reply = rpc::encode_result(&json!({"format": format, "tools": exported}))?;
        lists.truncate(MAX_LISTS - 1);
        lists.push_front(RenderedToolList { format, tools, reply: reply.clone() });
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use tool::{Category, RiskLevel, ToolSpec};

    use super::*;

    fn tool(name: &str) -> Arc<ToolDefinition> {
        Arc::new(ToolSpec::new(name, "d", Category::READ_ONLY, RiskLevel::Low).check().unwrap())
    }

    fn names(lists: &RenderedToolLists, format: ToolFormat, tools: &[&Arc<ToolDefinition>]) -> Vec<Value> {
        let reply = lists.reply(format, tools.iter().map(|tool| Arc::clone(tool)).collect()).unwrap();
        let reply: Value = serde_json::from_slice(reply.bytes()).unwrap();
        reply["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect()
    }

    #[test]
    fn list_shows_exactly_the_tools_of_its_caller() {
        let (lists, one, two) = (RenderedToolLists::default(), tool("one"), tool("two"));
        let (other, format) = (tool("one"), ToolFormat::Native);
        for _ in 0..2 {
            assert_eq!(names(&lists, format, &[&one, &two]), ["one", "two"]);
            assert_eq!(names(&lists, format, &[&one]), ["one"], "a session that may not see the other");
            assert_eq!(names(&lists, ToolFormat::Mcp, &[&one]), ["one"]);
            assert_eq!(names(&lists, format, &[&other]), ["one"], "the same name after a reload");
        }
        assert_eq!(lists.0.lock().unwrap().len(), 4, "each was rendered once");
        for number in 0..20 {
            names(&lists, format, &[&tool(&format!("t{number}"))]);
        }
        assert_eq!(lists.0.lock().unwrap().len(), MAX_LISTS);
    }
}
