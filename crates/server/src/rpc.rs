//! JSON-RPC 2.0 messages: strict parsing of a line and encoding of replies and notifications. Knows no
//! methods.

mod error;
mod params;

pub(crate) use error::RpcError;
pub(crate) use params::{ParameterValue, Params};

use serde::Serialize;
use serde_json::{Map, Number, Value};
use tool::strict_json;

use crate::request_id_scan::find_request_id;

/// Message of a client.
#[derive(Debug)]
pub(crate) enum RpcMessage {
    /// Expects a reply.
    Request { id: RequestId, method: String, params: Params },
    /// Expects no reply and gets none, not even an error.
    Notification { method: String, params: Params },
}

/// Request id, which the reply repeats: a short string or an integer. It is unique only among the open requests of
/// its connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum RequestId {
    Integer(Number),
    Text(String),
}

impl RequestId {
    pub(crate) fn read(value: Value) -> Result<Self, RpcError> {
        match value {
            Value::Number(number) if number.is_i64() || number.is_u64() => Ok(RequestId::Integer(number)),
            Value::String(text) if text.len() <= LONGEST_ID => Ok(RequestId::Text(text)),
            Value::String(text) => {
                let message = format!("`id` has {} bytes; it must be at most {LONGEST_ID}", text.len());
                Err(RpcError::invalid_request(&message))
            }
            _ => Err(RpcError::invalid_request(
                "`id` must be a string or an integer; leave it out in a notification",
            )),
        }
    }
}

/// Returns true if a value can be the id of a request. A message with another id is answered without one.
pub fn is_request_id(value: &Value) -> bool {
    RequestId::read(value.clone()).is_ok()
}

/// Form of the `id` in a reply to a message whose id is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnknownId {
    /// `null`, as JSON-RPC requires.
    Null,
    /// No `id`: in MCP an id is never null.
    Omitted,
}

/// Reply to a request.
pub(crate) type RpcReply = Result<EncodedJson, RpcError>;

/// Encoded JSON, ready to send.
#[derive(Clone, Debug)]
pub(crate) struct EncodedJson(Vec<u8>);

impl EncodedJson {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Line that is not a valid message, with its request id if that could be parsed.
#[derive(Debug)]
pub(crate) struct InvalidMessage {
    pub(crate) id: Option<RequestId>,
    pub(crate) error: RpcError,
}

/// Size of the envelope around most results, in bytes.
const ENVELOPE_BYTES: usize = 128;
/// Initial capacity for a result, enough for most; a larger result is reallocated while it is written.
const INITIAL_RESULT_BYTES: usize = 4096;

/// Longest request id, in bytes.
const LONGEST_ID: usize = 256;
/// Fields of a message.
const FIELDS: [&str; 4] = ["jsonrpc", "id", "method", "params"];
/// Maximum number of values in one message. A typical tool call has fewer than ten. A parsed value takes about
/// seventy bytes however short its text is, so with a byte limit alone a line of `[0,0,0,…]` could grow
/// thirtyfold in memory.
const MAX_VALUES: usize = 100_000;

/// Parses one line.
pub(crate) fn parse_message(text: &str) -> Result<RpcMessage, Box<InvalidMessage>> {
    let refuse = |id, error| Box::new(InvalidMessage { id, error });
    let mut fields = read_object(text).map_err(|error| refuse(find_request_id(text.as_bytes()), error))?;
    let id = fields.remove("id").map(RequestId::read).transpose().map_err(|error| refuse(None, error))?;
    match (read_fields(id.as_ref(), fields), id) {
        (Ok((method, params)), Some(id)) => Ok(RpcMessage::Request { id, method, params }),
        (Ok((method, params)), None) => Ok(RpcMessage::Notification { method, params }),
        (Err(error), id) => Err(Box::new(InvalidMessage { id, error })),
    }
}

fn read_object(text: &str) -> Result<Map<String, Value>, RpcError> {
    // Each value takes at least one byte, so a shorter text cannot exceed the limit.
    if text.len() > MAX_VALUES && strict_json::count_values(text.as_bytes()) > MAX_VALUES {
        return Err(RpcError::too_many_values(MAX_VALUES));
    }
    match strict_json::parse(text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(Value::Array(_)) => Err(RpcError::batch()),
        Ok(_) => Err(RpcError::invalid_request("a message must be a JSON object")),
        Err(error) => Err(RpcError::parse(&error)),
    }
}

fn read_fields(id: Option<&RequestId>, mut fields: Map<String, Value>) -> Result<(String, Params), RpcError> {
    if fields.remove("jsonrpc").is_none_or(|version| version != "2.0") {
        return Err(RpcError::invalid_request("`jsonrpc` must be \"2.0\""));
    }
    let Some(Value::String(method)) = fields.remove("method") else {
        return Err(RpcError::invalid_request("`method` must be a string"));
    };
    let params = Params::read(fields.remove("params"));
    if let Some(unknown) = fields.keys().next() {
        return Err(RpcError::unknown_field(unknown, FIELDS));
    }
    // A notification gets no reply, so invalid parameters are ignored.
    Ok((method, if id.is_some() { params? } else { params.unwrap_or_default() }))
}

/// Encodes the result of a request.
pub(crate) fn encode_result(result: &impl Serialize) -> RpcReply {
    let mut json = Vec::with_capacity(INITIAL_RESULT_BYTES);
    serde_json::to_writer(&mut json, result).map_err(|error| serialise_error(&error))?;
    Ok(EncodedJson(json))
}

/// Logs why a reply cannot be serialised and returns the internal error that the client gets.
pub(crate) fn serialise_error(error: &serde_json::Error) -> RpcError {
    tracing::error!(%error, "reply_not_serialised");
    RpcError::internal()
}

/// Encodes a reply as one line of at most `limit` bytes. A longer reply is replaced by a `reply_too_large`
/// error.
pub(crate) fn encode_reply(id: &RequestId, reply: &RpcReply, limit: usize) -> Vec<u8> {
    encode_bounded(Ok(id), reply, limit)
}

/// Encodes an error about a message whose id may be unknown.
pub(crate) fn encode_error(
    id: Option<&RequestId>,
    unknown: UnknownId,
    error: RpcError,
    limit: usize,
) -> Vec<u8> {
    encode_bounded(id.ok_or(unknown), &Err(error), limit)
}

fn encode_bounded(id: Result<&RequestId, UnknownId>, reply: &RpcReply, limit: usize) -> Vec<u8> {
    let line = encode_line(id, reply);
    if line.len() <= limit + 1 {
        line
    } else {
        encode_line(id, &Err(RpcError::reply_too_large(line.len(), limit)))
    }
}

/// Encodes a notification as one line.
pub(crate) fn encode_notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        jsonrpc: &'static str,
        method: &'a str,
        params: &'a P,
    }
    // The parameters are JSON values and numbers, whose serialisation cannot fail.
    let mut line = serde_json::to_vec(&Notification { jsonrpc: "2.0", method, params }).unwrap_or_default();
    line.push(b'\n');
    line
}

