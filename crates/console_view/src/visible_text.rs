//! Escapes invisible characters, so that a text cannot look like another one.

use std::borrow::Cow;

use serde_json::Value;
use tool::text::is_invisible;

/// Returns the text with invisible characters as `\u{…}`. Line feeds and tabs stay as they are.
pub fn visible(text: &str) -> Cow<'_, str> {
    let hides = |c: char| is_invisible(c) && c != '\n' && c != '\t';
    if !text.contains(hides) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if hides(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    Cow::Owned(shown)
}

/// Escapes every string of a value, keys included.
pub fn visible_json(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(visible(text).into_owned()),
        Value::Array(items) => items.iter().map(visible_json).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(key, field)| (visible(key).into_owned(), visible_json(field))).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn direction_marks_and_controls_are_shown() {
        for (text, expect) in [
            ("plain é 漢字", "plain é 漢字"),
            ("a\nb\tc", "a\nb\tc"),
            ("user\u{202e}gpj.exe", "user\\u{202e}gpj.exe"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("zero\u{200b}width", "zero\\u{200b}width"),
        ] {
            assert_eq!(visible(text), expect);
        }
        let nested = json!({"k\u{202e}": ["\u{7}", 1, null]});
        assert_eq!(visible_json(&nested), json!({"k\\u{202e}": ["\\u{7}", 1, null]}));
    }
}
