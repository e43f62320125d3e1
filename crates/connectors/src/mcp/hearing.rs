//! Handles the messages of a server while a response is pending: the response itself, requests of the server,
//! which are answered, and other messages, which are ignored. The number of messages is limited.

use serde_json::Value;

use super::http::Leave;
use super::message::{Awaited, Message, reply};
use crate::error::McpError;

/// Limit of messages before a response. Progress notifications are permitted, but not without end.
const MOST_MESSAGES: usize = 10_000;
/// Limit of server requests answered while one of ours is pending.
const MOST_REQUESTS: usize = 64;

/// Message counts since a request was sent.
pub(crate) struct Hearing {
    awaited: Awaited,
    messages: usize,
    requests: usize,
}

/// Meaning of a message.
pub(crate) enum Heard {
    /// Result of the pending request.
    Answer(Value),
    /// Request of the server, with the reply to send.
    Asked(Value),
    /// Message that needs no action.
    Nothing,
}

impl Hearing {
    pub(crate) fn new(awaited: Awaited) -> Self {
        Hearing { awaited, messages: 0, requests: 0 }
    }

    /// Processes a message.
    pub(crate) async fn take(&mut self, message: Vec<u8>) -> Result<Heard, McpError> {
        self.pass_over()?;
        match Message::read(message, self.awaited).await? {
            Message::Answer(Ok(answer)) => Ok(Heard::Answer(answer)),
            Message::Answer(Err((code, message))) => Err(McpError::Refused { code, message }),
            Message::Request(id, method) if self.requests < MOST_REQUESTS => {
                self.requests += 1;
                Ok(Heard::Asked(reply(&id, &method)))
            }
            Message::Request(..) | Message::Other => Ok(Heard::Nothing),
        }
    }

    /// Counts a message that is ignored.
    pub(crate) fn pass_over(&mut self) -> Result<(), McpError> {
        self.messages += 1;
        match self.messages > MOST_MESSAGES {
            true => Err(McpError::Endless("ten thousand messages")),
            false => Ok(()),
        }
    }
}

/// Network transport on which the messages of the server arrive one by one.
pub(crate) trait MessageStream {
    /// Connects if necessary, and begins an exchange in which a response of at most `most` bytes is expected.
    async fn begin(&mut self, most: usize, leave: Leave<'_>) -> Result<(), McpError>;

    /// Sends a message.
    async fn send(&mut self, message: &Value, leave: Leave<'_>) -> Result<(), McpError>;

    /// Returns the next message, or `None` for an event that is not a message.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, McpError>;

    /// Sends a request and waits for its response. Other messages are answered or ignored meanwhile.
    async fn ask(&mut self, awaited: Awaited, request: &Value, leave: Leave<'_>) -> Result<Value, McpError> {
        self.begin(awaited.most, leave).await?;
        self.send(request, leave).await?;
        let mut hearing = Hearing::new(awaited);
        loop {
            let Some(message) = self.next().await? else {
                hearing.pass_over()?;
                continue;
            };
            match hearing.take(message).await? {
                Heard::Answer(answer) => return Ok(answer),
                Heard::Asked(reply) => self.send(&reply, leave).await?,
                Heard::Nothing => {}
            }
        }
    }

    /// Sends a notification.
    async fn tell(&mut self, notice: &Value, leave: Leave<'_>) -> Result<(), McpError> {
        self.begin(0, leave).await?;
        self.send(notice, leave).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWAITED: Awaited = Awaited { id: 7, most: 100 };

    #[tokio::test]
    async fn messages_before_a_response_are_limited() {
        let mut hearing = Hearing::new(AWAITED);
        for n in 0..MOST_REQUESTS + 5 {
            let heard = hearing.take(br#"{"id":"a","method":"ping"}"#.to_vec()).await.unwrap();
            assert_eq!(matches!(heard, Heard::Asked(_)), n < MOST_REQUESTS, "{n}");
        }
        let answer = hearing.take(br#"{"id":7,"result":{"n":1}}"#.to_vec()).await;
        assert!(matches!(answer, Ok(Heard::Answer(answer)) if answer["n"] == 1));
        while hearing.messages < MOST_MESSAGES {
            hearing.pass_over().unwrap();
        }
        let end = hearing.take(br#"{"id":7,"result":{}}"#.to_vec()).await;
        assert!(matches!(end, Err(McpError::Endless(_))));
    }
}
