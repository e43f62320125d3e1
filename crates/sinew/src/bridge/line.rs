//! As much of a JSON-RPC line as the bridge must know. What cannot be read is for the daemon to complain about.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

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
}
