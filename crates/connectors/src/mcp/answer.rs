//! Converts the result of an MCP `tools/call` into an output.

use manifest::OutputForm;
use serde_json::{Map, Value, json};

use crate::error::McpError;
use crate::parsed::{self, Unfit};

/// Result of a tool call on a server.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// Output of the tool.
    Gave(Value),
    /// Error reported by the tool.
    Complained(Value),
}

/// Reads a result. Structured content takes precedence over text.
pub(crate) fn read(mut result: Value, form: OutputForm) -> Result<Answer, McpError> {
    let garbled = |why: &str| McpError::Garbled(why.to_owned());
    if result.get("resultType").is_some_and(|kind| kind != "complete") {
        return Err(garbled("it requests more input, which this client does not support"));
    }
    let is_error = result.get("isError") == Some(&Value::Bool(true));
    let content = match result.get_mut("content").map(Value::take) {
        Some(Value::Array(content)) => content,
        None if result.get("structuredContent").is_some() => Vec::new(),
        _ => return Err(garbled("a result without content")),
    };
    if is_error {
        return Ok(Answer::Complained(json!({"is_error": true, "text": text_of(&content)})));
    }
    match (result.get_mut("structuredContent").map(Value::take), form) {
        (Some(structured), _) if !structured.is_null() => Ok(Answer::Gave(structured)),
        (_, OutputForm::Json) => {
            parsed::value(text_of(&content).as_bytes()).map(Answer::Gave).map_err(|unfit| match unfit {
                Unfit::TooMany => McpError::TooMany(parsed::MOST_VALUES),
                Unfit::NotJson => garbled("its manifest states `output: json`, but its text is not JSON"),
            })
        }
        (_, OutputForm::Text) => {
            let mut fields = Map::new();
            fields.insert("text".to_owned(), text_of(&content).into());
            let others: Vec<Value> = content.into_iter().filter(|block| !is_text(block)).collect();
            if !others.is_empty() {
                fields.insert("content".to_owned(), others.into());
            }
            Ok(Answer::Gave(Value::Object(fields)))
        }
    }
}

fn is_text(block: &Value) -> bool {
    block.get("type").and_then(Value::as_str) == Some("text")
}

fn text_of(content: &[Value]) -> String {
    let texts = content.iter().filter(|block| is_text(block)).filter_map(|block| block.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns true if `found` contains `expected`. Additional object members are permitted.
pub(crate) fn has(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            expected.iter().all(|(key, value)| found.get(key).is_some_and(|found| has(found, value)))
        }
        (found, expected) => found == expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structured_content_takes_precedence_over_text() {
        let gave = |value: Value| Some(Answer::Gave(value));
        let check =
            |result: Value, form, expect| assert_eq!(read(result.clone(), form).ok(), expect, "{result}");
        let text = |text: &str| json!({"type": "text", "text": text});
        let (plain, json) = (OutputForm::Text, OutputForm::Json);
        check(json!({"content": [text("a"), text("b")]}), plain, gave(json!({"text": "a\nb"})));
        let image = json!({"type": "image", "data": "", "mimeType": "image/png"});
        check(json!({"content": [image]}), plain, gave(json!({"text": "", "content": [image]})));
        check(json!({"content": [text("{\"n\":1}")]}), json, gave(json!({"n": 1})));
        check(json!({"content": [text("no")]}), json, None);
        check(json!({"content": [text(&format!("[{}0]", "0,".repeat(parsed::MOST_VALUES)))]}), json, None);
        check(json!({"content": [], "structuredContent": {"n": 1}}), plain, gave(json!({"n": 1})));
        check(json!({"structuredContent": [1], "resultType": "complete"}), plain, gave(json!([1])));
        check(json!({"content": [], "resultType": "input_required"}), plain, None);
        check(json!({}), plain, None);
        let complained = Answer::Complained(json!({"is_error": true, "text": "no"}));
        check(json!({"content": [text("no")], "isError": true}), json, Some(complained));
    }

    #[test]
    fn an_expected_answer_may_be_a_subset() {
        assert!(has(
            &json!({"status": "ok", "n": {"a": 1, "b": 2}}),
            &json!({"status": "ok", "n": {"a": 1}})
        ));
        assert!(!has(&json!({"status": "bad"}), &json!({"status": "ok"})));
        assert!(!has(&json!("ok"), &json!({"status": "ok"})));
    }
}
