//! JSON-RPC messages of a server. The text is untrusted: a message that is not awaited is only classified,
//! and a result is parsed into a value only if it is within the limits.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tool::ProgressNote;

use crate::bounded_json::{self, JsonRejection};
use crate::error::McpError;

/// Message from a server.
#[derive(Debug, PartialEq)]
pub(crate) enum ServerMessage {
    /// Response to the pending request.
    Response(Result<Value, (i64, String)>),
    /// Request of the server, which needs a reply.
    Request(Value, String),
    /// Progress of the pending request.
    Progress(ProgressNote),
    /// Other notification, or a response to another request.
    Other,
}

/// Awaited response: id of its request, and size limit of the message that contains it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingResponse {
    pub(crate) id: u64,
    pub(crate) max_bytes: usize,
}

/// Length limit of an error message in a failure.
const MAX_ERROR_CHARS: usize = 600;
/// Size limit of a message with an error. A larger one is not parsed.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// Size limit of a progress notification. A larger one is ignored.
const MAX_PROGRESS_BYTES: usize = 16 * 1024;
/// Length limit of a request id. A request with a longer one is ignored.
const MAX_ID_BYTES: usize = 256;
/// Size above which a message is parsed on the blocking pool, so that it does not stall other connections.
const MAX_INLINE_PARSE_BYTES: usize = 64 * 1024;

/// Message with unparsed members.
#[derive(Deserialize)]
struct ServerMessageEnvelope<'a> {
    #[serde(default)]
    id: Option<Id>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "some_if_present")]
    result: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "some_if_present")]
    error: Option<IgnoredAny>,
}

/// Returns `Some` for a member that is `null` as well: `null` is a valid result.
fn some_if_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<IgnoredAny>, D::Error> {
    IgnoredAny::deserialize(deserializer).map(Some)
}

/// Id of a message. A value that cannot be an id (a boolean, a list, an object, or a text longer than
/// `MAX_ID_BYTES`) is read as `null`.
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
        Ok(if text.len() <= MAX_ID_BYTES { text.into() } else { Value::Null })
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

impl ServerMessage {
    /// Parses a message. A large one is parsed on the blocking pool.
    pub(crate) async fn parse_offloaded(
        bytes: Vec<u8>,
        awaited: PendingResponse,
    ) -> Result<ServerMessage, McpError> {
        if bytes.len() <= MAX_INLINE_PARSE_BYTES {
            return ServerMessage::parse(&bytes, awaited);
        }
        let parsed = tokio::task::spawn_blocking(move || ServerMessage::parse(&bytes, awaited));
        parsed.await.unwrap_or_else(|_| {
            Err(McpError::ProtocolViolation("the message could not be parsed".to_owned()))
        })
    }

    pub(crate) fn parse(bytes: &[u8], awaited: PendingResponse) -> Result<ServerMessage, McpError> {
        let envelope = parse_envelope(bytes)?;
        let number = envelope.id.map(|Id(id)| (id.as_u64(), id));
        Ok(match (envelope.method, number, envelope.result, envelope.error) {
            (Some(method), Some((_, id)), ..) => classify_request(id, method),
            (Some(_), None, ..) => {
                parse_progress(bytes, awaited.id).map_or(ServerMessage::Other, ServerMessage::Progress)
            }
            (None, Some((Some(number), _)), Some(_), None) if number == awaited.id => {
                ServerMessage::Response(Ok(parse_result(bytes, awaited.max_bytes)?))
            }
            (None, Some((Some(number), _)), None, Some(_)) if number == awaited.id => {
                ServerMessage::Response(Err(parse_error(bytes)))
            }
            (None, Some((Some(_), _)), Some(_), None) | (None, Some((Some(_), _)), None, Some(_)) => {
                ServerMessage::Other
            }
            _ => return Err(protocol_violation("neither a response nor a request")),
        })
    }
}

/// Returns true if a message is the response to this request.
pub(crate) fn is_response_to(bytes: &[u8], id: u64) -> bool {
    parse_envelope(bytes).is_ok_and(|envelope| {
        let has_same_id = envelope.id.is_some_and(|Id(received)| received.as_u64() == Some(id));
        has_same_id && envelope.method.is_none() && (envelope.result.is_some() || envelope.error.is_some())
    })
}

