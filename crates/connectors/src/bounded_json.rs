//! Bounded parsing of untrusted JSON. A short text can need much memory (an array of zeros takes twenty times
//! its length), so values are counted before parsing.

use knowledge::{KnowledgeError, KnowledgeFunction, WorkerPool};
use serde_json::Value;
use tool::strict_json;

/// Limit of values in a JSON text.
pub(crate) const MAX_JSON_VALUES: usize = 128 * 1024;

/// Reason why a text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonRejection {
    /// The text is not valid JSON.
    NotJson,
    /// The text has more values than the limit.
    TooManyValues,
}

/// Parses a text within the limit.
pub(crate) fn parse_bounded(text: &[u8]) -> Result<Value, JsonRejection> {
    if strict_json::count_values(text) > MAX_JSON_VALUES {
        return Err(JsonRejection::TooManyValues);
    }
    strict_json::parse_program_output(text).map_err(|_| JsonRejection::NotJson)
}

/// Runs a function and parses its output.
pub(crate) async fn compute(
    workers: &WorkerPool,
    function: &KnowledgeFunction,
    input: &Value,
) -> Result<Value, KnowledgeError> {
    let text = workers.compute(function, input).await?;
    parse_bounded(text.as_bytes()).map_err(|unfit| {
        let message = match unfit {
            JsonRejection::NotJson => "not JSON, or nested too deeply".to_owned(),
            JsonRejection::TooManyValues => format!("more than {MAX_JSON_VALUES} values"),
        };
        KnowledgeError::InvalidResult { kind: function.kind, id: function.id.to_string(), message }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn many_values_are_refused_and_long_text_is_parsed() {
        let zeros = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
        assert!(parse_bounded(zeros(MAX_JSON_VALUES - 1).as_bytes()).is_ok());
        assert_eq!(parse_bounded(zeros(MAX_JSON_VALUES + 1).as_bytes()), Err(JsonRejection::TooManyValues));
        let long = json!("[,{".repeat(MAX_JSON_VALUES));
        assert_eq!(parse_bounded(long.to_string().as_bytes()), Ok(long));
        assert_eq!(parse_bounded(b"{"), Err(JsonRejection::NotJson));
        let marked = json!({"$serde_json::private::RawValue": zeros(MAX_JSON_VALUES + 1)});
        assert_eq!(
            parse_bounded(marked.to_string().as_bytes()),
            Ok(marked),
            "text inside is not parsed as values"
        );
    }
}
