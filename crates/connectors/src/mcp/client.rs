//! MCP client: handshake or stateless revision, tool list, and tool calls, one at a time.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tool::result::SandboxTier;
use tool::{Arguments, TraceContext};

use super::definitions::ServerToolDefinitions;
use super::http::{McpRequestContext, StreamableHttpTransport};
use super::message::PendingResponse;
use super::response_wait::MessageStream;
use super::server_key;
use super::sse::SseTransport;
use super::stdio::StdioTransport;
use super::web_socket::WebSocketTransport;
use crate::error::McpError;

/// Protocol revision that the handshake proposes: the latest one with a handshake.
const PROPOSED_REVISION: &str = "2025-11-25";
/// Supported revisions with a handshake.
const HANDSHAKE_REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", PROPOSED_REVISION];
/// Supported revision without a handshake.
const STATELESS_REVISION: &str = "2026-07-28";
/// Limit of `tools/list` pages: a server with more is treated as endless.
const MAX_LIST_PAGES: usize = 64;

/// Size limit of a response other than a tool result: handshake and pages of the tool list.
const MAX_CONTROL_RESPONSE_BYTES: usize = 4 << 20;
/// Size limit of a tool result, regardless of policy.
pub(crate) const MAX_RESULT_BYTES: u64 = 16 << 20;
/// Ratio of message size to output size: a result may contain the output twice (text and structured content),
/// and JSON escapes enlarge text.
const MESSAGE_OVERHEAD_FACTOR: u64 = 4;

/// Method whose requests may ask for progress notifications.
const CALL_METHOD: &str = "tools/call";

/// Transport of the messages.
pub(crate) enum ClientTransport {
    Stdio(Box<StdioTransport>),
    Http(StreamableHttpTransport),
    Sse(Box<SseTransport>),
    Socket(Box<WebSocketTransport>),
}

/// Protocol style agreed with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProtocolStyle {
    /// Both sides agreed on a revision in a handshake.
    Handshake,
    /// Every request carries the revision and client information.
    Stateless,
}

/// Connection to a server after the handshake.
pub(crate) struct McpClient {
    transport: ClientTransport,
    style: ProtocolStyle,
    /// Tool definitions from the last `tools/list`, until the next call.
    cached_definitions: Option<Arc<ServerToolDefinitions>>,
}

impl McpClient {
    /// Opens a connection. Falls back to the stateless revision if the server has no handshake.
    pub(crate) async fn open(
        line: ClientTransport,
        context: McpRequestContext<'_>,
    ) -> Result<McpClient, (McpError, String)> {
        let mut client =
            McpClient { transport: line, style: ProtocolStyle::Handshake, cached_definitions: None };
        match client.negotiate(context).await {
            Ok(()) => Ok(client),
            Err(error) => Err((error, client.close().await.1)),
        }
    }

