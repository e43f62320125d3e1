//! One tool call with its options, as `sinew/execute` takes it.

use serde_json::{Value, json};
use tool::ToolResult;

use crate::connection::{Client, ClientError};

/// Tool call. Only the options that are set are sent.
#[derive(Clone, Debug)]
pub struct ToolCall {
    params: Value,
}

impl ToolCall {
    /// Creates a call of a tool with its arguments.
    pub fn new(tool_name: &str, arguments: &Value) -> Self {
        ToolCall { params: json!({"tool_name": tool_name, "arguments": arguments}) }
    }

    /// Sets the folder that relative paths start at.
    #[must_use]
    pub fn with_cwd(self, folder: &str) -> Self {
        self.with("cwd", json!(folder))
    }

    /// Sets the time limit, including the wait for approval.
    #[must_use]
    pub fn with_deadline_ms(self, deadline_ms: u64) -> Self {
        self.with("deadline_ms", json!(deadline_ms))
    }

    /// Sets the idempotency key: the call runs once in 24 hours, and a repeat gets the recorded outcome.
    #[must_use]
    pub fn with_idempotency_key(self, key: &str) -> Self {
        self.with("idempotency_key", json!(key))
    }

    /// Lets the call outlive its connection. It needs an idempotency key.
    #[must_use]
    pub fn detached(self) -> Self {
        self.with("detached", json!(true))
    }

    /// Returns at once with an approval id if the call needs approval.
    #[must_use]
    pub fn without_waiting_for_approval(self) -> Self {
        self.with("approval", json!("async"))
    }

    /// Uses the decision on an approval that an earlier attempt of the same call requested.
    #[must_use]
    pub fn with_approval_id(self, id: &str) -> Self {
        self.with("approval_id", json!(id))
    }

    /// Sets the W3C `traceparent` that the call belongs to.
    #[must_use]
    pub fn with_traceparent(self, header: &str) -> Self {
        self.with("trace_ctx", json!(header))
    }

    fn with(mut self, key: &str, value: Value) -> Self {
        if let Some(params) = self.params.as_object_mut() {
            params.insert(key.to_owned(), value);
        }
        self
    }
}

impl Client {
    /// Calls a tool. A refused or failed call is a result, not an error.
    pub async fn call(&mut self, call: ToolCall) -> Result<ToolResult, ClientError> {
        self.call_with_progress(call, |_| {}).await
    }

    /// Like `call`, and passes the parameters of each progress notification to `on_progress`.
    pub async fn call_with_progress(
        &mut self,
        call: ToolCall,
        on_progress: impl FnMut(&Value),
    ) -> Result<ToolResult, ClientError> {
        let params = call.with("progress_token", json!("call")).params;
        let result = self.request_with_progress("sinew/execute", params, on_progress).await?;
        serde_json::from_value(result).map_err(|error| ClientError::InvalidReply(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_options_that_are_set_are_sent() {
        let plain = ToolCall::new("read_file", &json!({"path": "a"}));
        assert_eq!(plain.params, json!({"tool_name": "read_file", "arguments": {"path": "a"}}));
        let full = plain.with_cwd("/w").with_deadline_ms(5).with_idempotency_key("k").detached();
        let full = full.without_waiting_for_approval().with_approval_id("a").with_traceparent("00-1-2-01");
        let expect = json!({"tool_name": "read_file", "arguments": {"path": "a"}, "cwd": "/w", "deadline_ms": 5,
            "idempotency_key": "k", "detached": true, "approval": "async", "approval_id": "a",
            "trace_ctx": "00-1-2-01"});
        assert_eq!(full.params, expect);
    }
}
