//! `tools/list`: all tools, in one order for everyone, a page at a time.

use std::sync::Arc;

use execution::ToolFilter;
use serde::Serialize;
use serde_json::Value;
use tool::{Format, ToolDefinition};

use super::era::{Era, Keeping};
use crate::agent::Agent;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Agent> = Method { name: "tools/list", run };

const PAGE: usize = 100;

fn run(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let (era, _) = Era::of(session, &mut params)?;
    let cursor: Option<String> = params.want("cursor")?;
    let tools = agent.layer.tools_in(session.worker.as_deref(), &ToolFilter::default());
    let mut page = page(&tools, cursor.as_deref())?;
    page.keeping = era.keeping();
    Ok(Answer::Now(rpc::answer(&page)))
}

/// One page, as MCP words it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(flatten)]
    keeping: Option<Keeping>,
}

/// The page that begins after the cursor's tool.
fn page(tools: &[Arc<ToolDefinition>], cursor: Option<&str>) -> Result<Page, RpcError> {
    let start = match cursor {
        None => 0,
        Some(cursor) => after(tools, cursor).ok_or_else(|| {
            RpcError::invalid_params("cursor", "`cursor` is none of this list: ask again without one")
        })?,
    };
    let rest = tools.get(start..).unwrap_or_default();
    let shown = rest.get(..PAGE).unwrap_or(rest);
    let last = shown.last().filter(|_| shown.len() < rest.len());
    Ok(Page {
        tools: shown.iter().map(|definition| Format::Mcp.export(definition)).collect(),
        next_cursor: last.map(|definition| cursor_of(definition)),
        keeping: None,
    })
}

/// A cursor names the last tool that was shown, so that it stays good when tools come or go elsewhere.
fn cursor_of(definition: &ToolDefinition) -> String {
    tool::canonical::hex(definition.name().as_str().as_bytes())
}

fn after(tools: &[Arc<ToolDefinition>], cursor: &str) -> Option<usize> {
    tools.iter().position(|definition| cursor_of(definition) == cursor).map(|position| position + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Category, RiskLevel, ToolSpec};

    use super::*;

    fn tools(count: usize) -> Vec<Arc<ToolDefinition>> {
        let tool = |number| ToolSpec::new(&format!("t{number:04}"), "d", Category::READ_ONLY, RiskLevel::Low);
        (0..count).map(|number| Arc::new(tool(number).check().unwrap())).collect()
    }

    #[test]
    fn pages_add_up_to_the_whole() {
        for count in [0, 1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE, 2 * PAGE + 50] {
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
            assert_eq!(pages, count.div_ceil(PAGE).max(1), "{count}");
        }
    }

    #[test]
    fn a_bad_cursor_is_refused() {
        for cursor in ["", "zz", "7a7a", "0", &"f".repeat(100_000)] {
            let error = page(&tools(3), Some(cursor)).err().unwrap();
            assert_eq!((error.code, error.data["field"].as_str()), (-32602, Some("cursor")));
        }
    }
}