    async fn negotiate(&mut self, context: McpRequestContext<'_>) -> Result<(), McpError> {
        let hello =
            json!({"protocolVersion": PROPOSED_REVISION, "capabilities": {}, "clientInfo": client_info()});
        match self.request("initialize", hello, (MAX_CONTROL_RESPONSE_BYTES, context)).await {
            Ok(response) => {
                let revision = response.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
                if !HANDSHAKE_REVISIONS.contains(&revision) {
                    let revision = tool::text::escape_invisible_line(&tool::text::shorten(revision, 64));
                    return Err(McpError::ProtocolViolation(format!(
                        "`{revision}` is not a supported revision of the protocol"
                    )));
                }
                if let ClientTransport::Http(http) = &mut self.transport {
                    http.revision = Some(revision.to_owned());
                }
                self.notify(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), context)
                    .await?;
            }
            Err(McpError::RpcError { .. } | McpError::HttpStatus(400 | 404 | 405)) => {
                self.style = ProtocolStyle::Stateless;
                if let ClientTransport::Http(http) = &mut self.transport {
                    http.revision = Some(STATELESS_REVISION.to_owned());
                }
                self.request("server/discover", json!({}), (MAX_CONTROL_RESPONSE_BYTES, context)).await?;
            }
            Err(error) => return Err(error),
        }
        self.definitions(context).await.map(drop)
    }

    /// Returns the tool definitions. They are requested before each call: they may have changed since the
    /// last one, and the notification of a change may not have arrived yet.
    pub(crate) async fn definitions(
        &mut self,
        context: McpRequestContext<'_>,
    ) -> Result<Arc<ServerToolDefinitions>, McpError> {
        if let Some(listed) = &self.cached_definitions {
            return Ok(Arc::clone(listed));
        }
        let listed = Arc::new(self.list_tools(context).await?);
        self.cached_definitions = Some(Arc::clone(&listed));
        Ok(listed)
    }

    async fn list_tools(
        &mut self,
        context: McpRequestContext<'_>,
    ) -> Result<ServerToolDefinitions, McpError> {
        let (mut found, mut cursor) = (ServerToolDefinitions::default(), None);
        for _ in 0..MAX_LIST_PAGES {
            let params = cursor.take().map_or_else(|| json!({}), |cursor: Value| json!({"cursor": cursor}));
            let mut page = self.request("tools/list", params, (MAX_CONTROL_RESPONSE_BYTES, context)).await?;
            found.add_page(page.get_mut("tools").map(Value::take).unwrap_or_default())?;
            cursor = page.get_mut("nextCursor").map(Value::take).filter(Value::is_string);
            if cursor.is_none() {
                return Ok(found);
            }
        }
        Err(McpError::EndlessMessages("sixty-four pages of tools"))
    }

    /// Calls a tool.
    pub(crate) async fn call(
        &mut self,
        tool: &str,
        arguments: Arguments,
        trace: Option<&TraceContext>,
        context: McpRequestContext<'_>,
    ) -> Result<Value, McpError> {
        let mut params = json!({"name": tool, "arguments": arguments});
        if let (Some(trace), Some(params)) = (trace, params.as_object_mut()) {
            let mut meta = Map::new();
            meta.insert("traceparent".to_owned(), trace.traceparent().into());
            meta.extend(trace.trace_state.clone().map(|state| ("tracestate".to_owned(), state.into())));
            params.insert("_meta".to_owned(), meta.into());
        }
        let max =
            context.permit.max_output_bytes().saturating_mul(MESSAGE_OVERHEAD_FACTOR).min(MAX_RESULT_BYTES);
        self.cached_definitions = None;
        self.request(CALL_METHOD, params, (usize::try_from(max).unwrap_or(usize::MAX), context)).await
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        match &mut self.transport {
            ClientTransport::Stdio(stdio) => stdio.is_alive(),
            ClientTransport::Http(_) | ClientTransport::Sse(_) | ClientTransport::Socket(_) => true,
        }
    }

    /// Returns the isolation tier of the server process.
    pub(crate) fn tier(&self) -> SandboxTier {
        match &self.transport {
            ClientTransport::Stdio(stdio) => stdio.tier(),
            ClientTransport::Http(_) | ClientTransport::Sse(_) | ClientTransport::Socket(_) => {
                SandboxTier::None
            }
        }
    }

    /// Closes the connection and ends a server process. Returns the end of its standard error.
    pub(crate) async fn close(self) -> (Result<(), McpError>, String) {
        match self.transport {
            ClientTransport::Stdio(stdio) => stdio.close().await,
            ClientTransport::Socket(socket) => {
                socket.close().await;
                (Ok(()), String::new())
            }
            ClientTransport::Http(_) | ClientTransport::Sse(_) => (Ok(()), String::new()),
        }
    }

    /// Sends a request and reads a response of at most `max` bytes.
    async fn request(
        &mut self,
        method: &str,
        mut params: Value,
        (max, context): (usize, McpRequestContext<'_>),
    ) -> Result<Value, McpError> {
        let awaited = PendingResponse { id: random_request_id(), max_bytes: max };
        if self.style == ProtocolStyle::Stateless {
            insert_meta(&mut params, "io.modelcontextprotocol/protocolVersion", STATELESS_REVISION.into());
            insert_meta(&mut params, "io.modelcontextprotocol/clientInfo", client_info());
            insert_meta(&mut params, "io.modelcontextprotocol/clientCapabilities", json!({}));
        }
        // The request id is unique and cannot be guessed, so it serves as the token as well.
        if method == CALL_METHOD && context.progress.has_listener() {
            insert_meta(&mut params, "progressToken", awaited.id.into());
        }
        let request = json!({"jsonrpc": "2.0", "id": awaited.id, "method": method, "params": params});
        let result = match &mut self.transport {
            ClientTransport::Stdio(stdio) => stdio.request(awaited, &request, context).await,
            ClientTransport::Http(http) => http.request(awaited, &request, context).await,
            ClientTransport::Sse(sse) => sse.send_and_wait(awaited, &request, context).await,
            ClientTransport::Socket(socket) => socket.send_and_wait(awaited, &request, context).await,
        };
        match context.credential {
            Some(credential) => result
                .map(|text| server_key::mask_message(text, credential))
                .map_err(|error| error.masked(credential)),
            None => result,
        }
    }

    async fn notify(&mut self, notice: &Value, context: McpRequestContext<'_>) -> Result<(), McpError> {
        let sent = match &mut self.transport {
            ClientTransport::Stdio(stdio) => stdio.notify(notice).await,
            ClientTransport::Http(http) => http.notify(notice, context).await,
            ClientTransport::Sse(sse) => sse.notify(notice, context).await,
            ClientTransport::Socket(socket) => socket.notify(notice, context).await,
        };
        match context.credential {
            Some(credential) => sent.map_err(|error| error.masked(credential)),
            None => sent,
        }
    }
}

/// Sets a member of `_meta`.
fn insert_meta(params: &mut Value, key: &str, value: Value) {
    let Some(params) = params.as_object_mut() else { return };
    if let Some(meta) = params.entry("_meta").or_insert_with(|| json!({})).as_object_mut() {
        meta.insert(key.to_owned(), value);
    }
}

/// Returns a random request id, so that a server cannot answer in advance. At most 52 bits, which JSON
/// numbers in every language represent exactly.
fn random_request_id() -> u64 {
    let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
    high >> 12
}

fn client_info() -> Value {
    json!({"name": "sinew", "version": env!("CARGO_PKG_VERSION")})
}
