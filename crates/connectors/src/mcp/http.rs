//! A server on the network, spoken to by streamable HTTP through the gatekeeper: each message is a question, vetted like
//! any other that leaves the machine. A redirect is not followed.

use std::time::Instant;

use governance::Permit;
use outbound::{Answer, Caps, Credential, Gatekeeper, Method, Question};
use serde_json::Value;
use tool::{shorten, visible_line};

use super::events::Events;
use super::message::{Awaited, Message, answers};
use crate::error::McpError;

/// What an answer has besides its result: what else the server tells meanwhile.
const BESIDES: u64 = 1 << 20;

/// By whose permit and with which key a message goes out, and until when its answer must have come.
#[derive(Clone, Copy)]
pub(crate) struct Leave<'a> {
    pub(crate) permit: &'a Permit,
    pub(crate) deadline: Instant,
    pub(crate) credential: Option<&'a Credential>,
}

impl Leave<'_> {
    /// A short form of what a server says in place of a kind of content. The key is looked for first: in what is cut or
    /// written in other letters it is not found.
    pub(crate) fn shown(&self, said: &str) -> String {
        let masked = self.credential.and_then(|credential| credential.masked(said));
        visible_line(&shorten(masked.as_deref().unwrap_or(said), 64))
    }
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
        awaited: Awaited,
        request: &Value,
        leave: Leave<'_>,
    ) -> Result<Value, McpError> {
        let answer = self.post(request, awaited, leave).await?;
        if answer.is_cut {
            return Err(McpError::TooLong(answer.body.len()));
        }
        for message in messages(answer, leave)? {
            if let Message::Answer(answer) = Message::read(message, awaited).await? {
                return answer.map_err(|(code, message)| McpError::Refused { code, message });
            }
        }
        Err(McpError::Garbled("no answer to what was asked".to_owned()))
    }

    /// Tells it something that has no answer.
    pub(crate) async fn tell(&mut self, notice: &Value, leave: Leave<'_>) -> Result<(), McpError> {
        // A notice has no number, so nothing is an answer to it.
        self.post(notice, Awaited { id: u64::MAX, most: 0 }, leave).await.map(drop)
    }

    async fn post(
        &mut self,
        message: &Value,
        awaited: Awaited,
        leave: Leave<'_>,
    ) -> Result<Answer, McpError> {
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
        let credential = leave.credential.cloned();
        let question = Question { url: self.url.clone(), method: Method::Post, headers, body, credential };
        let most = u64::try_from(awaited.most).unwrap_or(u64::MAX).saturating_add(BESIDES);
        let most = leave.permit.max_response_bytes().unwrap_or(most).min(most);
        let caps = Caps { body_bytes: most, deadline: leave.deadline };
        let mut events = Events::default();
        let mut is_answered =
            |part: &[u8]| events.take(part).iter().any(|event| answers(&event.data, awaited.id));
        let answer = self.gatekeeper.converse(leave.permit, &question, caps, &mut is_answered).await?;
        match answer.status {
            200..=299 => {}
            // Errors of the protocol may come with a status of their own.
            400 if answers(&answer.body, awaited.id) => {}
            404 if self.session.is_some() => return Err(McpError::Lost("it forgot the session".to_owned())),
            other => return Err(McpError::Status(other)),
        }
        self.session = answer.mcp_session.clone().or(self.session.take());
        Ok(answer)
    }
}

/// The messages of an answer: one as JSON, or each as an event.
fn messages(answer: Answer, leave: Leave<'_>) -> Result<Vec<Vec<u8>>, McpError> {
    if !answer.codings.is_empty() {
        return Err(McpError::Garbled("it is packed, which nobody asked for".to_owned()));
    }
    let said = answer.content_type.as_deref().unwrap_or_default();
    let kind = said.to_ascii_lowercase();
    match kind.split(';').next().unwrap_or_default().trim() {
        "application/json" => Ok(vec![answer.body]),
        "text/event-stream" => {
            let mut events = Events::default();
            let mut all = events.take(&answer.body);
            all.extend(events.take(b"\n\n"));
            Ok(all.into_iter().map(|event| event.data).collect())
        }
        _ => Err(McpError::Garbled(format!("`{}` is no form of an answer", leave.shown(said)))),
    }
}
