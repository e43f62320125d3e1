//! How a server is reached: its address begins as its transport wants it to.

use document::Node;

use crate::diagnostic::Code;
use crate::findings::{At, Findings};

pub(super) fn check(tool: &Node, findings: &mut Findings<'_>) {
    let Some(section) = tool.get("mcp_specific") else { return };
    let transport = section.get("transport").and_then(Node::text).unwrap_or_default();
    let Some([plain, secure]) = schemes(transport) else { return };
    let Some(url) = section.get("url") else { return };
    let is_one = |text: &str| [plain, secure].iter().any(|scheme| text.starts_with(scheme));
    if url.text().is_some_and(|text| !is_one(text)) {
        let message = format!("`{transport}` speaks to an address of `{plain}` or `{secure}`");
        let fix = format!("write `{secure}HOST/PATH`, or `{plain}` for a server on this machine");
        findings.add(Code::InvalidValue, At::node(url, "tool.mcp_specific.url"), &message, &fix);
    }
}

/// What the addresses of a transport begin with.
fn schemes(transport: &str) -> Option<[&'static str; 2]> {
    match transport {
        "sse" | "streamable_http" => Some(["http://", "https://"]),
        "websocket" => Some(["ws://", "wss://"]),
        _ => None,
    }
}
