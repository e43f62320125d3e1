//! JSON-RPC message in the body of a request, and the fields that the bridge needs. The daemon checks the
//! rest.

use hyper::HeaderMap;
use serde_json::{Value, json};
use tool::strict_json;

/// Revision whose requests are stateless.
pub(super) const STATELESS_REVISION: &str = "2026-07-28";
/// Revisions with sessions.
pub(super) const SESSION_REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

const REVISION_POINTER: &str = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
const HEADER_MISMATCH: i64 = -32020;

/// Message of a client.
pub(super) struct ClientMessage(Value);

impl ClientMessage {
    /// Parses a body as strictly as the daemon does. The error is the JSON-RPC error response for
    /// the client.
    pub(super) fn parse(body: &[u8]) -> Result<Self, Value> {
        let text =
            std::str::from_utf8(body).map_err(|_| error_object(None, -32700, "the body is not UTF-8"))?;
        match strict_json::parse(text) {
            Ok(message @ Value::Object(_)) => ClientMessage(message).check_form(),
            Ok(_) => Err(error_object(None, -32600, "the body must be one JSON-RPC message")),
            Err(error) => Err(error_object(None, -32700, &error.to_string())),
        }
    }

    /// Checks that the daemon will repeat the id in its reply: a request without a reply would stay open. The server
    /// sends no requests, so a message without a method cannot be a response.
    fn check_form(self) -> Result<Self, Value> {
        let id = self.0.get("id");
        if id.is_some_and(|id| !server::is_request_id(id)) {
            let message = "`id` must be a short string or an integer; leave it out in a notification";
            return Err(error_object(None, -32600, message));
        }
        if self.method().is_none() {
            return Err(error_object(id, -32600, "`method` must be a string"));
        }
        Ok(self)
    }

    /// Returns the message as one line.
    pub(super) fn to_line(&self) -> String {
        self.0.to_string()
    }

    pub(super) fn method(&self) -> Option<&str> {
        self.0.get("method")?.as_str()
    }

    /// Returns the id of a request.
    pub(super) fn request_id(&self) -> Option<&Value> {
        self.method()?;
        self.0.get("id")
    }

    /// Returns the id of the request that this notification cancels.
    pub(super) fn cancelled_request(&self) -> Option<&Value> {
        let is_cancellation = self.method() == Some("notifications/cancelled") && self.request_id().is_none();
        if is_cancellation { self.0.pointer("/params/requestId") } else { None }
    }

    pub(super) fn progress_token(&self) -> Option<&Value> {
        self.0.pointer("/params/_meta/progressToken")
    }

    /// Returns true if the body states a protocol revision, or if the header states the stateless one. Only
    /// stateless messages state a revision in the body.
    pub(super) fn is_stateless(&self, headers: &HeaderMap) -> bool {
        let revision = header(headers, "mcp-protocol-version");
        self.0.pointer(REVISION_POINTER).is_some() || revision == Some(STATELESS_REVISION)
    }

    /// Checks that the headers of a stateless message repeat its body, because routers rely on the headers.
    pub(super) fn check_headers(&self, headers: &HeaderMap) -> Result<(), Value> {
        let body = |pointer: &str| self.0.pointer(pointer).and_then(Value::as_str);
        let mut expected = vec![("Mcp-Method", self.method())];
        // Without a revision in the body, the daemon answers that it is missing.
        if let Some(revision) = body(REVISION_POINTER) {
            expected.push(("MCP-Protocol-Version", Some(revision)));
        }
        match self.method() {
            Some("tools/call") => expected.push(("Mcp-Name", body("/params/name"))),
            Some("tasks/get" | "tasks/update" | "tasks/cancel") => {
                expected.push(("Mcp-Name", body("/params/taskId")));
            }
            _ => {}
        }
        match expected.into_iter().find(|(name, value)| header(headers, name) != *value) {
            None => Ok(()),
            Some((name, value)) => {
                let message = match value {
                    Some(value) => format!("the header {name} must have the value of the body, `{value}`"),
                    None => format!("the header {name} must be absent, because the body has no value for it"),
                };

                Err(error_object(self.request_id(), HEADER_MISMATCH, &message))
            }
        }
    }
}

