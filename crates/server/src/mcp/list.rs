//! `tools/list`: all tools, in one order for everyone, a page at a time.

use std::sync::Arc;

use execution::ToolFilter;
use serde_json::{Value, json};
use tool::{Format, ToolDefinition};

use super::after_handshake;
use crate::agent::Agent;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Agent> = Method { name: "tools/list", run };

const PAGE: usize = 100;

fn run(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    after_handshake(session)?;
    let mut params = call.params;
    let cursor: Option<String> = params.want("cursor")?;
    let page = page(&agent.layer.tools(&ToolFilter::default()), cursor.as_deref())?;
    Ok(Answer::Now(rpc::answer(&page)))
}

/// The page that begins after the cursor's tool.
fn page(tools: &[Arc<ToolDefinition>], cursor: Option<&str>) -> Result<Value, RpcError> {
    let start = match cursor {
        None => 0,
        Some(cursor) => after(tools, cursor).ok_or_else(|| {
            RpcError::invalid_params("cursor", "`cursor` is none of this list: ask again without one")
        })?,
    };
    let (shown, rest) = tools.get(start..).unwrap_or_default().split_at_checked(PAGE).unwrap_or((
        tools.get(start..).unwrap_or_default(),
        &[],
    ));
    let exported: Vec<Value> = shown.iter().map(|definition| Format::Mcp.export(definition)).collect();
    let mut page = json!({"tools": exported});
    if let (false, Some(last)) = (rest.is_empty(), shown.last()) {
        page["nextCursor"] = json!(cursor_of(last));
    }
    Ok(page)
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
                seen.extend(page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()));
                pages += 1;
                cursor = page["nextCursor"].as_str().map(str::to_owned);
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
            let error = page(&tools(3), Some(cursor)).unwrap_err();
            assert_eq!((error.code, error.data["field"].as_str()), (-32602, Some("cursor")));
        }
    }
}
