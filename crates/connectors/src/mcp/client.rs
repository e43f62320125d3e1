//! MCP client: handshake or stateless revision, tool list, and tool calls, one at a time.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tool::{Arguments, SandboxTier, TraceContext};

use super::definitions::Definitions;
use super::hearing::MessageStream;
use super::http::{Http, Leave};
use super::key;
use super::message::Awaited;
use super::socket::WebSocket;
use super::sse::Sse;
use super::stdio::Stdio;
use crate::error::McpError;

/// Protocol revision that the handshake proposes: the latest one with a handshake.
const HANDSHAKE: &str = "2025-11-25";
/// Supported revisions with a handshake.
const KNOWN: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE];
/// Supported revision without a handshake.
const STATELESS: &str = "2026-07-28";
/// Limit of `tools/list` pages: a server with more is treated as endless.
const MOST_PAGES: usize = 64;

/// Size limit of a response other than a tool result: handshake and pages of the tool list.
const LONGEST: usize = 4 << 20;
/// Size limit of a tool result, regardless of policy.
pub(crate) const LARGEST_RESULT: u64 = 16 << 20;
/// Ratio of message size to output size: a result may contain the output twice (text and structured content),
/// and JSON escapes enlarge text.
const WORDINESS: u64 = 4;

/// Transport of the messages.
pub(crate) enum Line {
    Stdio(Box<Stdio>),
    Http(Http),
    Sse(Box<Sse>),
    Socket(Box<WebSocket>),
}

/// Protocol style agreed with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    /// Both sides agreed on a revision in a handshake.
    Handshake,
    /// Every request carries the revision and client information.
    Stateless,
}

/// Connection to a server after the handshake.
pub(crate) struct Client {
    line: Line,
    era: Era,
    /// Tool definitions from the last `tools/list`, until the next call.
    listed: Option<Arc<Definitions>>,
}

impl Client {
    /// Opens a connection. Falls back to the stateless revision if the server has no handshake.
    pub(crate) async fn begin(line: Line, leave: Leave<'_>) -> Result<Client, (McpError, String)> {
        let mut client = Client { line, era: Era::Handshake, listed: None };
        match client.agree(leave).await {
            Ok(()) => Ok(client),
            Err(error) => Err((error, client.end().await.1)),
        }
    }

