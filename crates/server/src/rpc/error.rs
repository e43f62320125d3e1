//! JSON-RPC errors: a number for the protocol, a code in `data.code` for programs, a message for people. An
//! error quotes names and types, never a value that the client sent.

use serde::Serialize;
use serde_json::{Value, json};
use tool::RefusalCode;
use tool::strict_json::JsonError;
use tool::text::nearest_word;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const UNKNOWN_METHOD: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const INTERNAL_ERROR: i64 = -32603;
const SERVER_ERROR: i64 = -32000;
const MISSING_CLIENT_CAPABILITY: i64 = -32021;
const UNSUPPORTED_REVISION: i64 = -32022;
const LINE_TOO_LONG: &str = "frame_too_large";
/// Maximum number of characters quoted of a name that the client sent.
const MAX_QUOTED_CHARS: usize = 64;

/// Error object of a JSON-RPC reply.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    /// Object with at least `code`, the error code for programs.
    pub(crate) data: Value,
}

impl RpcError {
    fn new(code: i64, word: &str, message: impl Into<String>) -> Self {
        RpcError { code, message: message.into(), data: json!({"code": word}) }
    }

    /// Adds an entry to `data`.
    pub(crate) fn with_data(mut self, key: &str, fact: impl Serialize) -> Self {
        if let Some(data) = self.data.as_object_mut() {
            data.insert(key.to_owned(), json!(fact));
        }
        self
    }

    /// Returns `data.code`.
    #[cfg(test)]
    pub(crate) fn data_code(&self) -> Option<&str> {
        self.data["code"].as_str()
    }

    pub(crate) fn parse(error: &JsonError) -> Self {
        Self::new(PARSE_ERROR, error.detail, error.to_string())
            .with_data("line", error.line)
            .with_data("column", error.column)
    }

    pub(crate) fn too_many_values(limit: usize) -> Self {
        Self::new(PARSE_ERROR, "too_many_values", format!("the message holds more than {limit} values"))
    }

    pub(crate) fn not_utf8() -> Self {
        Self::new(PARSE_ERROR, "not_utf8", "the line is not UTF-8")
    }

    pub(crate) fn line_too_long(limit: usize) -> Self {
        Self::server(LINE_TOO_LONG, format!("the line is longer than {limit} bytes"))
            .with_data("limit_bytes", limit)
    }

    /// Returns the code of the refusal that is recorded for an invalid message with this error.
    pub(crate) fn refusal_code(&self) -> RefusalCode {
        match self.data.get("code").is_some_and(|code| code == LINE_TOO_LONG) {
            true => RefusalCode::TooLarge,
            false => RefusalCode::InvalidArguments,
        }
    }

    pub(crate) fn invalid_request(message: &str) -> Self {
        Self::new(INVALID_REQUEST, "bad_request", message)
    }

    /// Unsupported MCP revision.
    pub(crate) fn unsupported_revision(requested: &str, supported: &[&str]) -> Self {
        let message = format!(
            "protocol version `{}` is not supported: use {}",
            truncate_and_escape(requested),
            supported.join(" or ")
        );
        Self::new(UNSUPPORTED_REVISION, "unsupported_protocol_version", message)
            .with_data("supported", supported)
            .with_data("requested", truncate_and_escape(requested))
    }

    /// MCP request that needs a capability which the client does not declare.
    pub(crate) fn missing_capability(method: &str, required: &Value) -> Self {
        let message = format!("`{method}` needs a capability that the request does not declare");
        Self::new(MISSING_CLIENT_CAPABILITY, "missing_client_capability", message)
            .with_data("requiredCapabilities", required)
    }

    pub(crate) fn batch() -> Self {
        let message = "batches are not supported: send one message per line; requests run concurrently";
        Self::new(INVALID_REQUEST, "batch", message)
    }

    pub(super) fn unknown_field<'a>(field: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let message = format!(
            "the message has an unknown field `{}`{}",
            truncate_and_escape(field),
            did_you_mean(field, known)
        );
        Self::invalid_request(&message).with_data("field", truncate_and_escape(field))
    }

    pub(crate) fn unknown_method<'a>(method: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let nearest = nearest_word(method, known);
        let did_you_mean = nearest.map(|name| format!(": did you mean `{name}`?")).unwrap_or_default();
        let message = format!("unknown method `{}`{did_you_mean}", truncate_and_escape(method));
        let error = Self::new(UNKNOWN_METHOD, "unknown_method", message);
        match nearest {
            Some(name) => error.with_data("did_you_mean", name),
            None => error,
        }
    }

    pub(crate) fn wrong_socket(method: &str, here: &str, there: &str) -> Self {
        let message = format!("`{method}` is not a method of {here}: it is on {there}");
        Self::new(UNKNOWN_METHOD, "wrong_socket", message).with_data("socket", there)
    }

    pub(crate) fn invalid_params(field: &str, message: &str) -> Self {
        Self::new(INVALID_PARAMS, "invalid_params", message).with_data("field", field)
    }

    pub(crate) fn missing(field: &str, expected: &str) -> Self {
        Self::invalid_params(field, &format!("`{field}` is missing: it must be {expected}"))
    }

    pub(crate) fn wrong_type(field: &str, expected: &str, got: &Value) -> Self {
        Self::unexpected_type(field, expected, type_of(got))
    }

    pub(super) fn unexpected_type(field: &str, expected: &str, got: &str) -> Self {
        Self::invalid_params(field, &format!("`{field}` must be {expected}; got {got}"))
    }

    pub(crate) fn not_supported_yet(field: &str) -> Self {
        Self::invalid_params(field, &format!("`{field}` is not supported yet: leave it out"))
    }

    pub(crate) fn unknown_parameter(field: &str, known: &[&'static str]) -> Self {
        let suggestion = match did_you_mean(field, known.iter().copied()) {
            none if none.is_empty() && !known.is_empty() => format!("; known: {}", known.join(", ")),
            found => found,
        };
        let field = truncate_and_escape(field);
        Self::invalid_params(&field, &format!("unknown parameter `{field}`{suggestion}"))
    }

    /// Unknown tool, with the refusal that is recorded in the ledger as `data`.
    pub(crate) fn unknown_tool(message: &str, refusal: &impl Serialize) -> Self {
        RpcError { code: INVALID_PARAMS, message: message.to_owned(), data: json!(refusal) }
    }

    pub(crate) fn internal() -> Self {
        Self::new(
            INTERNAL_ERROR,
            "internal",
            "the request could not be handled because of an internal error: see Sinew's log",
        )
    }

    pub(crate) fn server(word: &str, message: impl Into<String>) -> Self {
        Self::new(SERVER_ERROR, word, message)
    }

    pub(crate) fn not_found(message: String) -> Self {
        Self::server("not_found", message)
    }

    pub(crate) fn reply_too_large(bytes: usize, limit: usize) -> Self {
        let message = format!(
            "the reply has {bytes} bytes, but the limit is {limit}: the call has run and is recorded; \
             request less at a time, or raise limits.max_line_bytes"
        );
        Self::server("reply_too_large", message)
            .with_data("reply_bytes", bytes)
            .with_data("limit_bytes", limit)
    }
}

fn did_you_mean<'a>(field: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest_word(field, known).map(|name| format!(": did you mean `{name}`?")).unwrap_or_default()
}

/// Truncates and escapes a name from a client for use in a message.
fn truncate_and_escape(word: &str) -> String {
    word.chars().take(MAX_QUOTED_CHARS).flat_map(char::escape_debug).collect()
}

pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