/// Reads the progress notification of a request, if the message is one. A large message is not parsed.
pub(crate) fn parse_progress(bytes: &[u8], token: u64) -> Option<ProgressNote> {
    if bytes.len() > MAX_PROGRESS_BYTES {
        return None;
    }
    let message = bounded_json::parse_bounded(bytes).ok()?;
    if message.get("method")? != "notifications/progress" || message.get("id").is_some() {
        return None;
    }
    let params = message.get("params")?;
    if params.get("progressToken")?.as_u64() != Some(token) {
        return None;
    }
    let amount = |key: &str| params.get(key)?.as_f64().filter(|amount| amount.is_finite() && *amount >= 0.0);
    // Fractions are counted in thousandths, because a note counts in whole numbers.
    let (done, total) = (amount("progress"), amount("total").filter(|total| *total > 0.0));
    let whole = |amount: f64| amount.fract() == 0.0;
    let scale = if [done, total].into_iter().flatten().all(whole) { 1.0 } else { 1000.0 };
    let text = params.get("message").and_then(Value::as_str).unwrap_or_default();
    Some(ProgressNote {
        message: tool::text::escape_invisible_line(&tool::text::shorten(text, MAX_ERROR_CHARS)),
        done_of_total: done.zip(total).map(|(done, total)| ((done * scale) as u64, (total * scale) as u64)),
        data: None,
    })
}

fn parse_envelope(bytes: &[u8]) -> Result<ServerMessageEnvelope<'_>, McpError> {
    // Serde would read an array of four as the four fields.
    match bytes.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice(bytes).map_err(|_| protocol_violation("not a message")),
        _ => Err(protocol_violation("not a message")),
    }
}

fn protocol_violation(reason: &str) -> McpError {
    McpError::ProtocolViolation(reason.to_owned())
}

fn classify_request(id: Value, method: Cow<'_, str>) -> ServerMessage {
    match id {
        Value::String(_) | Value::Number(_) => ServerMessage::Request(id, method.into_owned()),
        _ => ServerMessage::Other,
    }
}

/// Parses the result of a message of at most `max_bytes` bytes.
fn parse_result(bytes: &[u8], max_bytes: usize) -> Result<Value, McpError> {
    if bytes.len() > max_bytes {
        return Err(McpError::MessageTooLong(max_bytes));
    }
    parse_member(bytes, "result").map_err(|rejection| match rejection {
        JsonRejection::TooManyValues => McpError::TooManyValues(bounded_json::MAX_JSON_VALUES),
        JsonRejection::NotJson => protocol_violation("not JSON, or nested too deeply"),
    })
}

fn parse_member(bytes: &[u8], name: &str) -> Result<Value, JsonRejection> {
    let mut message = bounded_json::parse_bounded(bytes)?;
    Ok(message.get_mut(name).map(Value::take).unwrap_or_default())
}

fn parse_error(bytes: &[u8]) -> (i64, String) {
    let is_short = bytes.len() <= MAX_ERROR_BYTES;
    let error = is_short.then(|| parse_member(bytes, "error").ok()).flatten().unwrap_or_default();
    let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
    let message = tool::text::escape_invisible(message).chars().take(MAX_ERROR_CHARS).collect();
    (error.get("code").and_then(Value::as_i64).unwrap_or_default(), message)
}

