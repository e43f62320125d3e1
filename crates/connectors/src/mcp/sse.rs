//! HTTP transport with server-sent events (revision 2024-11-05): the server sends messages on one event
//! stream, and the client posts messages to an endpoint that the first event names. The endpoint must have
//! the server's origin.
//!
//! A connection lives for one call, because an open stream is bound to the permit that opened it.

use std::collections::VecDeque;

use outbound::{HttpGateway, HttpMethod, HttpRequest, ResponseLimits, ResponseStream};
use serde_json::Value;
use url::Url;

use super::http::McpRequestContext;
use super::response_wait::MessageStream;
use super::sse_parser::{SseEvent, SseParser};
use crate::error::McpError;

/// Allowance for other messages besides the result, in bytes.
const EXTRA_MESSAGE_BYTES: usize = 1 << 20;
/// Size limit of the response to a POST, which is ignored.
const MAX_POST_RESPONSE_BYTES: u64 = 64 * 1024;
/// Length limit of the endpoint in the first event.
const MAX_ENDPOINT_BYTES: usize = 2048;

/// Server with its event stream.
pub(crate) struct SseTransport {
    gateway: HttpGateway,
    url: String,
    open: Option<OpenSseStream>,
}

/// Open event stream.
struct OpenSseStream {
    stream: ResponseStream,
    events: SseParser,
    /// Events received but not processed yet.
    received_events: VecDeque<SseEvent>,
    /// Bytes received since the last request, and their limit.
    received_bytes: usize,
    longest: usize,
    /// URL for messages to the server.
    endpoint: String,
}

impl SseTransport {
    pub(crate) fn new(gateway: &HttpGateway, url: &str) -> SseTransport {
        SseTransport { gateway: gateway.clone(), url: url.to_owned(), open: None }
    }

    /// Opens the event stream and reads the endpoint for messages.
    async fn open_stream(&self, context: McpRequestContext<'_>) -> Result<OpenSseStream, McpError> {
        let request = HttpRequest { credential: context.credential.cloned(), ..HttpRequest::get(&self.url) };
        let request = request.header("accept", "text/event-stream");
        let stream = self.gateway.open_stream(context.permit, &request, context.deadline).await?;
        if stream.status != 200 {
            return Err(McpError::HttpStatus(stream.status));
        }
        let text = stream.content_type.clone().unwrap_or_default();
        let kind = text.to_ascii_lowercase();
        if kind.split(';').next().unwrap_or_default().trim() != "text/event-stream" {
            return Err(McpError::ProtocolViolation(format!(
                "`{}` is not an event stream",
                context.display_text(&text)
            )));
        }
        let mut open = OpenSseStream {
            stream,
            events: SseParser::default(),
            received_events: VecDeque::new(),
            received_bytes: 0,
            longest: EXTRA_MESSAGE_BYTES,
            endpoint: String::new(),
        };
        let first = open.next().await?;
        open.endpoint = resolve_endpoint(&self.url, &first)?;
        Ok(open)
    }
}

impl MessageStream for SseTransport {
    async fn begin(&mut self, max: usize, context: McpRequestContext<'_>) -> Result<(), McpError> {
        let open = match self.open.take() {
            Some(open) => open,
            None => self.open_stream(context).await?,
        };
        self.open = Some(OpenSseStream {
            received_bytes: 0,
            longest: max.saturating_add(EXTRA_MESSAGE_BYTES),
            ..open
        });
        Ok(())
    }

    /// Posts the message to the endpoint. A response arrives on the event stream.
    async fn send(&mut self, message: &Value, context: McpRequestContext<'_>) -> Result<(), McpError> {
        let Some(open) = &self.open else { return Err(lost("its event stream is not open")) };
        let headers = vec![("content-type", "application/json".to_owned())];
        let body = message.to_string().into_bytes();
        let (url, credential) = (open.endpoint.clone(), context.credential.cloned());
        let request = HttpRequest { url, method: HttpMethod::Post, headers, body, credential };
        let caps = ResponseLimits { body_bytes: MAX_POST_RESPONSE_BYTES, deadline: context.deadline };
        // The status alone shows whether the message was accepted.
        let mut is_enough = |_: &[u8]| true;
        let response = self.gateway.send_until(context.permit, &request, caps, &mut is_enough).await?;
        match response.status {
            200..=299 => Ok(()),
            other => Err(McpError::HttpStatus(other)),
        }
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, McpError> {
        let Some(open) = &mut self.open else { return Err(lost("its event stream is not open")) };
        let event = open.next().await?;
        Ok(matches!(event.name.as_slice(), b"" | b"message").then_some(event.data))
    }
}

impl OpenSseStream {
    async fn next(&mut self) -> Result<SseEvent, McpError> {
        loop {
            if let Some(event) = self.received_events.pop_front() {
                return Ok(event);
            }
            let part = self.stream.next().await?.ok_or_else(|| lost("the server closed the event stream"))?;
            self.received_bytes = self.received_bytes.saturating_add(part.len());
            if self.received_bytes > self.longest {
                return Err(McpError::MessageTooLong(self.longest));
            }
            self.received_events.extend(self.events.feed(&part));
        }
    }
}

/// Resolves the endpoint for messages, which must have the origin of the server.
fn resolve_endpoint(server: &str, first: &SseEvent) -> Result<String, McpError> {
    let garbled = |reason: &str| McpError::ProtocolViolation(reason.to_owned());
    if first.name != b"endpoint" || first.data.len() > MAX_ENDPOINT_BYTES {
        return Err(garbled("its stream does not begin with an endpoint"));
    }
    let server = Url::parse(server).map_err(|_| garbled("its URL is invalid"))?;
    let named = std::str::from_utf8(&first.data).ok().and_then(|text| server.join(text.trim()).ok());
    match named {
        Some(named) if named.origin() == server.origin() => Ok(named.into()),
        _ => Err(garbled("its endpoint has a different origin")),
    }
}

fn lost(reason: &str) -> McpError {
    McpError::ConnectionLost(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_must_have_the_origin_of_the_server() {
        let check = |name: &str, data: &str, expect: Option<&str>| {
            let first = SseEvent { name: name.into(), data: data.into() };
            let found = resolve_endpoint("http://127.0.0.1:8000/sse", &first);
            assert_eq!(found.ok().as_deref(), expect, "{name} {data}");
        };
        check("endpoint", "/messages/?session_id=1", Some("http://127.0.0.1:8000/messages/?session_id=1"));
        check("endpoint", "http://127.0.0.1:8000/m", Some("http://127.0.0.1:8000/m"));
        for elsewhere in [
            "http://127.0.0.1:8001/m",
            "https://127.0.0.1:8000/m",
            "//evil.example/m",
            "http://localhost:8000/m",
        ] {
            check("endpoint", elsewhere, None);
        }
        check("message", "/messages", None);
        check("endpoint", &format!("/{}", "x".repeat(MAX_ENDPOINT_BYTES)), None);
    }
}
