//! Fields of a JSON-RPC line that the bridge needs. An invalid line is forwarded; the daemon reports the
//! error.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tool::{RefusalCode, strict_json};

/// Id, method and error of a message.
#[derive(Debug, Default, Deserialize)]
pub(super) struct MessageHead<'a> {
    #[serde(default)]
    id: Option<Value>,
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

impl<'a> MessageHead<'a> {
    pub(super) fn parse(line: &'a [u8]) -> Self {
        // Serde would read a JSON array as the fields in order.
        let is_object = line.trim_ascii_start().starts_with(b"{");
        is_object.then(|| serde_json::from_slice(line).ok()).flatten().unwrap_or_default()
    }

    /// Parses a line from the client as strictly as the daemon does. The daemon answers a line that it
    /// rejects as a whole (for example for a duplicate key) without an id, so no response to that id must be
    /// expected.
    pub(super) fn parse_strict(line: &'a [u8]) -> Self {
        let is_strict = std::str::from_utf8(line).is_ok_and(|text| strict_json::parse(text).is_ok());
        if is_strict { MessageHead::parse(line) } else { MessageHead::default() }
    }

    /// Returns the id if this is a request. The daemon answers one with another kind of id without it.
    pub(super) fn request_id(&self) -> Option<&Value> {
        self.id.as_ref().filter(|id| self.method.is_some() && server::is_request_id(id))
    }

    pub(super) fn is_cancellation(&self) -> bool {
        self.id.is_none() && self.method.as_deref() == Some("notifications/cancelled")
    }

    /// Returns the id of the request if this is a response.
    pub(super) fn response_id(&self) -> Option<&Value> {
        self.id.as_ref().filter(|_| self.method.is_none())
    }

    pub(super) fn is_error(&self) -> bool {
        self.error.is_some()
    }
}

/// Returns the id of the request that a notification cancels.
pub(super) fn cancelled_request(line: &[u8]) -> Option<Value> {
    let mut message: Value = serde_json::from_slice(line).ok()?;
    message.pointer_mut("/params/requestId").map(Value::take)
}

/// Returns the id of a tool call that the daemon refused because it was stopping, if this is such a response. The call
/// did not run.
pub(super) fn refused_at_shutdown(line: &[u8]) -> Option<Value> {
    let code = RefusalCode::ShuttingDown.as_str();
    // Searched first: responses can be long, and few are refusals.
    std::str::from_utf8(line).ok().filter(|text| text.contains(code))?;
    let mut message: Value = serde_json::from_slice(line).ok()?;
    let refusals = ["/result/_meta/sinew~1refusal/code", "/result/metadata/refusal/code"];
    let is_refused = refusals.iter().any(|path| message.pointer(path).is_some_and(|found| found == code));
    if is_refused { message.get_mut("id").map(Value::take) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_responses_are_recognised_by_id_and_method() {
        let check = |line: &str, asks: Option<Value>, answers: Option<Value>| {
            let head = MessageHead::parse(line.as_bytes());
            assert_eq!((head.request_id(), head.response_id()), (asks.as_ref(), answers.as_ref()), "{line}");
        };
        check(r#"{"id":1,"method":"ping"}"#, Some(1.into()), None);
        check(r#"{"method":"a\u0062","params":{"id":5},"id":"x"}"#, Some("x".into()), None);
        check(r#"{"method":"notifications/x"}"#, None, None);
        check(r#"{"id":7,"result":{"method":"m"}}"#, None, Some(7.into()));
        check(r#"{"id":1.5,"method":"ping"}"#, None, None);
        check("nonsense", None, None);
        check("[1]", None, None);
    }

    #[test]
    fn a_line_the_daemon_rejects_is_not_a_request() {
        let asks = |line: &str| MessageHead::parse_strict(line.as_bytes()).request_id().cloned();
        assert_eq!(asks(r#"{"id":1,"method":"tools/call","params":{"a":1}}"#), Some(1.into()));
        for refused in [
            r#"{"id":1,"method":"tools/call","params":{"a":1,"a":2}}"#,
            r#"{"id":1,"id":2,"method":"ping"}"#,
            r#"{"id":1,"method":"ping","params":"\u0000"}"#,
            r#"{"id":1,"method":"ping"} x"#,
        ] {
            assert_eq!(asks(refused), None, "{refused}");
        }
    }

    #[test]
    fn only_refusals_of_a_stopping_daemon_are_sent_again() {
        let check = |line: &str, expect: Option<Value>| {
            assert_eq!(refused_at_shutdown(line.as_bytes()), expect, "{line}");
        };
        check(r#"{"id":1,"result":{"_meta":{"sinew/refusal":{"code":"shutting_down"}}}}"#, Some(1.into()));
        check(r#"{"id":"a","result":{"metadata":{"refusal":{"code":"shutting_down"}}}}"#, Some("a".into()));
        // This call may have run.
        check(r#"{"id":1,"error":{"code":-32000,"data":{"code":"shutting_down"}}}"#, None);
        check(r#"{"id":1,"result":{"_meta":{"sinew/refusal":{"code":"rate_limited"}}}}"#, None);
        check(r#"{"id":1,"result":{"content":[{"type":"text","text":"shutting_down"}]}}"#, None);
    }
}