/// Builds the reply to a request of the server. Sampling, roots and elicitation are not supported.
pub(crate) fn reply_to_server(id: &Value, method: &str) -> Value {
    match method {
        "ping" => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
        _ => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "method not found: this client does not support it"}})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWAITED: PendingResponse = PendingResponse { id: 7, max_bytes: 1000 };

    #[test]
    fn progress_of_the_pending_request_only_is_read() {
        let note = |params: Value| {
            let text = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            parse_progress(text.to_string().as_bytes(), 7)
        };
        let half =
            note(json!({"progressToken": 7, "progress": 50, "total": 100, "message": "h\u{1b}"})).unwrap();
        assert_eq!((half.message.as_str(), half.done_of_total), ("h\\u{1b}", Some((50, 100))));
        let part = note(json!({"progressToken": 7, "progress": 0.5, "total": 1.0})).unwrap();
        assert_eq!(part.done_of_total, Some((500, 1000)));
        assert_eq!(note(json!({"progressToken": 7, "progress": 3})).unwrap().done_of_total, None);
        assert_eq!(note(json!({"progressToken": 8, "progress": 50})), None);
        assert_eq!(note(json!({"progressToken": 7, "progress": 1, "message": "x".repeat(20_000)})), None);
        assert_eq!(
            parse_progress(br#"{"method":"notifications/message","params":{"progressToken":7}}"#, 7),
            None
        );
    }

    #[test]
    fn messages_are_classified_and_others_refused() {
        let check = |text: &str, expect: Option<ServerMessage>| {
            assert_eq!(ServerMessage::parse(text.as_bytes(), AWAITED).ok(), expect, "{text}");
        };
        check(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, Some(ServerMessage::Response(Ok(json!({})))));
        check(r#"{"id":7,"result":null}"#, Some(ServerMessage::Response(Ok(json!(null)))));
        check(r#"{"id":8,"result":{}}"#, Some(ServerMessage::Other));
        check(
            r#"{"id":7,"error":{"code":-32601,"message":"no\u001b[31m"}}"#,
            Some(ServerMessage::Response(Err((-32601, "no\\u{1b}[31m".to_owned())))),
        );
        check(r#"{"id":"a","method":"ping"}"#, Some(ServerMessage::Request(json!("a"), "ping".to_owned())));
        check(r#"{"id":{"a":1},"method":"ping"}"#, Some(ServerMessage::Other));
        check(&format!(r#"{{"id":"{}","method":"ping"}}"#, "i".repeat(300)), Some(ServerMessage::Other));
        check(r#"{"method":"n","params":{}}"#, Some(ServerMessage::Other));
        check(r#"{"method":"notifications/tools/list_changed","id":null}"#, Some(ServerMessage::Other));
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
            let error = ServerMessage::parse(text.as_bytes(), AWAITED).err();
            matches!(error, Some(McpError::MessageTooLong(1000) | McpError::TooManyValues(_)))
        };
        assert!(is_too_much(&format!(r#"{{"id":7,"result":"{}"}}"#, "x".repeat(1000))));
        let zeros = format!(r#"{{"id":7,"result":[{}0]}}"#, "0,".repeat(bounded_json::MAX_JSON_VALUES));
        let error = ServerMessage::parse(zeros.as_bytes(), PendingResponse { id: 7, max_bytes: usize::MAX });
        assert!(matches!(error, Err(McpError::TooManyValues(_))), "{error:?}");
        // Nested too deeply for a value: parsing it would fail.
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        for passed_over in [
            format!(r#"{{"id":8,"result":{deep}}}"#),
            format!(r#"{{"method":"n","params":{deep}}}"#),
            format!(r#"{{"id":8,"result":"{}"}}"#, "x".repeat(1000)),
        ] {
            assert_eq!(
                ServerMessage::parse(passed_over.as_bytes(), AWAITED).ok(),
                Some(ServerMessage::Other)
            );
        }
        let long = format!(r#"{{"id":7,"error":{{"message":"{}"}}}}"#, "x".repeat(MAX_ERROR_BYTES));
        let words = ServerMessage::Response(Err((0, "no reason given".to_owned())));
        assert_eq!(ServerMessage::parse(long.as_bytes(), AWAITED).ok(), Some(words));
    }

    #[test]
    fn a_response_is_matched_by_its_id() {
        assert!(
            is_response_to(br#"{"id":7,"result":null}"#, 7) && is_response_to(br#"{"id":7,"error":{}}"#, 7)
        );
        for other in [
            r#"{"id":8,"result":1}"#,
            r#"{"id":7,"method":"m"}"#,
            r#"{"id":7}"#,
            "7",
            r#"{"id":"7","result":1}"#,
        ] {
            assert!(!is_response_to(other.as_bytes(), 7), "{other}");
        }
    }
}