fn encode_line(id: Result<&RequestId, UnknownId>, reply: &RpcReply) -> Vec<u8> {
    let length = reply.as_ref().map_or(0, |EncodedJson(result)| result.len());
    let mut line = Vec::with_capacity(ENVELOPE_BYTES + length);
    line.extend_from_slice(br#"{"jsonrpc":"2.0""#);
    if id != Err(UnknownId::Omitted) {
        line.extend_from_slice(br#","id":"#);
        // Strings and numbers, whose serialisation cannot fail.
        let _ = serde_json::to_writer(&mut line, &id.ok());
    }
    match reply {
        Ok(EncodedJson(result)) => {
            line.extend_from_slice(br#","result":"#);
            line.extend_from_slice(result);
        }
        Err(error) => {
            line.extend_from_slice(br#","error":"#);
            let _ = serde_json::to_writer(&mut line, error);
        }
    }
    line.extend_from_slice(b"}\n");
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn valid_messages_are_parsed() {
        let check = |text: &str, expect: &str| {
            let message = match parse_message(text).unwrap() {
                RpcMessage::Request { id, method, params } => format!("{} {method} {params:?}", json!(id)),
                RpcMessage::Notification { method, params } => format!("- {method} {params:?}"),
            };
            assert!(message.starts_with(expect), "{message}");
        };
        check(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":1}}"#, "1 a Params { given: {\"x\":");
        check(r#"{"jsonrpc":"2.0","id":"é","method":"a"}"#, "\"é\" a Params { given: {}");
        check(r#"{"id":-5,"method":"a","jsonrpc":"2.0"}"#, "-5 a ");
        check(r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"a"}"#, "18446744073709551615 a ");
        check(r#"{"jsonrpc":"2.0","method":"a"}"#, "- a ");
        check(r#"{"jsonrpc":"2.0","method":"a","params":5}"#, "- a Params { given: {}");
        check(&format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"a"}}"#, "x".repeat(256)), "\"xxx");
    }

    /// Checks the error of an invalid line: codes, part of the message, and request id.
    #[track_caller]
    fn check(text: &str, code: i64, word: &str, message_text: &str, id: &str) {
        let unreadable = parse_message(text).unwrap_err();
        let shown = text.chars().take(80).collect::<String>();
        let error = unreadable.error;
        assert_eq!((error.code, error.data_code()), (code, Some(word)), "{shown}: {error:?}");
        assert!(error.message.contains(message_text), "{shown}: {error:?}");
        assert_eq!(json!(unreadable.id).to_string(), id, "{shown}");
    }

    #[test]
    fn invalid_json_is_refused() {
        check("{", -32700, "syntax", "line 1 column 1", "null");
        check("GET / HTTP/1.1", -32700, "syntax", "", "null");
        check(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#, -32700, "duplicate_key", "`id`", "null");
        let nested = r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":[{"path":1,"p\u0061th":2}]}}"#;
        check(nested, -32700, "duplicate_key", "`path`", "1");
        let nul = r#"{"jsonrpc":"2.0","id":1,"method":"a\u0000"}"#;
        check(nul, -32700, "nul", "NUL", "1");
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"x":{}{}}}}}"#,
            "[".repeat(1000),
            "]".repeat(1000)
        );
        check(&deep, -32700, "too_deep", "127", "1");
        let wide = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":{{"x":[0{}]}}}}"#,
            ",0".repeat(100_000)
        );
        check(&wide, -32700, "too_many_values", "100000", "1");
        check(r#"{"jsonrpc":"2.0","id":1e400,"method":"a"}"#, -32700, "syntax", "", "null");
    }

    #[test]
    fn json_that_is_not_a_request_is_refused() {
        let bad = "bad_request";
        for not_an_object in ["5", "null", "\"x\"", "true"] {
            check(not_an_object, -32600, bad, "must be a JSON object", "null");
        }
        check("[]", -32600, "batch", "one message per line", "null");
        check(r#"[{"jsonrpc":"2.0","id":1,"method":"a"}]"#, -32600, "batch", "one message per line", "null");
        for id in ["null", "1.5", "1.0", "{}", "[]", "true", "18446744073709551616"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#);
            check(&text, -32600, bad, "`id` must be", "null");
        }
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"a"}}"#, "x".repeat(257));
        check(&long, -32600, bad, "256", "null");
        check(r#"{"id":1,"method":"a"}"#, -32600, bad, "`jsonrpc`", "1");
        check(r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#, -32600, bad, "`jsonrpc`", "1");
        check(r#"{"jsonrpc":2.0,"id":1,"method":"a"}"#, -32600, bad, "`jsonrpc`", "1");
        check(r#"{"jsonrpc":"2.0","id":1}"#, -32600, bad, "`method`", "1");
        check(r#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600, bad, "`method`", "1");
        check(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600, bad, "`method`", "1");
        let unknown = r#"{"jsonrpc":"2.0","id":1,"method":"a","parms":{}}"#;
        check(unknown, -32600, bad, "`parms`", "1");
        check(unknown, -32600, bad, "did you mean `params`?", "1");
        for params in ["[]", "5", "null", "\"x\""] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":"k","method":"a","params":{params}}}"#);
            check(&text, -32602, "invalid_params", "`params` must be an object", "\"k\"");
        }
    }

    #[test]
    fn replies_are_one_line_within_the_limit() {
        let id = RequestId::read(json!("a\nb")).unwrap();
        let line = encode_reply(&id, &encode_result(&json!({"x": "1\n2"})), 1000);
        assert_eq!(
            String::from_utf8(line).unwrap(),
            "{\"jsonrpc\":\"2.0\",\"id\":\"a\\nb\",\"result\":{\"x\":\"1\\n2\"}}\n"
        );
        let line = encode_error(None, UnknownId::Null, RpcError::internal(), 1000);
        let error: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&error["id"], &error["error"]["code"]), (&Value::Null, &json!(-32603)));
        let long = encode_result(&"x".repeat(1000));
        let exact = encode_reply(&id, &long, usize::MAX - 1).len() - 1;
        assert_eq!(encode_reply(&id, &long, exact).len(), exact + 1);
        let error: Value = serde_json::from_slice(&encode_reply(&id, &long, exact - 1)).unwrap();
        assert_eq!(error["error"]["data"]["code"], "reply_too_large");
        assert_eq!(
            (&error["error"]["data"]["limit_bytes"], &error["id"]),
            (&json!(exact - 1), &json!("a\nb"))
        );
    }

    fn exact_values(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(exact_values).sum::<usize>(),
            Value::Object(map) => 1 + map.values().map(exact_values).sum::<usize>(),
            _ => 1,
        }
    }

    #[test]
    fn every_value_is_counted() {
        for text in [
            "1",
            "[]",
            "[[],[],{}]",
            r#"{"a":[1,2,3],"b":{"c":"x,[{"}}"#,
            r#"["\"","\\",",,,,","\\\"[[[["]"#,
            r#"[{"a":1},{"b":[{}]},null,true]"#,
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            let (counted, exact) = (strict_json::count_values(text.as_bytes()), exact_values(&value));
            assert!((exact..=2 * exact).contains(&counted), "{text}: {counted} for {exact}");
        }
        assert_eq!(
            strict_json::count_values(format!("\"{}\"", ",[{".repeat(1000)).as_bytes()),
            1,
            "text is not structure"
        );
    }

    #[test]
    fn value_limit_ignores_text_length() {
        let is_light = |text: &str| {
            read_object(text).map_err(|error| error.data_code() == Some("too_many_values")) != Err(true)
        };
        assert!(is_light(&format!("[\"{}\"]", "x,".repeat(MAX_VALUES))));
        assert!(is_light(&format!("[0{}]", ",0".repeat(MAX_VALUES - 2))));
        assert!(!is_light(&format!("[0{}]", ",0".repeat(MAX_VALUES - 1))));
        assert!(!is_light(&"[".repeat(MAX_VALUES + 1)));
    }
}
