//! Streamable HTTP transport through the outbound gateway. Each message is a separate request that the
//! gateway checks. Redirects are not followed.

use std::time::Instant;

use governance::Permit;
use outbound::{Caps, Credential, Gatekeeper, HttpRequest, HttpResponse, Method};
use serde_json::Value;
use tool::{shorten, visible_line};

use super::events::Events;
use super::message::{Awaited, Message, answers};
use crate::error::McpError;

/// Allowance for other messages in a response besides the result.
const BESIDES: u64 = 1 << 20;

/// Permit, key and deadline of a message.
#[derive(Clone, Copy)]
pub(crate) struct Leave<'a> {
    pub(crate) permit: &'a Permit,
    pub(crate) deadline: Instant,
    pub(crate) credential: Option<&'a Credential>,
}

impl Leave<'_> {
    /// Shortens text of the server for an error message. The key is masked first, because it would not be
    /// recognised after the text is shortened or escaped.
    pub(crate) fn shown(&self, said: &str) -> String {
        let masked = self.credential.and_then(|credential| credential.masked(said));
        visible_line(&shorten(masked.as_deref().unwrap_or(said), 64))
    }
}

/// Endpoint and session of a connection.
pub(crate) struct Http {
    gatekeeper: Gatekeeper,
    url: String,
    session: Option<String>,
    /// Protocol revision, once agreed.
    pub(crate) revision: Option<String>,
}

impl Http {
    pub(crate) fn new(gatekeeper: &Gatekeeper, url: &str) -> Http {
        Http { gatekeeper: gatekeeper.clone(), url: url.to_owned(), session: None, revision: None }
    }

    /// Sends a request and reads its response.
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
        Err(McpError::Garbled("the response to the request is missing".to_owned()))
    }

    /// Sends a notification.
    pub(crate) async fn tell(&mut self, notice: &Value, leave: Leave<'_>) -> Result<(), McpError> {
        // A notification has no id, so no response can match.
        self.post(notice, Awaited { id: u64::MAX, most: 0 }, leave).await.map(drop)
    }

    async fn post(
        &mut self,
        message: &Value,
        awaited: Awaited,
        leave: Leave<'_>,
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
        let credential = leave.credential.cloned();
        let question = HttpRequest { url: self.url.clone(), method: Method::Post, headers, body, credential };
        let most = u64::try_from(awaited.most).unwrap_or(u64::MAX).saturating_add(BESIDES);
        let most = leave.permit.max_response_bytes().unwrap_or(most).min(most);
        let caps = Caps { body_bytes: most, deadline: leave.deadline };
        let mut events = Events::default();
        let mut is_answered =
            |part: &[u8]| events.take(part).iter().any(|event| answers(&event.data, awaited.id));
        let answer = self.gatekeeper.converse(leave.permit, &question, caps, &mut is_answered).await?;
        match answer.status {
            200..=299 => {}
            // A JSON-RPC error may come with this status.
            400 if answers(&answer.body, awaited.id) => {}
            404 if self.session.is_some() => {
                return Err(McpError::Lost("the server ended the session".to_owned()));
            }
            other => return Err(McpError::Status(other)),
        }
        self.session = answer.mcp_session.clone().or(self.session.take());
        Ok(answer)
    }
}

/// Splits a response body into messages: one JSON document, or server-sent events.
fn messages(answer: HttpResponse, leave: Leave<'_>) -> Result<Vec<Vec<u8>>, McpError> {
    if !answer.codings.is_empty() {
        return Err(McpError::Garbled("it has a content encoding that was not requested".to_owned()));
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
        _ => Err(McpError::Garbled(format!("unsupported content type `{}`", leave.shown(said)))),
    }
}
