//! Limit on the number of values in a JSON text, checked before parsing. A parsed value takes about seventy
//! bytes however short its text is, so with a byte limit alone a line of `[0,0,0,…]` could grow thirtyfold in
//! memory.

/// Maximum number of values in one message. A typical tool call has fewer than ten.
pub(crate) const MOST_VALUES: usize = 100_000;

/// Returns true if a text has at most `MAX_VALUES` values.
pub(crate) fn is_light(text: &str) -> bool {
    // Each value takes at least one byte, so a text this short cannot exceed the limit.
    text.len() <= MOST_VALUES || values(text) <= MOST_VALUES
}

/// Returns an upper bound of the number of values in a JSON text; an arbitrary number for any other text.
fn values(text: &str) -> usize {
    let (mut count, mut in_string, mut escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' | b',' if !in_string => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn exactly(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(exactly).sum::<usize>(),
            Value::Object(map) => 1 + map.values().map(exactly).sum::<usize>(),
            _ => 1,
        }
    }

    #[test]
    fn every_value_is_counted() {
        for text in [
            "1",
            "[]",
            "[[],[],{}]",
            r#"{"a":[1,2,3],"b":{"c":"x,[{"}}"#,
            r#"["\"","\\",",,,,","\\\"[[[["]"#,
            r#"[{"a":1},{"b":[{}]},null,true]"#,
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            let (counted, exact) = (values(text), exactly(&value));
            assert!((exact..=2 * exact).contains(&counted), "{text}: {counted} for {exact}");
        }
        assert_eq!(values(&format!("\"{}\"", ",[{".repeat(1000))), 1, "text is not structure");
    }

    #[test]
    fn value_limit_ignores_text_length() {
        assert!(is_light(&format!("[\"{}\"]", "x,".repeat(MOST_VALUES))));
        assert!(is_light(&format!("[0{}]", ",0".repeat(MOST_VALUES - 2))));
        assert!(!is_light(&format!("[0{}]", ",0".repeat(MOST_VALUES - 1))));
        assert!(!is_light(&"[".repeat(MOST_VALUES + 1)));
    }
}
