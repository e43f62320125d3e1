//! As much of a JSON-RPC line as the bridge must know. What cannot be read is for the daemon to complain about.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use tool::strict_json;

/// The beginning of a message.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Head<'a> {
    /// As it is written.
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl<'a> Head<'a> {
    pub(super) fn of(line: &'a [u8]) -> Self {
        // A list would be read as the fields in their order.
        let is_object = line.trim_ascii_start().starts_with(b"{");
        is_object.then(|| serde_json::from_slice(line).ok()).flatten().unwrap_or_default()
    }

    /// The same of what a client says, as strictly as the daemon reads it: what it refuses as a whole, a key that stands
    /// twice for one, it answers without an id, and no other answer comes.
    pub(super) fn of_client(line: &'a [u8]) -> Self {
        let is_strict = std::str::from_utf8(line).is_ok_and(|text| strict_json::parse(text).is_ok());
        if is_strict { Head::of(line) } else { Head::default() }
    }

    /// The id of a request that waits for an answer.
    pub(super) fn asks(&self) -> Option<&'a str> {
        self.method.as_ref().and(self.id).map(RawValue::get)
    }

    /// The id of a request that this answers.
    pub(super) fn answers(&self) -> Option<&'a str> {
        self.id.filter(|_| self.method.is_none()).map(RawValue::get)
    }

    pub(super) fn is_error(&self) -> bool {
        self.error.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_asks_answers_or_neither() {
        let check = |line: &str, asks: Option<&str>, answers: Option<&str>| {
            let head = Head::of(line.as_bytes());
            assert_eq!((head.asks(), head.answers()), (asks, answers), "{line}");
        };
        check(r#"{"id":1,"method":"ping"}"#, Some("1"), None);
        check(r#"{"method":"a\u0062","params":{"id":5},"id":"x"}"#, Some("\"x\""), None);
        check(r#"{"method":"notifications/x"}"#, None, None);
        check(r#"{"id":7,"result":{"method":"m"}}"#, None, Some("7"));
        check("nonsense", None, None);
        check("[1]", None, None);
    }

    #[test]
    fn a_line_that_the_daemon_refuses_as_a_whole_asks_nothing() {
        let asks = |line: &str| Head::of_client(line.as_bytes()).asks().map(str::to_owned);
        assert_eq!(asks(r#"{"id":1,"method":"tools/call","params":{"a":1}}"#).as_deref(), Some("1"));
        for refused in [
            r#"{"id":1,"method":"tools/call","params":{"a":1,"a":2}}"#,
            r#"{"id":1,"id":2,"method":"ping"}"#,
            r#"{"id":1,"method":"ping","params":"\u0000"}"#,
            r#"{"id":1,"method":"ping"} x"#,
        ] {
            assert_eq!(asks(refused), None, "{refused}");
        }
    }
}
