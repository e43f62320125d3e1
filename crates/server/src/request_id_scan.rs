//! Finds the id of a request whose line cannot be parsed: too long, too deep, ambiguous or not UTF-8. The
//! reply repeats the id, so that its sender does not wait forever.

use serde_json::Value;

use crate::rpc::RequestId;

/// Maximum size of a collected key or id in bytes; a longer one is not an id. An escaped character takes six.
const MAX_TOKEN_BYTES: usize = 6 * 256 + 2;

/// Scanner over the bytes of one line. It finds the `id` of the outermost object and needs constant memory.
#[derive(Debug, Default)]
pub(crate) struct RequestIdScanner {
    depth: usize,
    position: Position,
    in_string: bool,
    escaped: bool,
    /// Key or id that is being read.
    token: Vec<u8>,
    found: FoundId,
}

/// Position in the outermost object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    /// Before the object.
    #[default]
    Start,
    Key,
    AfterKey {
        is_id: bool,
    },
    IdValue,
    OtherValue,
    /// After the object.
    End,
    /// In a text that is not one object.
    Outside,
}

#[derive(Debug, Default)]
enum FoundId {
    #[default]
    None,
    One(RequestId),
    /// There are several ids, or one that is not valid.
    Unusable,
}

/// Returns the id of a line, or `None` if it has no id or several.
pub(crate) fn find_request_id(line: &[u8]) -> Option<RequestId> {
    let mut scanner = RequestIdScanner::default();
    scanner.scan(line);
    scanner.into_id()
}

impl RequestIdScanner {
    /// Reads the next part of the line.
    pub(crate) fn scan(&mut self, part: &[u8]) {
        part.iter().for_each(|byte| self.scan_byte(*byte));
    }

    /// Returns true if the line is not one object, so that no id will be found.
    pub(crate) fn is_outside(&self) -> bool {
        self.position == Position::Outside
    }

    pub(crate) fn into_id(self) -> Option<RequestId> {
        match self.found {
            FoundId::One(id) => Some(id),
            FoundId::None | FoundId::Unusable => None,
        }
    }

    fn scan_byte(&mut self, byte: u8) {
        if self.in_string {
            self.collect(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.end_string(),
                _ => {}
            }
            return;
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {}
            b'{' if self.position == Position::Start => (self.depth, self.position) = (1, Position::Key),
            _ if matches!(self.position, Position::Start | Position::End | Position::Outside) => {
                self.position = Position::Outside;
            }
            b'"' => {
                self.in_string = true;
                self.collect(byte);
            }
            b'{' | b'[' => {
                if self.position == Position::IdValue {
                    (self.found, self.position) = (FoundId::Unusable, Position::OtherValue);
                }
                self.depth += 1;
            }
            b'}' | b']' => {
                self.end_value();
                self.depth -= 1;
                if self.depth == 0 {
                    self.position = Position::End;
                }
            }
            b',' if self.depth == 1 => {
                self.end_value();
                self.position = Position::Key;
            }
            b':' if self.depth == 1 => {
                let is_id = self.position == Position::AfterKey { is_id: true };
                self.position = if is_id { Position::IdValue } else { Position::OtherValue };
            }
            _ => self.collect(byte),
        }
    }

    /// Appends a byte to the token if it belongs to a key or an id.
    fn collect(&mut self, byte: u8) {
        let is_wanted = matches!(self.position, Position::Key | Position::IdValue);
        if is_wanted && self.depth == 1 && self.token.len() <= MAX_TOKEN_BYTES {
            self.token.push(byte);
        }
    }

    fn end_string(&mut self) {
        self.in_string = false;
        if self.position == Position::Key && self.depth == 1 {
            let key = serde_json::from_slice::<String>(&self.token);
            self.position = Position::AfterKey { is_id: key.is_ok_and(|key| key == "id") };
            self.token.clear();
        }
    }

    fn end_value(&mut self) {
        if self.position != Position::IdValue || self.depth != 1 {
            return;
        }
        let value = serde_json::from_slice::<Value>(&self.token).ok();
        let id = value.and_then(|value| RequestId::read(value).ok());
        self.found = match (std::mem::take(&mut self.found), id) {
            (FoundId::None, Some(id)) => FoundId::One(id),
            _ => FoundId::Unusable,
        };
        self.token.clear();
        self.position = Position::OtherValue;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_one_valid_id_of_the_outermost_object_is_found() {
        let check = |line: &str, expect: Value| {
            let found = find_request_id(line.as_bytes());
            assert_eq!(json!(found), expect, "{}", line.chars().take(80).collect::<String>());
        };
        check(r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#, json!(1));
        check(r#" { "params" : {"id":2,"x":[{"id":3}]} , "id" : "k\"1" }"#, json!("k\"1"));
        check(r#"{"params":{"a":"\"id\":5,","b":"}"},"id":-7}"#, json!(-7));
        check(r#"{"i\u0064":1}"#, json!(1));
        check(&format!(r#"{{"params":{}{},"id":1}}"#, "[".repeat(1000), "]".repeat(1000)), json!(1));
        // The line may be cut off anywhere, also in the middle of an id.
        check(r#"{"id":1,"params":"xxx"#, json!(1));
        check(r#"{"method":"a","id":12"#, Value::Null);
        check(r#"{"method":"a","id":"12"#, Value::Null);
        for unusable in [
            r#"{"id":1,"id":2}"#,
            r#"{"id":1,"i\u0064":1}"#,
            r#"{"id":null}"#,
            r#"{"id":1.5}"#,
            r#"{"id":{"id":1}}"#,
            r#"{"id":[1]}"#,
            r#"{"id":1e400}"#,
            r#"{"params":{"id":1}}"#,
            r#"[{"id":1}]"#,
            r#""id":1"#,
            r#"{}{"id":1}"#,
            "",
            "}}}}",
        ] {
            check(unusable, Value::Null);
        }
        check(&format!(r#"{{"id":"{}"}}"#, "x".repeat(257)), Value::Null);
        check(&format!(r#"{{"id":"{}"}}"#, "x".repeat(1 << 20)), Value::Null);
    }

    #[test]
    fn parts_of_a_line_are_read_like_the_whole() {
        let line = br#"{"params":{"content":"x\\\"y"},"id":"a\u0062"}"#;
        for size in 1..line.len() {
            let mut scanner = RequestIdScanner::default();
            line.chunks(size).for_each(|part| scanner.scan(part));
            assert_eq!(json!(scanner.into_id()), json!("ab"), "{size}");
        }
    }
}
