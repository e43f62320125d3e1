//! HTTP transport with server-sent events (revision 2024-11-05): the server sends messages on one event
//! stream, and the client posts messages to an endpoint that the first event names. The endpoint must have
//! the server's origin.
//!
//! A connection lives for one call, because an open stream is bound to the permit that opened it.

use std::collections::VecDeque;

use outbound::{Caps, Gatekeeper, HttpRequest, Method, Stream};
use serde_json::Value;
use url::Url;

use super::events::{Event, Events};
use super::hearing::MessageStream;
use super::http::Leave;
use crate::error::McpError;

/// Allowance for other messages besides the result, in bytes.
const BESIDES: usize = 1 << 20;
/// Size limit of the response to a POST, which is ignored.
const NO_WORDS: u64 = 64 * 1024;
/// Length limit of the endpoint in the first event.
const LONGEST_ADDRESS: usize = 2048;

/// Server with its event stream.
pub(crate) struct Sse {
    gatekeeper: Gatekeeper,
    url: String,
    open: Option<Open>,
}

/// Open event stream.
struct Open {
    stream: Stream,
    events: Events,
    /// Events received but not processed yet.
    come: VecDeque<Event>,
    /// Bytes received since the last request, and their limit.
    heard: usize,
    longest: usize,
    /// URL for messages to the server.
    endpoint: String,
}

impl Sse {
    pub(crate) fn new(gatekeeper: &Gatekeeper, url: &str) -> Sse {
        Sse { gatekeeper: gatekeeper.clone(), url: url.to_owned(), open: None }
    }

    /// Opens the event stream and reads the endpoint for messages.
    async fn listen(&self, leave: Leave<'_>) -> Result<Open, McpError> {
        let question = HttpRequest { credential: leave.credential.cloned(), ..HttpRequest::get(&self.url) };
        let question = question.header("accept", "text/event-stream");
        let stream = self.gatekeeper.listen(leave.permit, &question, leave.deadline).await?;
        if stream.status != 200 {
            return Err(McpError::Status(stream.status));
        }
        let said = stream.content_type.clone().unwrap_or_default();
        let kind = said.to_ascii_lowercase();
        if kind.split(';').next().unwrap_or_default().trim() != "text/event-stream" {
            return Err(McpError::Garbled(format!("`{}` is not an event stream", leave.shown(&said))));
        }
        let mut open = Open {
            stream,
            events: Events::default(),
            come: VecDeque::new(),
            heard: 0,
            longest: BESIDES,
            endpoint: String::new(),
        };
        let first = open.next().await?;
        open.endpoint = endpoint(&self.url, &first)?;
        Ok(open)
    }
}

impl MessageStream for Sse {
    async fn begin(&mut self, most: usize, leave: Leave<'_>) -> Result<(), McpError> {
        let open = match self.open.take() {
            Some(open) => open,
            None => self.listen(leave).await?,
        };
        self.open = Some(Open { heard: 0, longest: most.saturating_add(BESIDES), ..open });
        Ok(())
    }

    /// Posts the message to the endpoint. A response arrives on the event stream.
    async fn send(&mut self, message: &Value, leave: Leave<'_>) -> Result<(), McpError> {
        let Some(open) = &self.open else { return Err(lost("its event stream is not open")) };
        let headers = vec![("content-type", "application/json".to_owned())];
        let body = message.to_string().into_bytes();
        let (url, credential) = (open.endpoint.clone(), leave.credential.cloned());
        let question = HttpRequest { url, method: Method::Post, headers, body, credential };
        let caps = Caps { body_bytes: NO_WORDS, deadline: leave.deadline };
        // The status alone shows whether the message was accepted.
        let mut is_enough = |_: &[u8]| true;
        let answer = self.gatekeeper.converse(leave.permit, &question, caps, &mut is_enough).await?;
        match answer.status {
            200..=299 => Ok(()),
            other => Err(McpError::Status(other)),
        }
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, McpError> {
        let Some(open) = &mut self.open else { return Err(lost("its event stream is not open")) };
        let event = open.next().await?;
        Ok(matches!(event.name.as_slice(), b"" | b"message").then_some(event.data))
    }
}

impl Open {
    async fn next(&mut self) -> Result<Event, McpError> {
        loop {
            if let Some(event) = self.come.pop_front() {
                return Ok(event);
            }
            let part = self.stream.next().await?.ok_or_else(|| lost("the server closed the event stream"))?;
            self.heard = self.heard.saturating_add(part.len());
            if self.heard > self.longest {
                return Err(McpError::TooLong(self.longest));
            }
            self.come.extend(self.events.take(&part));
        }
    }
}

/// Resolves the endpoint for messages, which must have the origin of the server.
fn endpoint(server: &str, first: &Event) -> Result<String, McpError> {
    let garbled = |why: &str| McpError::Garbled(why.to_owned());
    if first.name != b"endpoint" || first.data.len() > LONGEST_ADDRESS {
        return Err(garbled("its stream does not begin with an endpoint"));
    }
    let server = Url::parse(server).map_err(|_| garbled("its URL is invalid"))?;
    let named = std::str::from_utf8(&first.data).ok().and_then(|text| server.join(text.trim()).ok());
    match named {
        Some(named) if named.origin() == server.origin() => Ok(named.into()),
        _ => Err(garbled("its endpoint has a different origin")),
    }
}

fn lost(why: &str) -> McpError {
    McpError::Lost(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_must_have_the_origin_of_the_server() {
        let check = |name: &str, data: &str, expect: Option<&str>| {
            let first = Event { name: name.into(), data: data.into() };
            let found = endpoint("http://127.0.0.1:8000/sse", &first);
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
        check("endpoint", &format!("/{}", "x".repeat(LONGEST_ADDRESS)), None);
    }
}