/// Returns the value of a header without surrounding whitespace.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Builds a JSON-RPC error response. In MCP, an unknown id is omitted.
pub(super) fn error_object(id: Option<&Value>, code: i64, message: &str) -> Value {
    let error = json!({"code": code, "message": message});
    match id {
        Some(id) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        None => json!({"jsonrpc": "2.0", "error": error}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn headers_must_repeat_a_stateless_body() {
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "read_file",
            "_meta": {"io.modelcontextprotocol/protocolVersion": STATELESS_REVISION}}});
        let message = ClientMessage::parse(message.to_string().as_bytes()).ok().unwrap();
        let (revision, method) = (("mcp-protocol-version", STATELESS_REVISION), ("mcp-method", "tools/call"));
        assert!(message.is_stateless(&headers(&[])));
        assert!(message.check_headers(&headers(&[revision, method, ("mcp-name", "read_file")])).is_ok());
        for wrong in [
            headers(&[revision, method]),
            headers(&[revision, method, ("mcp-name", "other")]),
            headers(&[revision, ("mcp-method", "TOOLS/CALL"), ("mcp-name", "read_file")]),
            headers(&[("mcp-protocol-version", "2025-11-25"), method, ("mcp-name", "read_file")]),
            headers(&[method, ("mcp-name", "read_file")]),
        ] {
            let error = message.check_headers(&wrong).unwrap_err();
            assert_eq!(
                (&error["error"]["code"], &error["id"]),
                (&json!(HEADER_MISMATCH), &json!(7)),
                "{wrong:?}"
            );
        }
        let error = message.check_headers(&headers(&[revision, method])).unwrap_err();
        let expected = "the header Mcp-Name must have the value of the body, `read_file`";
        assert_eq!(error["error"]["message"], expected);
        let nameless = json!({"id": 7, "method": "tools/call"}).to_string();
        let nameless = ClientMessage::parse(nameless.as_bytes()).ok().unwrap();
        let error = nameless.check_headers(&headers(&[method, ("mcp-name", "read_file")])).unwrap_err();
        let expected = "the header Mcp-Name must be absent, because the body has no value for it";
        assert_eq!(error["error"]["message"], expected);
    }

    #[test]
    fn body_is_one_strict_message() {
        for (body, code) in [("{", -32700), ("[]", -32600), ("{\"a\":1,\"a\":2}", -32700), ("5", -32600)] {
            let error = ClientMessage::parse(body.as_bytes()).err().unwrap();
            assert_eq!((&error["error"]["code"], error.get("id")), (&json!(code), None), "{body}");
        }
        let pretty = ClientMessage::parse(b"{\n \"id\": 1,\n \"method\": \"ping\"\n}").ok().unwrap();
        assert_eq!(pretty.to_line(), r#"{"id":1,"method":"ping"}"#);
    }

    #[test]
    fn message_that_gets_no_reply_to_its_id_is_refused() {
        let check = |id: &Value, fields: &Value, repeated: bool| {
            let mut message = fields.clone();
            message["id"] = id.clone();
            let error = ClientMessage::parse(message.to_string().as_bytes()).err().unwrap();
            assert_eq!(error["error"]["code"], -32600, "{message}");
            assert_eq!(error.get("id"), Some(id).filter(|_| repeated), "{message}");
        };
        let ping = json!({"jsonrpc": "2.0", "method": "ping"});
        for id in [json!(null), json!(1.5), json!(true), json!([1]), json!("x".repeat(300))] {
            check(&id, &ping, false);
        }
        check(&json!(1), &json!({"jsonrpc": "2.0", "method": 5}), true);
        check(&json!(1), &json!({"jsonrpc": "2.0", "result": {}}), true);
    }
}
