//! Handles the messages of a server while a response is pending: the response itself, requests of the server,
//! which are answered, and other messages, which are ignored. The number of messages is limited.

use serde_json::Value;
use tool::ProgressNote;

use super::http::McpRequestContext;
use super::message::{PendingResponse, ServerMessage, reply_to_server};
use crate::error::McpError;

/// Limit of messages before a response. Progress notifications are permitted, but not without end.
const MAX_MESSAGES: usize = 10_000;
/// Limit of server requests answered while one of ours is pending.
const MAX_SERVER_REQUESTS: usize = 64;

/// Message counts since a request was sent.
pub(crate) struct ResponseWait {
    awaited: PendingResponse,
    messages: usize,
    requests: usize,
}

/// Meaning of a message.
pub(crate) enum ReceivedMessage {
    /// Result of the pending request.
    Response(Value),
    /// Request of the server, with the reply to send.
    ServerRequest(Value),
    /// Progress of the pending request.
    Progress(ProgressNote),
    /// Message that needs no action.
    Ignored,
}

impl ResponseWait {
    pub(crate) fn new(awaited: PendingResponse) -> Self {
        ResponseWait { awaited, messages: 0, requests: 0 }
    }

    /// Processes a message.
    pub(crate) async fn receive(&mut self, message: Vec<u8>) -> Result<ReceivedMessage, McpError> {
        self.count_ignored()?;
        match ServerMessage::parse_offloaded(message, self.awaited).await? {
            ServerMessage::Response(Ok(response)) => Ok(ReceivedMessage::Response(response)),
            ServerMessage::Response(Err((code, message))) => Err(McpError::RpcError { code, message }),
            ServerMessage::Request(id, method) if self.requests < MAX_SERVER_REQUESTS => {
                self.requests += 1;
                Ok(ReceivedMessage::ServerRequest(reply_to_server(&id, &method)))
            }
            ServerMessage::Progress(note) => Ok(ReceivedMessage::Progress(note)),
            ServerMessage::Request(..) | ServerMessage::Other => Ok(ReceivedMessage::Ignored),
        }
    }

    /// Counts a message that is ignored.
    pub(crate) fn count_ignored(&mut self) -> Result<(), McpError> {
        self.messages += 1;
        match self.messages > MAX_MESSAGES {
            true => Err(McpError::EndlessMessages("ten thousand messages")),
            false => Ok(()),
        }
    }
}

/// Network transport on which the messages of the server arrive one by one.
pub(crate) trait MessageStream {
    /// Connects if necessary, and begins an exchange in which a response of at most `max` bytes is expected.
    async fn begin(&mut self, max: usize, context: McpRequestContext<'_>) -> Result<(), McpError>;

    /// Sends a message.
    async fn send(&mut self, message: &Value, context: McpRequestContext<'_>) -> Result<(), McpError>;

    /// Returns the next message, or `None` for an event that is not a message.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, McpError>;

    /// Sends a request and waits for its response. Other messages are answered or ignored meanwhile.
    async fn send_and_wait(
        &mut self,
        awaited: PendingResponse,
        request: &Value,
        context: McpRequestContext<'_>,
    ) -> Result<Value, McpError> {
        self.begin(awaited.max_bytes, context).await?;
        self.send(request, context).await?;
        let mut response_wait = ResponseWait::new(awaited);
        loop {
            let Some(message) = self.next().await? else {
                response_wait.count_ignored()?;
                continue;
            };
            match response_wait.receive(message).await? {
                ReceivedMessage::Response(response) => return Ok(response),
                ReceivedMessage::ServerRequest(reply) => self.send(&reply, context).await?,
                ReceivedMessage::Progress(note) => context.report_progress(note),
                ReceivedMessage::Ignored => {}
            }
        }
    }

    /// Sends a notification.
    async fn notify(&mut self, notice: &Value, context: McpRequestContext<'_>) -> Result<(), McpError> {
        self.begin(0, context).await?;
        self.send(notice, context).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWAITED: PendingResponse = PendingResponse { id: 7, max_bytes: 100 };

    #[tokio::test]
    async fn messages_before_a_response_are_limited() {
        let mut response_wait = ResponseWait::new(AWAITED);
        for n in 0..MAX_SERVER_REQUESTS + 5 {
            let received = response_wait.receive(br#"{"id":"a","method":"ping"}"#.to_vec()).await.unwrap();
            assert_eq!(matches!(received, ReceivedMessage::ServerRequest(_)), n < MAX_SERVER_REQUESTS, "{n}");
        }
        let answer = response_wait.receive(br#"{"id":7,"result":{"n":1}}"#.to_vec()).await;
        assert!(matches!(answer, Ok(ReceivedMessage::Response(answer)) if answer["n"] == 1));
        while response_wait.messages < MAX_MESSAGES {
            response_wait.count_ignored().unwrap();
        }
        let end = response_wait.receive(br#"{"id":7,"result":{}}"#.to_vec()).await;
        assert!(matches!(end, Err(McpError::EndlessMessages(_))));
    }
}
