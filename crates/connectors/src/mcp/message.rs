//! JSON-RPC messages of a server. The text is untrusted: a message that is not awaited is only classified,
//! and a result is parsed into a value only if it is within the limits.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::error::McpError;
use crate::parsed::{self, Unfit};

/// Message from a server.
#[derive(Debug, PartialEq)]
pub(crate) enum Message {
    /// Response to the pending request.
    Answer(Result<Value, (i64, String)>),
    /// Request of the server, which needs a reply.
    Request(Value, String),
    /// Notification, or a response to another request.
    Other,
}

/// Pending request: its id and the size limit of the message with its result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awaited {
    pub(crate) id: u64,
    pub(crate) most: usize,
}

/// Length limit of an error message in a failure.
const LONGEST_WORDS: usize = 600;
/// Size limit of a message with an error. A larger one is not parsed.
const LONGEST_ERROR: usize = 64 * 1024;
/// Length limit of a request id. A request with a longer one is ignored.
const LONGEST_ID: usize = 256;
/// Size above which a message is parsed on the blocking pool, so that it does not stall other connections.
const AT_ONCE: usize = 64 * 1024;

/// Message with unparsed members.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default)]
    id: Option<Id>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "present")]
    result: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "present")]
    error: Option<IgnoredAny>,
}

/// Keeps a `null` member as present: `null` is a valid result.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<IgnoredAny>, D::Error> {
    IgnoredAny::deserialize(from).map(Some)
}

/// Id of a message. A list or an object is not an id and is read as `null`, whatever its size.
struct Id(Value);

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor).map(Id)
    }
}

struct IdVisitor;

impl<'de> Visitor<'de> for IdVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(if text.len() <= LONGEST_ID { text.into() } else { Value::Null })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }
}

impl Message {
    /// Parses a message, a large one on the blocking pool.
    pub(crate) async fn read(bytes: Vec<u8>, awaited: Awaited) -> Result<Message, McpError> {
        if bytes.len() <= AT_ONCE {
            return Message::parse(&bytes, awaited);
        }
        let parsed = tokio::task::spawn_blocking(move || Message::parse(&bytes, awaited));
        parsed.await.unwrap_or_else(|_| Err(McpError::Garbled("it could not be parsed".to_owned())))
    }

    pub(crate) fn parse(bytes: &[u8], awaited: Awaited) -> Result<Message, McpError> {
        let envelope = envelope(bytes)?;
        let number = envelope.id.map(|Id(id)| (id.as_u64(), id));
        Ok(match (envelope.method, number, envelope.result, envelope.error) {
            (Some(method), Some((_, id)), ..) => request(id, method),
            (Some(_), None, ..) => Message::Other,
            (None, Some((Some(number), _)), Some(_), None) if number == awaited.id => {
                Message::Answer(Ok(result(bytes, awaited.most)?))
            }
            (None, Some((Some(number), _)), None, Some(_)) if number == awaited.id => {
                Message::Answer(Err(words_of_error(bytes)))
            }
            (None, Some((Some(_), _)), Some(_), None) | (None, Some((Some(_), _)), None, Some(_)) => {
                Message::Other
            }
            _ => return Err(garbled("neither a response nor a request")),
        })
    }
}

/// Returns true if a message is the response to this request.
pub(crate) fn answers(bytes: &[u8], id: u64) -> bool {
    envelope(bytes).is_ok_and(|one| {
        let is_its = one.id.is_some_and(|Id(given)| given.as_u64() == Some(id));
        is_its && one.method.is_none() && (one.result.is_some() || one.error.is_some())
    })
}

fn envelope(bytes: &[u8]) -> Result<Envelope<'_>, McpError> {
    // Serde would read an array of four as the four fields.
    match bytes.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice(bytes).map_err(|_| garbled("not a message")),
        _ => Err(garbled("not a message")),
    }
}

fn garbled(why: &str) -> McpError {
    McpError::Garbled(why.to_owned())
}

fn request(id: Value, method: Cow<'_, str>) -> Message {
    match id {
        Value::String(_) | Value::Number(_) => Message::Request(id, method.into_owned()),
        _ => Message::Other,
    }
}

/// Parses the result of a message of at most `most` bytes.
fn result(bytes: &[u8], most: usize) -> Result<Value, McpError> {
    if bytes.len() > most {
        return Err(McpError::TooLong(most));
    }
    member(bytes, "result").map_err(|unfit| match unfit {
        Unfit::TooMany => McpError::TooMany(parsed::MOST_VALUES),
        Unfit::NotJson => garbled("not JSON, or nested too deeply"),
    })
}

