//! Streamable HTTP transport through the outbound gateway. Each message is a separate request that the
//! gateway checks. Redirects are not followed.

use std::time::Instant;

use governance::Permit;
use outbound::{Credential, HttpGateway, HttpMethod, HttpRequest, HttpResponse, ResponseLimits};
use serde_json::Value;
use tool::text::{escape_invisible_line, shorten};
use tool::{Progress, ProgressNote};

use super::message::{PendingResponse, ServerMessage, is_response_to, parse_progress};
use super::sse_parser::SseParser;
use crate::error::McpError;

/// Allowance for other messages in a response besides the result.
const EXTRA_MESSAGE_BYTES: u64 = 1 << 20;

/// Permit, key and deadline of a message.
#[derive(Clone, Copy)]
pub(crate) struct McpRequestContext<'a> {
    pub(crate) permit: &'a Permit,
    pub(crate) deadline: Instant,
    pub(crate) credential: Option<&'a Credential>,
    /// Receives the progress that the server reports for the message.
    pub(crate) progress: &'a Progress,
}

impl McpRequestContext<'_> {
    /// Passes on a progress notification of the server. The key is masked in it.
    pub(crate) fn report_progress(&self, note: ProgressNote) {
        let masked = self.credential.and_then(|credential| credential.mask(&note.message));
        self.progress.report(ProgressNote { message: masked.unwrap_or(note.message), ..note });
    }

    /// Shortens text of the server for an error message. The key is masked first, because it would not be
    /// recognised after the text is shortened or escaped.
    pub(crate) fn display_text(&self, server_text: &str) -> String {
        let masked = self.credential.and_then(|credential| credential.mask(server_text));
        escape_invisible_line(&shorten(masked.as_deref().unwrap_or(server_text), 64))
    }
}

/// Endpoint and session of a connection.
pub(crate) struct StreamableHttpTransport {
    gateway: HttpGateway,
    url: String,
    session: Option<String>,
    /// Protocol revision, once agreed.
    pub(crate) revision: Option<String>,
}

impl StreamableHttpTransport {
    pub(crate) fn new(gateway: &HttpGateway, url: &str) -> StreamableHttpTransport {
        StreamableHttpTransport {
            gateway: gateway.clone(),
            url: url.to_owned(),
            session: None,
            revision: None,
        }
    }

    /// Sends a request and reads its response.
    pub(crate) async fn request(
        &mut self,
        awaited: PendingResponse,
        request: &Value,
        context: McpRequestContext<'_>,
    ) -> Result<Value, McpError> {
        let response = self.post(request, awaited, context).await?;
        if response.is_cut {
            return Err(McpError::MessageTooLong(response.body.len()));
        }
        for message in messages(response, context)? {
            if let ServerMessage::Response(result) = ServerMessage::parse_offloaded(message, awaited).await? {
                return result.map_err(|(code, message)| McpError::RpcError { code, message });
            }
        }
        Err(McpError::ProtocolViolation("the response to the request is missing".to_owned()))
    }

    /// Sends a notification.
    pub(crate) async fn notify(
        &mut self,
        notice: &Value,
        context: McpRequestContext<'_>,
    ) -> Result<(), McpError> {
        // A notification has no id, so no response can match.
        self.post(notice, PendingResponse { id: u64::MAX, max_bytes: 0 }, context).await.map(drop)
    }

    async fn post(
        &mut self,
        message: &Value,
        awaited: PendingResponse,
        context: McpRequestContext<'_>,
    ) -> Result<HttpResponse, McpError> {
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("accept", "application/json, text/event-stream".to_owned()),
        ];
        // Headers of the stateless revision, which let a gateway route a message without parsing its body.
        if let Some(revision) = &self.revision {
            headers.push(("mcp-protocol-version", revision.clone()));
            let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            headers.extend(text("/method").map(|method| ("mcp-method", method)));
            headers.extend(text("/params/name").map(|name| ("mcp-name", name)));
        }
        headers.extend(self.session.clone().map(|session| ("mcp-session-id", session)));
        let body = message.to_string().into_bytes();
        let credential = context.credential.cloned();
        let request =
            HttpRequest { url: self.url.clone(), method: HttpMethod::Post, headers, body, credential };
        let max = u64::try_from(awaited.max_bytes).unwrap_or(u64::MAX).saturating_add(EXTRA_MESSAGE_BYTES);
        let max = context.permit.max_response_bytes().unwrap_or(max).min(max);
        let caps = ResponseLimits { body_bytes: max, deadline: context.deadline };
        let mut events = SseParser::default();
        let mut is_answered = |part: &[u8]| {
            events.feed(part).iter().any(|event| {
                if let Some(note) = parse_progress(&event.data, awaited.id) {
                    context.report_progress(note);
                }
                is_response_to(&event.data, awaited.id)
            })
        };
        let response = self.gateway.send_until(context.permit, &request, caps, &mut is_answered).await?;
        match response.status {
            200..=299 => {}
            // A JSON-RPC error may come with this status.
            400 if is_response_to(&response.body, awaited.id) => {}
            404 if self.session.is_some() => {
                return Err(McpError::ConnectionLost("the server ended the session".to_owned()));
            }
            other => return Err(McpError::HttpStatus(other)),
        }
        self.session = response.mcp_session.clone().or(self.session.take());
        Ok(response)
    }
}

/// Splits a response body into messages: one JSON document, or server-sent events.
fn messages(response: HttpResponse, context: McpRequestContext<'_>) -> Result<Vec<Vec<u8>>, McpError> {
    if !response.codings.is_empty() {
        return Err(McpError::ProtocolViolation(
            "it has a content encoding that was not requested".to_owned(),
        ));
    }
    let content_type = response.content_type.as_deref().unwrap_or_default();
    let kind = content_type.to_ascii_lowercase();
    match kind.split(';').next().unwrap_or_default().trim() {
        "application/json" => Ok(vec![response.body]),
        "text/event-stream" => {
            let mut events = SseParser::default();
            let mut all = events.feed(&response.body);
            all.extend(events.feed(b"\n\n"));
            Ok(all.into_iter().map(|event| event.data).collect())
        }
        _ => Err(McpError::ProtocolViolation(format!(
            "unsupported content type `{}`",
            context.display_text(content_type)
        ))),
    }
}
