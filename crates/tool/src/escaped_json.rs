//! JSON on one line that cannot mislead a terminal or a line reader: the output of `serde_json`, with hidden
//! characters escaped too.

use std::io;

use serde::Serialize;
use serde_json::ser::Formatter;

/// Appends a value without spaces. On error, part of the value remains in `out`; only a map whose keys are not
/// strings can fail.
pub fn append<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), serde_json::Error> {
    value.serialize(&mut serde_json::Serializer::with_formatter(out, EscapeHidden))
}

/// Returns true for control characters, line and paragraph separators, and characters that are invisible or
/// reorder text.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// Compact format in which hidden characters are written as `\uXXXX`.
struct EscapeHidden;

impl Formatter for EscapeHidden {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut written = 0;
        for (start, hidden) in fragment.match_indices(is_hidden) {
            out.write_all(fragment.get(written..start).unwrap_or_default().as_bytes())?;
            for unit in hidden.encode_utf16() {
                write!(out, "\\u{unit:04x}")?;
            }
            written = start + hidden.len();
        }
        out.write_all(fragment.get(written..).unwrap_or_default().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn text(value: &Value) -> String {
        let mut out = Vec::new();
        append(&mut out, value).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn hidden_characters_are_escaped_in_keys_and_strings() {
        let hostile = "plain é漢🦀 \n\"\\\u{7f}\u{85}\u{202e}\u{e0041}";
        let written = text(&json!({hostile: [hostile]}));
        assert!(written.contains(r#"plain é漢🦀 \n\"\\\u007f\u0085\u202e\udb40\udc41"#), "{written}");
        assert_eq!(written.chars().find(|c| is_hidden(*c)), None, "{written}");
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), json!({hostile: [hostile]}));
    }

    #[test]
    fn other_values_are_written_as_by_serde_json() {
        let value =
            json!({"": "", "n": [0, -1, u64::MAX, 1.5e300], "deep": {"a": [[[true, null]]]}, "é": "\t"});
        assert_eq!(text(&value), value.to_string());
    }
}
