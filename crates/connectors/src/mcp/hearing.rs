//! What a server says while its answer is waited for: that answer, requests of its own, which are answered, and the rest,
//! which is passed over. It may say a lot of it, but not for ever.

use serde_json::Value;

use super::message::{Awaited, Message, reply};
use crate::error::McpError;

/// What a server may say before it answers: it may report progress, but not for ever.
const MOST_MESSAGES: usize = 10_000;
/// Requests of its own that are answered during one of ours.
const MOST_REQUESTS: usize = 64;

/// What has been heard since something was asked.
pub(crate) struct Hearing {
    awaited: Awaited,
    messages: usize,
    requests: usize,
}

/// What a message turned out to be.
pub(crate) enum Heard {
    /// What was waited for.
    Answer(Value),
    /// A request, and what is to be said to it.
    Asked(Value),
    /// Nothing that matters.
    Nothing,
}

impl Hearing {
    pub(crate) fn new(awaited: Awaited) -> Self {
        Hearing { awaited, messages: 0, requests: 0 }
    }

    /// Takes a message.
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

    /// Takes one that need not be read.
    pub(crate) fn pass_over(&mut self) -> Result<(), McpError> {
        self.messages += 1;
        match self.messages > MOST_MESSAGES {
            true => Err(McpError::Endless("ten thousand messages")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWAITED: Awaited = Awaited { id: 7, most: 100 };

    #[tokio::test]
    async fn a_server_asks_and_tells_only_so_often_before_it_answers() {
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
