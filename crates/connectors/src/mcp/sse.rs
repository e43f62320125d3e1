//! A server on the network, spoken to as servers were until 2025: one stream of events comes from it, and what it is told is
//! posted to an address that the stream names first. That address is the server's own, or it is not believed.
//!
//! A conversation lives for one call: a stream that stays open belongs to the permit it was opened by.

use std::collections::VecDeque;

use outbound::{Caps, Gatekeeper, Method, Question, Stream};
use serde_json::Value;
use url::Url;

use super::events::{Event, Events};
use super::hearing::{Heard, Hearing};
use super::http::Leave;
use super::message::Awaited;
use crate::error::McpError;

/// What a server may say beside its answer, in bytes.
const BESIDES: usize = 1 << 20;
/// What it says to something that is posted is not read.
const NO_WORDS: u64 = 64 * 1024;
/// The first event names an address; more than this is none.
const LONGEST_ADDRESS: usize = 2048;

/// A server and the stream of what it says.
pub(crate) struct Sse {
    gatekeeper: Gatekeeper,
    url: String,
    open: Option<Open>,
}

/// A stream that has begun.
struct Open {
    stream: Stream,
    events: Events,
    /// Those that have come and were not looked at.
    come: VecDeque<Event>,
    /// The bytes that have come since it was last asked.
    heard: usize,
    /// Where it is told something.
    endpoint: String,
}

impl Sse {
    pub(crate) fn new(gatekeeper: &Gatekeeper, url: &str) -> Sse {
        Sse { gatekeeper: gatekeeper.clone(), url: url.to_owned(), open: None }
    }

    /// Asks, and waits for the answer to that. What else it says meanwhile is answered or passed over.
    pub(crate) async fn ask(
        &mut self,
        awaited: Awaited,
        request: &Value,
        leave: Leave<'_>,
    ) -> Result<Value, McpError> {
        self.tell(request, leave).await?;
        let longest = awaited.most.saturating_add(BESIDES);
        let mut hearing = Hearing::new(awaited);
        loop {
            let Some(open) = &mut self.open else { return Err(lost("its stream was never opened")) };
            let event = open.next(longest).await?;
            if !matches!(event.name.as_slice(), b"" | b"message") {
                hearing.pass_over()?;
                continue;
            }
            match hearing.take(event.data).await? {
                Heard::Answer(answer) => return Ok(answer),
                Heard::Asked(reply) => self.post(&reply, leave).await?,
                Heard::Nothing => {}
            }
        }
    }

    /// Tells it something. What it answers to it, if anything, comes by the stream.
    pub(crate) async fn tell(&mut self, message: &Value, leave: Leave<'_>) -> Result<(), McpError> {
        match &mut self.open {
            Some(open) => open.heard = 0,
            None => self.open = Some(self.listen(leave).await?),
        }
        self.post(message, leave).await
    }

    /// Opens the stream, and reads where the server wants to be told something.
    async fn listen(&self, leave: Leave<'_>) -> Result<Open, McpError> {
        let question = Question { credential: leave.credential.cloned(), ..Question::get(&self.url) };
        let question = question.header("accept", "text/event-stream");
        let stream = self.gatekeeper.listen(leave.permit, &question, leave.deadline).await?;
        if stream.status != 200 {
            return Err(McpError::Status(stream.status));
        }
        let said = stream.content_type.clone().unwrap_or_default();
        let kind = said.to_ascii_lowercase();
        if kind.split(';').next().unwrap_or_default().trim() != "text/event-stream" {
            return Err(McpError::Garbled(format!("`{}` is no stream of events", leave.shown(&said))));
        }
        let mut open = Open {
            stream,
            events: Events::default(),
            come: VecDeque::new(),
            heard: 0,
            endpoint: String::new(),
        };
        let first = open.next(BESIDES).await?;
        open.endpoint = endpoint(&self.url, &first)?;
        Ok(open)
    }

    async fn post(&self, message: &Value, leave: Leave<'_>) -> Result<(), McpError> {
        let Some(open) = &self.open else { return Err(lost("its stream was never opened")) };
        let headers = vec![("content-type", "application/json".to_owned())];
        let body = message.to_string().into_bytes();
        let (url, credential) = (open.endpoint.clone(), leave.credential.cloned());
        let question = Question { url, method: Method::Post, headers, body, credential };
        let caps = Caps { body_bytes: NO_WORDS, deadline: leave.deadline };
        // Whatever it says to that, it was taken or not by its status.
        let mut is_enough = |_: &[u8]| true;
        let answer = self.gatekeeper.converse(leave.permit, &question, caps, &mut is_enough).await?;
        match answer.status {
            200..=299 => Ok(()),
            other => Err(McpError::Status(other)),
        }
    }
}

impl Open {
    /// The next event, of which at most so many bytes may come.
    async fn next(&mut self, longest: usize) -> Result<Event, McpError> {
        loop {
            if let Some(event) = self.come.pop_front() {
                return Ok(event);
            }
            let part = self.stream.next().await?.ok_or_else(|| lost("it closed its stream"))?;
            self.heard = self.heard.saturating_add(part.len());
            if self.heard > longest {
                return Err(McpError::TooLong(longest));
            }
            self.come.extend(self.events.take(&part));
        }
    }
}

/// Where a server wants to be told something: an address of its own, or none.
fn endpoint(server: &str, first: &Event) -> Result<String, McpError> {
    let garbled = |why: &str| McpError::Garbled(why.to_owned());
    if first.name != b"endpoint" || first.data.len() > LONGEST_ADDRESS {
        return Err(garbled("its stream does not begin with an endpoint"));
    }
    let server = Url::parse(server).map_err(|_| garbled("its own address is none"))?;
    let named = std::str::from_utf8(&first.data).ok().and_then(|text| server.join(text.trim()).ok());
    match named {
        Some(named) if named.origin() == server.origin() => Ok(named.into()),
        _ => Err(garbled("its endpoint is not at its own address")),
    }
}

fn lost(why: &str) -> McpError {
    McpError::Lost(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_something_at_its_own_address_only() {
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
