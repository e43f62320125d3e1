//! The messages of JSON-RPC, as far as a client has to tell them apart. What a server sends is a stranger's text: it is
//! parsed, bounded in depth by the parser, and nothing in it is acted on but the answer that was waited for.

use serde_json::{Value, json};

use crate::error::McpError;

/// What a server sent.
#[derive(Debug, PartialEq)]
pub(crate) enum Message {
    /// The answer to the request of this number.
    Answer(u64, Result<Value, (i64, String)>),
    /// A request of its own, which has to be answered.
    Request(Value, String),
    /// Something it tells.
    Notice(String),
}

/// Longer words of an error than these are not handed on.
const LONGEST_WORDS: usize = 600;

impl Message {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Message, McpError> {
        let garbled = |why: &str| McpError::Garbled(why.to_owned());
        let message: Value = serde_json::from_slice(bytes).map_err(|_| garbled("not JSON"))?;
        Message::of(message).ok_or_else(|| garbled("neither an answer nor a request"))
    }

    pub(crate) fn of(mut message: Value) -> Option<Message> {
        let fields = message.as_object_mut()?;
        let id = fields.remove("id").filter(|id| !id.is_null());
        match (fields.remove("method"), id) {
            (Some(Value::String(method)), Some(id)) => Some(Message::Request(id, method)),
            (Some(Value::String(method)), None) => Some(Message::Notice(method)),
            (None, Some(id)) => {
                let answer = match (fields.remove("result"), fields.remove("error")) {
                    (Some(result), None) => Ok(result),
                    (None, Some(error)) => Err(words_of(&error)),
                    _ => return None,
                };
                Some(Message::Answer(id.as_u64()?, answer))
            }
            _ => None,
        }
    }
}

fn words_of(error: &Value) -> (i64, String) {
    let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
    let message = tool::visible(message).chars().take(LONGEST_WORDS).collect();
    (error.get("code").and_then(Value::as_i64).unwrap_or_default(), message)
}

/// What is said to a request of the server: Sinew lends it no model, no folder and no person.
pub(crate) fn reply(id: &Value, method: &str) -> Value {
    match method {
        "ping" => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
        _ => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "not offered by this client"}})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart_and_anything_else_is_none() {
        let check = |text: &str, expect: Option<Message>| {
            assert_eq!(Message::parse(text.as_bytes()).ok(), expect, "{text}");
        };
        check(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, Some(Message::Answer(7, Ok(json!({})))));
        check(
            r#"{"id":7,"error":{"code":-32601,"message":"no\u001b[31m"}}"#,
            Some(Message::Answer(7, Err((-32601, "no\\u{1b}[31m".to_owned())))),
        );
        check(r#"{"id":"a","method":"ping"}"#, Some(Message::Request(json!("a"), "ping".to_owned())));
        check(r#"{"method":"n","params":{}}"#, Some(Message::Notice("n".to_owned())));
        for bad in
            ["", "[]", "{}", "{\"id\":1}", r#"{"id":1,"result":1,"error":{}}"#, r#"{"id":"x","result":1}"#]
        {
            check(bad, None);
        }
        check(&"[".repeat(100_000), None);
    }
}
