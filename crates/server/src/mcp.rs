//! Model Context Protocol in both eras: revisions with a handshake, and the revision with stateless requests.
//! One file per method; `era.rs` determines the era of a request.
//!
//! Unknown parameters and unknown `_meta` keys are ignored, as the MCP specification requires, unlike in
//! Sinew's own methods. This includes keys under `sinew/`: some clients send the `_meta` of a listed tool
//! back with each call. Malformed values of known keys are refused.

pub(crate) mod call;
pub(crate) mod initialize;
pub(crate) mod list;
pub(crate) mod listen;
pub(crate) mod model_text;
pub(crate) mod progress;
pub(crate) mod task_table;
pub(crate) mod tasks;

mod era;
mod result;
mod task_run;
mod task_view;

use serde_json::{Map, Value, json};

use crate::agent::AgentContext;
use crate::connection_state::ConnectionState;
use crate::methods::status::LimitsReply;
use crate::rpc::{Params, RequestId};
use crate::service::{MethodCall, MethodReply, MethodResult, NotificationEffect, NotificationHandler};
use crate::settings::ConnectionLimits;

/// Revisions with a handshake, oldest first.
const HANDSHAKE_REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// Revision with a handshake that has tasks.
const TASKS_REVISION: &str = "2025-11-25";
/// Revision with stateless requests.
const STATELESS_REVISION: &str = "2026-07-28";

const INSTRUCTIONS: &str = "Every call is validated, checked against the policy of this machine and \
    recorded. A call that was not run returns an error that says why and, where possible, how to correct it: \
    read it before you retry. A call that the policy forbids stays forbidden in any form.";

/// Hosts that show the structured content of a result to their model in place of its text. The text has fewer tokens, and
/// the content of a file is not escaped in it.
const HOSTS_THAT_HIDE_TEXT: [&str; 2] = ["claude-code", "codex-mcp-client"];

/// Returns true if this client gets results as text only.
fn is_text_only(client: Option<&str>) -> bool {
    client.is_some_and(|client| HOSTS_THAT_HIDE_TEXT.contains(&client))
}

/// Notification sent when the list of tools changes.
const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// Result of the `initialize` handshake of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct McpHandshake {
    /// Name of the client, made safe for display.
    pub(crate) client: Option<String>,
    /// Negotiated protocol revision.
    pub(crate) revision: &'static str,
}

pub(crate) const NOTIFICATIONS: &[NotificationHandler] = &[
    NotificationHandler { name: "notifications/initialized", run: |_| NotificationEffect::Nothing },
    NotificationHandler { name: "notifications/cancelled", run: on_cancelled },
];

/// Handles `notifications/cancelled`: a running or waiting call is ended and recorded as cancelled.
fn on_cancelled(mut params: Params) -> NotificationEffect {
    match params.take("requestId").map(RequestId::read) {
        Some(Ok(id)) => NotificationEffect::Cancel(id),
        _ => NotificationEffect::Nothing,
    }
}

/// Replies to `ping` at any time, also before the handshake. The stateless revision has no `ping`.
pub(crate) fn ping(_: &AgentContext, session: &mut ConnectionState, mut call: MethodCall) -> MethodResult {
    era::refuse_stateless(session, &mut call.params, "ping")?;
    Ok(MethodReply::now(&json!({})))
}

/// Returns the capabilities of this server in a revision.
fn capabilities(revision: &str) -> Value {
    let tools = json!({"listChanged": true});
    match revision {
        TASKS_REVISION => {
            let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
            json!({"tools": tools, "tasks": tasks})
        }
        STATELESS_REVISION => json!({"tools": tools, "extensions": {era::TASKS_EXTENSION: {}}}),
        _ => json!({"tools": tools}),
    }
}

/// Returns the name and version of this server.
fn server_info() -> Value {
    json!({"name": "sinew", "title": "Sinew", "version": env!("CARGO_PKG_VERSION")})
}

/// Returns the limits for clients as a `_meta` entry.
fn limits_meta(limits: &ConnectionLimits) -> Map<String, Value> {
    Map::from_iter([("sinew/limits".to_owned(), json!(LimitsReply::new(limits)))])
}

const MAX_NAME_CHARS: usize = 64;

/// Reduces a name to at most `MAX_NAME_CHARS` characters without control characters and direction marks. A
/// changed name gets a digest of the original, so that two clients cannot get the same name.
fn display_name(whole: &str) -> Option<String> {
    let harmless = |c: &char| c.is_alphanumeric() || c.is_ascii_graphic() || *c == ' ';
    let name: String = whole.chars().filter(harmless).take(MAX_NAME_CHARS).collect();
    match name.trim() {
        "" => None,
        name if name == whole => Some(name.to_owned()),
        name => Some(tool::text::shorten_with_digest(name, MAX_NAME_CHARS, whole)),
    }
}
