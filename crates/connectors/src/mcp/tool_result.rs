//! Converts the result of an MCP `tools/call` into an output.

use manifest::OutputForm;
use serde_json::{Map, Value, json};

use super::content_block;
use crate::bounded_json::{self, JsonRejection};
use crate::error::McpError;

/// Result of a tool call on a server.
#[derive(Debug, PartialEq)]
pub(crate) struct McpToolResult {
    /// Outcome that the tool reports.
    pub(crate) outcome: McpToolOutcome,
    /// Content blocks, for MCP clients.
    pub(crate) content: Vec<Value>,
}

/// Outcome of a tool call on a server.
#[derive(Debug, PartialEq)]
pub(crate) enum McpToolOutcome {
    /// Output of the tool.
    Output(Value),
    /// Error reported by the tool.
    ToolError(Value),
}

/// Reads a result. Structured content takes precedence over text.
pub(crate) fn parse_result(mut result: Value, form: OutputForm) -> Result<McpToolResult, McpError> {
    let garbled = |reason: &str| McpError::ProtocolViolation(reason.to_owned());
    if result.get("resultType").is_some_and(|kind| kind != "complete") {
        return Err(garbled("it requests more input, which this client does not support"));
    }
    let is_error = result.get("isError") == Some(&Value::Bool(true));
    let content = match result.get_mut("content").map(Value::take) {
        Some(Value::Array(content)) => content,
        None if result.get("structuredContent").is_some() => Vec::new(),
        _ => return Err(garbled("a result without content")),
    };
    let content = content_block::checked_blocks(&content);
    if is_error {
        let outcome = McpToolOutcome::ToolError(json!({"is_error": true, "text": joined_text(&content)}));
        return Ok(McpToolResult { outcome, content });
    }
    let output = match (result.get_mut("structuredContent").map(Value::take), form) {
        (Some(structured), _) if !structured.is_null() => structured,
        (_, OutputForm::Json) => {
            bounded_json::parse_bounded(joined_text(&content).as_bytes()).map_err(|unfit| match unfit {
                JsonRejection::TooManyValues => McpError::TooManyValues(bounded_json::MAX_JSON_VALUES),
                JsonRejection::NotJson => {
                    garbled("its manifest states `output: json`, but its text is not JSON")
                }
            })?
        }
        (_, OutputForm::Text) => text_output(&content),
    };
    Ok(McpToolResult { outcome: McpToolOutcome::Output(output), content })
}

/// Returns the output of a tool without structured content: its texts, and the other blocks.
fn text_output(content: &[Value]) -> Value {
    let mut fields = Map::new();
    fields.insert("text".to_owned(), joined_text(content).into());
    let others: Vec<Value> = content.iter().filter(|block| !is_text(block)).cloned().collect();
    if !others.is_empty() {
        fields.insert("content".to_owned(), others.into());
    }
    Value::Object(fields)
}

fn is_text(block: &Value) -> bool {
    block.get("type").and_then(Value::as_str) == Some("text")
}

fn joined_text(content: &[Value]) -> String {
    let texts = content.iter().filter(|block| is_text(block)).filter_map(|block| block.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns true if `found` contains `expected`. Additional object members are permitted.
pub(crate) fn contains_json(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => expected
            .iter()
            .all(|(key, value)| found.get(key).is_some_and(|found| contains_json(found, value))),
        (found, expected) => found == expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structured_content_takes_precedence_over_text() {
        let gave = |value: Value| Some(McpToolOutcome::Output(value));
        let check = |result: Value, form, expect: Option<McpToolOutcome>| {
            let parsed = parse_result(result.clone(), form).ok();
            let content = parsed.as_ref().map(|parsed| Value::from(parsed.content.clone()));
            assert_eq!(parsed.map(|parsed| parsed.outcome), expect, "{result}");
            let sent = result.get("content").cloned().unwrap_or_else(|| json!([]));
            assert!(content.is_none_or(|content| content == sent), "the blocks pass: {result}");
        };
        let text = |text: &str| json!({"type": "text", "text": text});
        let (plain, json) = (OutputForm::Text, OutputForm::Json);
        check(json!({"content": [text("a"), text("b")]}), plain, gave(json!({"text": "a\nb"})));
        let image = json!({"type": "image", "data": "", "mimeType": "image/png"});
        check(json!({"content": [image]}), plain, gave(json!({"text": "", "content": [image]})));
        check(json!({"content": [text("{\"n\":1}")]}), json, gave(json!({"n": 1})));
        check(json!({"content": [text("no")]}), json, None);
        check(
            json!({"content": [text(&format!("[{}0]", "0,".repeat(bounded_json::MAX_JSON_VALUES)))]}),
            json,
            None,
        );
        check(json!({"content": [], "structuredContent": {"n": 1}}), plain, gave(json!({"n": 1})));
        check(json!({"structuredContent": [1], "resultType": "complete"}), plain, gave(json!([1])));
        check(json!({"content": [], "resultType": "input_required"}), plain, None);
        check(json!({}), plain, None);
        let complained = McpToolOutcome::ToolError(json!({"is_error": true, "text": "no"}));
        check(json!({"content": [text("no")], "isError": true}), json, Some(complained));
    }

    #[test]
    fn an_expected_answer_may_be_a_subset() {
        assert!(contains_json(
            &json!({"status": "ok", "n": {"a": 1, "b": 2}}),
            &json!({"status": "ok", "n": {"a": 1}})
        ));
        assert!(!contains_json(&json!({"status": "bad"}), &json!({"status": "ok"})));
        assert!(!contains_json(&json!("ok"), &json!({"status": "ok"})));
    }
}
