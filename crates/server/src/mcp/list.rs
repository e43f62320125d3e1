//! `tools/list`: all visible tools, in a fixed order, one page per request.

use std::sync::Arc;

use execution::ToolFilter;
use serde::Serialize;
use serde_json::{Value, json};
use tool::ToolDefinition;
use tool::definition::ToolFormat;

use super::era::{CacheHints, McpEra};
use super::tasks;
use crate::agent::AgentContext;
use crate::connection_state::ConnectionState;
use crate::rpc::RpcError;
use crate::service::{MethodCall, MethodReply, MethodResult};

const PAGE_SIZE: usize = 100;

pub(crate) fn run(agent: &AgentContext, session: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let mut params = call.params;
    let (era, _) = McpEra::from_request(session, &mut params)?;
    let cursor: Option<String> = params.optional("cursor")?;
    let tools = agent.layer.tools_in(session.worker_session.as_deref(), &ToolFilter::default());
    let mut page = page(&tools, cursor.as_deref())?;
    page.keeping = era.cache_hints();
    if super::is_text_only(era.caller(session).client.as_deref()) {
        page.remove_output_schemas();
    }
    if era == McpEra::Handshake && tasks::handshake_has_tasks(session) {
        page.permit_tasks();
    }
    Ok(MethodReply::now(&page))
}

/// One page in MCP's format.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolPage {
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(flatten)]
    keeping: Option<CacheHints>,
}

impl ToolPage {
    /// Removes what promises structured content.
    fn remove_output_schemas(&mut self) {
        for definition in self.tools.iter_mut().filter_map(Value::as_object_mut) {
            definition.remove("outputSchema");
        }
    }

    /// Declares that each tool can be called as a task: any call may have to wait for the operator.
    fn permit_tasks(&mut self) {
        for definition in self.tools.iter_mut().filter_map(Value::as_object_mut) {
            definition.insert("execution".to_owned(), json!({"taskSupport": "optional"}));
        }
    }
}

/// Returns the page that starts after the tool named by the cursor.
fn page(tools: &[Arc<ToolDefinition>], cursor: Option<&str>) -> Result<ToolPage, RpcError> {
    let start = match cursor {
        None => 0,
        Some(cursor) => position_after(tools, cursor).ok_or_else(|| {
            RpcError::invalid_params("cursor", "`cursor` is unknown: request the list again without one")
        })?,
    };
    let rest = tools.get(start..).unwrap_or_default();
    let shown = rest.get(..PAGE_SIZE).unwrap_or(rest);
    let last = shown.last().filter(|_| shown.len() < rest.len());
    Ok(ToolPage {
        tools: shown.iter().map(|definition| ToolFormat::Mcp.export(definition)).collect(),
        next_cursor: last.map(|definition| cursor_after(definition)),
        keeping: None,
    })
}

/// Encodes the last tool of a page as a cursor. A name, unlike an index, stays valid when other tools are
/// added or removed.
fn cursor_after(definition: &ToolDefinition) -> String {
    tool::canonical::hex(definition.name().as_str().as_bytes())
}

fn position_after(tools: &[Arc<ToolDefinition>], cursor: &str) -> Option<usize> {
    tools.iter().position(|definition| cursor_after(definition) == cursor).map(|position| position + 1)
}

#[cfg(test)]
mod tests {
    use tool::{Category, RiskLevel, ToolSpec};

    use super::*;

    fn tools(count: usize) -> Vec<Arc<ToolDefinition>> {
        let tool = |number| ToolSpec::new(&format!("t{number:04}"), "d", Category::READ_ONLY, RiskLevel::Low);
        (0..count).map(|number| Arc::new(tool(number).check().unwrap())).collect()
    }

    #[test]
    fn pages_cover_all_tools() {
        for count in [0, 1, PAGE_SIZE - 1, PAGE_SIZE, PAGE_SIZE + 1, 2 * PAGE_SIZE, 2 * PAGE_SIZE + 50] {
            let tools = tools(count);
            let (mut seen, mut cursor, mut pages) = (Vec::new(), None::<String>, 0);
            loop {
                let page = page(&tools, cursor.as_deref()).unwrap();
                seen.extend(page.tools.iter().map(|tool| tool["name"].clone()));
                pages += 1;
                cursor = page.next_cursor;
                if cursor.is_none() {
                    break;
                }
            }
            let names: Vec<Value> = tools.iter().map(|tool| json!(tool.name())).collect();
            assert_eq!(seen, names, "{count}");
            assert_eq!(pages, count.div_ceil(PAGE_SIZE).max(1), "{count}");
        }
    }

    #[test]
    fn unknown_cursor_is_refused() {
        for cursor in ["", "zz", "7a7a", "0", &"f".repeat(100_000)] {
            let error = page(&tools(3), Some(cursor)).err().unwrap();
            assert_eq!((error.code, error.data["field"].as_str()), (-32602, Some("cursor")));
        }
    }
}
