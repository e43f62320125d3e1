//! How many values a text holds, before it is read. A parsed value takes some seventy bytes however short it is
//! written, so that a limit on bytes alone would let a line of `[0,0,0,…]` grow thirtyfold.

/// The most values one message may hold. A tool call has a handful.
pub(crate) const MOST_VALUES: usize = 100_000;

/// Whether a text holds at most [`MOST_VALUES`] values.
pub(crate) fn is_light(text: &str) -> bool {
    // Each value but the first follows a bracket or a comma, and takes a byte of its own.
    text.len() <= MOST_VALUES || values(text) <= MOST_VALUES
}

/// At least the number of values in a JSON text; for any other text some number.
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
    fn no_value_escapes_the_count() {
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
    fn the_limit_is_for_structure_not_for_length() {
        assert!(is_light(&format!("[\"{}\"]", "x,".repeat(MOST_VALUES))));
        assert!(is_light(&format!("[0{}]", ",0".repeat(MOST_VALUES - 2))));
        assert!(!is_light(&format!("[0{}]", ",0".repeat(MOST_VALUES - 1))));
        assert!(!is_light(&"[".repeat(MOST_VALUES + 1)));
    }
}
