//! One conversation with a server: the handshake, or the revision in which every request stands alone; what tools it has;
//! and calls, one at a time.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tool::{Arguments, SandboxTier, TraceContext};

use super::definitions::Definitions;
use super::http::{Http, Leave};
use super::key;
use super::message::Awaited;
use super::socket::WebSocket;
use super::sse::Sse;
use super::stdio::Stdio;
use crate::error::McpError;

/// What the handshake proposes: the last revision that has one.
const HANDSHAKE: &str = "2025-11-25";
/// Every revision that has one.
const KNOWN: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE];
/// The revision without.
const STATELESS: &str = "2026-07-28";
/// A server with more pages of tools than this never stops.
const MOST_PAGES: usize = 64;

/// What an answer may have that is none of a tool: how it speaks, and a page of its tools.
const LONGEST: usize = 4 << 20;
/// Whatever policy grants, a result has no more.
pub(crate) const LARGEST_RESULT: u64 = 16 << 20;
/// A result may say what it gives twice, as text and as structure, and text in JSON is longer than it is.
const WORDINESS: u64 = 4;

/// How messages travel.
pub(crate) enum Line {
    Stdio(Box<Stdio>),
    Http(Http),
    Sse(Box<Sse>),
    Socket(Box<WebSocket>),
}

/// What both sides take for granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    /// They have agreed on a revision at the beginning.
    Handshake,
    /// Every request says everything.
    Stateless,
}

/// A conversation that has begun.
pub(crate) struct Client {
    line: Line,
    era: Era,
    /// What it last said of its tools, until it is asked to do something.
    listed: Option<Arc<Definitions>>,
}

impl Client {
    /// Begins. A server that knows no handshake is spoken to without one.
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
                        "`{revision}` is no known revision of the protocol"
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

    /// What its tools are. It is asked before each call: what it said before the last one may hold no more, and a notice of
    /// that may not have come yet.
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

    /// The walls it is in.
    pub(crate) fn tier(&self) -> SandboxTier {
        match &self.line {
            Line::Stdio(stdio) => stdio.tier(),
            Line::Http(_) | Line::Sse(_) | Line::Socket(_) => SandboxTier::None,
        }
    }

    /// Ends the conversation and, where it is ours, the server; what that last said where nobody listens.
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

    /// Asks, and reads an answer of at most so many bytes.
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

/// A number that nobody can answer before it was asked, and that every program can count to.
fn unforeseen() -> u64 {
    let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
    high >> 12
}

fn me() -> Value {
    json!({"name": "sinew", "version": env!("CARGO_PKG_VERSION")})
}