    async fn agree(&mut self, leave: Leave<'_>) -> Result<(), McpError> {
        let hello = json!({"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": me()});
        match self.ask("initialize", hello, (LONGEST, leave)).await {
            Ok(answer) => {
                let revision = answer.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
                if !KNOWN.contains(&revision) {
                    let revision = tool::visible_line(&tool::shorten(revision, 64));
                    return Err(McpError::Garbled(format!(
                        "`{revision}` is not a supported revision of the protocol"
                    )));
                }
                if let Line::Http(http) = &mut self.line {
                    http.revision = Some(revision.to_owned());
                }
                self.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), leave).await?;
            }
            Err(McpError::Refused { .. } | McpError::Status(400 | 404 | 405)) => {
                self.era = Era::Stateless;
                if let Line::Http(http) = &mut self.line {
                    http.revision = Some(STATELESS.to_owned());
                }
                self.ask("server/discover", json!({}), (LONGEST, leave)).await?;
            }
            Err(error) => return Err(error),
        }
        self.definitions(leave).await.map(drop)
    }

    /// Returns the tool definitions. They are requested before each call: they may have changed since the
    /// last one, and the notification of a change may not have arrived yet.
    pub(crate) async fn definitions(&mut self, leave: Leave<'_>) -> Result<Arc<Definitions>, McpError> {
        if let Some(listed) = &self.listed {
            return Ok(Arc::clone(listed));
        }
        let listed = Arc::new(self.list(leave).await?);
        self.listed = Some(Arc::clone(&listed));
        Ok(listed)
    }

    async fn list(&mut self, leave: Leave<'_>) -> Result<Definitions, McpError> {
        let (mut found, mut cursor) = (Definitions::default(), None);
        for _ in 0..MOST_PAGES {
            let params = cursor.take().map_or_else(|| json!({}), |cursor: Value| json!({"cursor": cursor}));
            let mut page = self.ask("tools/list", params, (LONGEST, leave)).await?;
            found.add(page.get_mut("tools").map(Value::take).unwrap_or_default())?;
            cursor = page.get_mut("nextCursor").map(Value::take).filter(Value::is_string);
            if cursor.is_none() {
                return Ok(found);
            }
        }
        Err(McpError::Endless("sixty-four pages of tools"))
    }

    /// Calls a tool.
    pub(crate) async fn call(
        &mut self,
        tool: &str,
        arguments: Arguments,
        trace: Option<&TraceContext>,
        leave: Leave<'_>,
    ) -> Result<Value, McpError> {
        let mut params = json!({"name": tool, "arguments": arguments});
        if let (Some(trace), Some(params)) = (trace, params.as_object_mut()) {
            let mut meta = Map::new();
            meta.insert("traceparent".to_owned(), trace.traceparent().into());
            meta.extend(trace.trace_state.clone().map(|state| ("tracestate".to_owned(), state.into())));
            params.insert("_meta".to_owned(), meta.into());
        }
        let most = leave.permit.max_output_bytes().saturating_mul(WORDINESS).min(LARGEST_RESULT);
        self.listed = None;
        self.ask("tools/call", params, (usize::try_from(most).unwrap_or(usize::MAX), leave)).await
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        match &mut self.line {
            Line::Stdio(stdio) => stdio.is_alive(),
            Line::Http(_) | Line::Sse(_) | Line::Socket(_) => true,
        }
    }

    /// Returns the isolation tier of the server process.
    pub(crate) fn tier(&self) -> SandboxTier {
        match &self.line {
            Line::Stdio(stdio) => stdio.tier(),
            Line::Http(_) | Line::Sse(_) | Line::Socket(_) => SandboxTier::None,
        }
    }

    /// Closes the connection and ends a server process. Returns the end of its standard error.
    pub(crate) async fn end(self) -> (Result<(), McpError>, String) {
        match self.line {
            Line::Stdio(stdio) => stdio.end().await,
            Line::Socket(socket) => {
                socket.end().await;
                (Ok(()), String::new())
            }
            Line::Http(_) | Line::Sse(_) => (Ok(()), String::new()),
        }
    }

    /// Sends a request and reads a response of at most `most` bytes.
    async fn ask(
        &mut self,
        method: &str,
        mut params: Value,
        (most, leave): (usize, Leave<'_>),
    ) -> Result<Value, McpError> {
        let awaited = Awaited { id: unforeseen(), most };
        if self.era == Era::Stateless
            && let Some(params) = params.as_object_mut()
        {
            let meta = params.entry("_meta").or_insert_with(|| json!({}));
            if let Some(meta) = meta.as_object_mut() {
                meta.insert("io.modelcontextprotocol/protocolVersion".to_owned(), STATELESS.into());
                meta.insert("io.modelcontextprotocol/clientInfo".to_owned(), me());
                meta.insert("io.modelcontextprotocol/clientCapabilities".to_owned(), json!({}));
            }
        }
        let request = json!({"jsonrpc": "2.0", "id": awaited.id, "method": method, "params": params});
        let answered = match &mut self.line {
            Line::Stdio(stdio) => stdio.ask(awaited, &request).await,
            Line::Http(http) => http.ask(awaited, &request, leave).await,
            Line::Sse(sse) => sse.ask(awaited, &request, leave).await,
            Line::Socket(socket) => socket.ask(awaited, &request, leave).await,
        };
        match leave.credential {
            Some(credential) => {
                answered.map(|said| key::mask(said, credential)).map_err(|error| error.masked(credential))
            }
            None => answered,
        }
    }

    async fn tell(&mut self, notice: &Value, leave: Leave<'_>) -> Result<(), McpError> {
        let told = match &mut self.line {
            Line::Stdio(stdio) => stdio.tell(notice).await,
            Line::Http(http) => http.tell(notice, leave).await,
            Line::Sse(sse) => sse.tell(notice, leave).await,
            Line::Socket(socket) => socket.tell(notice, leave).await,
        };
        match leave.credential {
            Some(credential) => told.map_err(|error| error.masked(credential)),
            None => told,
        }
    }
}

/// Returns a random request id, so that a server cannot answer in advance. At most 52 bits, which JSON
/// numbers in every language represent exactly.
fn unforeseen() -> u64 {
    let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
    high >> 12
}

fn me() -> Value {
    json!({"name": "sinew", "version": env!("CARGO_PKG_VERSION")})
}
