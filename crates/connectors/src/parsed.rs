//! Bounded parsing of untrusted JSON. A short text can need much memory (an array of zeros takes twenty times
//! its length), so values are counted before parsing.

use knowledge::{Function, KnowledgeError, Workers};
use serde_json::Value;
use tool::strict_json;

/// Limit of values in a JSON text.
pub(crate) const MOST_VALUES: usize = 128 * 1024;

/// Reason why a text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// The text is not valid JSON.
    NotJson,
    /// The text has more values than the limit.
    TooMany,
}

/// Parses a text within the limit.
pub(crate) fn value(text: &[u8]) -> Result<Value, Unfit> {
    if strict_json::count_values(text) > MOST_VALUES {
        return Err(Unfit::TooMany);
    }
    strict_json::parse_answer(text).map_err(|_| Unfit::NotJson)
}

/// Runs a function and parses its output.
pub(crate) async fn computed(
    workers: &Workers,
    function: &Function,
    input: &Value,
) -> Result<Value, KnowledgeError> {
    let text = workers.compute(function, input).await?;
    value(text.as_bytes()).map_err(|unfit| {
        let message = match unfit {
            Unfit::NotJson => "not JSON, or nested too deeply".to_owned(),
            Unfit::TooMany => format!("more than {MOST_VALUES} values"),
        };
        KnowledgeError::Shape { kind: function.kind, id: function.id.to_string(), message }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn many_values_are_refused_and_long_text_is_parsed() {
        let zeros = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
        assert!(value(zeros(MOST_VALUES - 1).as_bytes()).is_ok());
        assert_eq!(value(zeros(MOST_VALUES + 1).as_bytes()), Err(Unfit::TooMany));
        let long = json!("[,{".repeat(MOST_VALUES));
        assert_eq!(value(long.to_string().as_bytes()), Ok(long));
        assert_eq!(value(b"{"), Err(Unfit::NotJson));
        let marked = json!({"$serde_json::private::RawValue": zeros(MOST_VALUES + 1)});
        assert_eq!(value(marked.to_string().as_bytes()), Ok(marked), "text inside is not parsed as values");
    }
}
