//! A server on the network, spoken to by streamable HTTP through the gatekeeper: each message is a question, vetted like
//! any other that leaves the machine. A redirect is not followed.

use std::time::Instant;

use governance::Permit;
use outbound::{Answer, Caps, Gatekeeper, Method, Question};
use serde_json::Value;

use super::message::Message;
use crate::error::McpError;

/// More than a server's answer ever has.
const LONGEST: u64 = 16 << 20;

/// By whose permit a message goes out, and until when its answer must have come.
#[derive(Clone, Copy)]
pub(crate) struct Leave<'a> {
    pub(crate) permit: &'a Permit,
    pub(crate) deadline: Instant,
}

/// A server and what it has to be told of the conversation so far.
pub(crate) struct Http {
    gatekeeper: Gatekeeper,
    url: String,
    session: Option<String>,
    /// The revision that was agreed on, once one was.
    pub(crate) revision: Option<String>,
}

impl Http {
    pub(crate) fn new(gatekeeper: &Gatekeeper, url: &str) -> Http {
        Http { gatekeeper: gatekeeper.clone(), url: url.to_owned(), session: None, revision: None }
    }

    /// Asks, and reads the answer to that.
    pub(crate) async fn ask(
        &mut self,
        id: u64,
        request: &Value,
        leave: Leave<'_>,
    ) -> Result<Value, McpError> {
        let answer = self.post(request, leave).await?;
        if answer.is_cut {
            return Err(McpError::TooLong(answer.body.len()));
        }
        let found = messages(&answer)?.into_iter().find_map(|message| match message {
            Message::Answer(answered, answer) if answered == id => Some(answer),
            _ => None,
        });
        let found = found.ok_or_else(|| McpError::Garbled("no answer to what was asked".to_owned()))?;
        found.map_err(|(code, message)| McpError::Refused { code, message })
    }

    /// Tells it something that has no answer.
    pub(crate) async fn tell(&mut self, notice: &Value, leave: Leave<'_>) -> Result<(), McpError> {
        self.post(notice, leave).await.map(drop)
    }

    async fn post(&mut self, message: &Value, leave: Leave<'_>) -> Result<Answer, McpError> {
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("accept", "application/json, text/event-stream".to_owned()),
        ];
        // The revision that needs no handshake says in headers what is asked for, so that a gateway need not read on.
        if let Some(revision) = &self.revision {
            headers.push(("mcp-protocol-version", revision.clone()));
            let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            headers.extend(text("/method").map(|method| ("mcp-method", method)));
            headers.extend(text("/params/name").map(|name| ("mcp-name", name)));
        }
        headers.extend(self.session.clone().map(|session| ("mcp-session-id", session)));
        let body = message.to_string().into_bytes();
        let question = Question { url: self.url.clone(), method: Method::Post, headers, body };
        let most = leave.permit.max_response_bytes().unwrap_or(LONGEST).min(LONGEST);
        let caps = Caps { body_bytes: most, deadline: leave.deadline };
        let answer = self.gatekeeper.ask(leave.permit, &question, caps).await?;
        match answer.status {
            200..=299 => {}
            // Errors of the protocol may come with a status of their own.
            400 if matches!(messages(&answer).as_deref(), Ok([Message::Answer(..)])) => {}
            404 if self.session.is_some() => return Err(McpError::Lost("it forgot the session".to_owned())),
            other => return Err(McpError::Status(other)),
        }
        self.session = answer.mcp_session.clone().or(self.session.take());
        Ok(answer)
    }
}

/// The messages of an answer: one as JSON, or each as an event.
fn messages(answer: &Answer) -> Result<Vec<Message>, McpError> {
    if !answer.codings.is_empty() {
        return Err(McpError::Garbled("it is packed, which nobody asked for".to_owned()));
    }
    let kind = answer.content_type.as_deref().unwrap_or_default().to_ascii_lowercase();
    match kind.split(';').next().unwrap_or_default().trim() {
        "application/json" => Message::parse(&answer.body).map(|message| vec![message]),
        "text/event-stream" => {
            let text = String::from_utf8_lossy(&answer.body);
            events(&text).iter().map(|data| Message::parse(data.as_bytes())).collect()
        }
        other => Err(McpError::Garbled(format!("`{}` is no form of an answer", tool::shorten(other, 64)))),
    }
}

/// The data of each event of a stream.
fn events(text: &str) -> Vec<String> {
    let (mut all, mut data) = (Vec::new(), Vec::new());
    for line in text.lines().chain([""]) {
        if let Some(part) = line.strip_prefix("data:") {
            data.push(part.strip_prefix(' ').unwrap_or(part));
        } else if line.is_empty() && !data.is_empty() {
            let event = data.join("\n");
            data.clear();
            // Some begin a stream with an event that says nothing.
            all.extend(Some(event).filter(|event| !event.trim().is_empty()));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_line_by_line() {
        let check = |text: &str, expect: &[&str]| assert_eq!(events(text), expect, "{text:?}");
        check("event: message\ndata: {\"a\":1}\n\n", &["{\"a\":1}"]);
        check("data: one\ndata:two\r\n\r\n: note\ndata: three", &["one\ntwo", "three"]);
        check("id: 1\ndata:\n\n", &[]);
        check("", &[]);
    }
}