fn member(bytes: &[u8], name: &str) -> Result<Value, Unfit> {
    let mut message = parsed::value(bytes)?;
    Ok(message.get_mut(name).map(Value::take).unwrap_or_default())
}

fn words_of_error(bytes: &[u8]) -> (i64, String) {
    let is_short = bytes.len() <= LONGEST_ERROR;
    let error = is_short.then(|| member(bytes, "error").ok()).flatten().unwrap_or_default();
    let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
    let message = tool::visible(message).chars().take(LONGEST_WORDS).collect();
    (error.get("code").and_then(Value::as_i64).unwrap_or_default(), message)
}

/// Builds the reply to a request of the server. Sampling, roots and elicitation are not supported.
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

    const AWAITED: Awaited = Awaited { id: 7, most: 1000 };

    #[test]
    fn messages_are_classified_and_others_refused() {
        let check = |text: &str, expect: Option<Message>| {
            assert_eq!(Message::parse(text.as_bytes(), AWAITED).ok(), expect, "{text}");
        };
        check(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, Some(Message::Answer(Ok(json!({})))));
        check(r#"{"id":7,"result":null}"#, Some(Message::Answer(Ok(json!(null)))));
        check(r#"{"id":8,"result":{}}"#, Some(Message::Other));
        check(
            r#"{"id":7,"error":{"code":-32601,"message":"no\u001b[31m"}}"#,
            Some(Message::Answer(Err((-32601, "no\\u{1b}[31m".to_owned())))),
        );
        check(r#"{"id":"a","method":"ping"}"#, Some(Message::Request(json!("a"), "ping".to_owned())));
        check(r#"{"id":{"a":1},"method":"ping"}"#, Some(Message::Other));
        check(&format!(r#"{{"id":"{}","method":"ping"}}"#, "i".repeat(300)), Some(Message::Other));
        check(r#"{"method":"n","params":{}}"#, Some(Message::Other));
        check(r#"{"method":"notifications/tools/list_changed","id":null}"#, Some(Message::Other));
        for bad in [
            "",
            "[]",
            "{}",
            "{\"id\":1}",
            r#"[7,null,{},null]"#,
            r#"{"id":7,"id":8,"result":{}}"#,
            r#"{"id":7,"result":1,"result":2}"#,
            r#"{"id":1,"result":1,"error":{}}"#,
            r#"{"id":"x","result":1}"#,
        ] {
            check(bad, None);
        }
        check(&"[".repeat(100_000), None);
    }

    #[test]
    fn only_the_awaited_result_is_parsed_within_limits() {
        let is_too_much = |text: &str| {
            let error = Message::parse(text.as_bytes(), AWAITED).err();
            matches!(error, Some(McpError::TooLong(1000) | McpError::TooMany(_)))
        };
        assert!(is_too_much(&format!(r#"{{"id":7,"result":"{}"}}"#, "x".repeat(1000))));
        let zeros = format!(r#"{{"id":7,"result":[{}0]}}"#, "0,".repeat(parsed::MOST_VALUES));
        let error = Message::parse(zeros.as_bytes(), Awaited { id: 7, most: usize::MAX });
        assert!(matches!(error, Err(McpError::TooMany(_))), "{error:?}");
        // Nested too deeply for a value: parsing it would fail.
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        for passed_over in [
            format!(r#"{{"id":8,"result":{deep}}}"#),
            format!(r#"{{"method":"n","params":{deep}}}"#),
            format!(r#"{{"id":8,"result":"{}"}}"#, "x".repeat(1000)),
        ] {
            assert_eq!(Message::parse(passed_over.as_bytes(), AWAITED).ok(), Some(Message::Other));
        }
        let long = format!(r#"{{"id":7,"error":{{"message":"{}"}}}}"#, "x".repeat(LONGEST_ERROR));
        let words = Message::Answer(Err((0, "no reason given".to_owned())));
        assert_eq!(Message::parse(long.as_bytes(), AWAITED).ok(), Some(words));
    }

    #[test]
    fn a_response_is_matched_by_its_id() {
        assert!(answers(br#"{"id":7,"result":null}"#, 7) && answers(br#"{"id":7,"error":{}}"#, 7));
        for other in [
            r#"{"id":8,"result":1}"#,
            r#"{"id":7,"method":"m"}"#,
            r#"{"id":7}"#,
            "7",
            r#"{"id":"7","result":1}"#,
        ] {
            assert!(!answers(other.as_bytes(), 7), "{other}");
        }
    }
}
