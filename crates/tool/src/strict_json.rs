//! Strict JSON parser: every accepted text has exactly one meaning.
//!
//! `serde_json` keeps the last of two equal keys, so a checker and an executor that parse differently see
//! different calls. This parser refuses the whole text if any object, at any depth, repeats a key, however
//! the key is escaped. It also refuses a NUL in a string or key: no tool needs one, and C interfaces truncate
//! text there.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

/// Maximum nesting depth. This is what serde_json's own limit of 128 admits, stated so that messages can name
/// it.
pub const MAX_DEPTH: usize = 127;

/// Parses one JSON value. Refuses duplicate keys, NUL characters, trailing text and deep nesting.
pub fn parse(text: &str) -> Result<Value, JsonError> {
    read(serde_json::Deserializer::from_str(text), JsonStrictness::Strict)
}

/// Parses the output of a program. The last of two equal keys wins, and NUL is allowed, because no other
/// parser reads the text. Trailing text and deep nesting are refused as in `parse`.
pub fn parse_program_output(text: &[u8]) -> Result<Value, JsonError> {
    read(serde_json::Deserializer::from_slice(text), JsonStrictness::ProgramOutput)
}

fn read<'de, R: serde_json::de::Read<'de>>(
    mut deserializer: serde_json::Deserializer<R>,
    strictness: JsonStrictness,
) -> Result<Value, JsonError> {
    let value = strictness.deserialize(&mut deserializer).map_err(JsonError::from)?;
    deserializer.end().map_err(JsonError::from)?;
    Ok(value)
}

/// Returns an upper bound of the number of values in a JSON text; an arbitrary number for any other text.
///
/// A parsed value takes about seventy bytes however short its text is, so with a byte limit alone a text like
/// `[0,0,0,…]` could grow thirtyfold in memory. Callers check this number before they parse untrusted text.
pub fn count_values(text: &[u8]) -> usize {
    let (mut count, mut in_string, mut escaped) = (1, false, false);
    for byte in text {
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

/// Error for a text that is not acceptable JSON, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line} column {column}")]
pub struct JsonError {
    /// Reason word for programs: `duplicate_key`, `nul`, `too_deep` or `syntax`.
    pub detail: &'static str,
    /// Description of the error.
    pub message: String,
    /// Line number, from 1.
    pub line: usize,
    /// Column number, from 1.
    pub column: usize,
}

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> Self {
        let text = error.to_string();
        // serde_json appends the position to its message; here it has its own fields.
        let message = text.split(" at line ").next().unwrap_or(&text).to_owned();
        let detail = if message.starts_with(DUPLICATE) {
            "duplicate_key"
        } else if message.starts_with(NUL) {
            "nul"
        } else if message.starts_with("recursion limit") {
            "too_deep"
        } else {
            "syntax"
        };
        let message =
            if detail == "too_deep" { format!("nested deeper than {MAX_DEPTH} levels") } else { message };
        JsonError { detail, message, line: error.line(), column: error.column() }
    }
}

const DUPLICATE: &str = "duplicate key";
const NUL: &str = "NUL character";

/// Set of checks to apply. As a seed it reads a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonStrictness {
    /// All checks: see `parse`.
    Strict,
    /// Checks for program output: see `parse_program_output`.
    ProgramOutput,
}

impl JsonStrictness {
    fn check_text<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        if self == JsonStrictness::Strict && text.as_bytes().contains(&0) {
            return Err(E::custom(format!("{NUL} in a string")));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for JsonStrictness {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonStrictness {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        self.check_text(text)?;
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            out.push(item);
        }
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.check_text(&key)?;
            match out.entry(key) {
                Entry::Occupied(mut known) if self == JsonStrictness::ProgramOutput => {
                    *known.get_mut() = entries.next_value_seed(self)?;
                }
                Entry::Occupied(known) => {
                    let key = known.key().escape_debug();
                    return Err(serde::de::Error::custom(format!("{DUPLICATE} `{key}`")));
                }
                // Inserting before the value is read avoids a second lookup of the key.
                Entry::Vacant(free) => *free.insert(Value::Null) = entries.next_value_seed(self)?,
            }
        }
        Ok(Value::Object(out))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn valid_text_is_unchanged() {
        let text = r#"{"b":[1,-2,2.5,true,null,"é\n"],"a":{"b":{}}}"#;
        assert_eq!(parse(text).unwrap(), json!({"b": [1, -2, 2.5, true, null, "é\n"], "a": {"b": {}}}));
        assert_eq!(parse(text).unwrap().to_string(), text, "key order is kept");
    }

    #[test]
    fn values_are_counted_outside_of_strings() {
        let check = |text: &str, expect: usize| assert_eq!(count_values(text.as_bytes()), expect, "{text}");
        check("0", 1);
        check("[0,0,0]", 4);
        check(r#"{"a,b[": "c\",{", "d": [1]}"#, 4);
        check(r#""\\",0"#, 2);
    }

    #[test]
    fn errors_state_reason_and_position() {
        let check = |text: &str, detail: &str| {
            let error = parse(text).unwrap_err();
            assert_eq!(error.detail, detail, "{text:.80}: {error}");
            error
        };
        check(r#"{"a":1,"a":2}"#, "duplicate_key");
        check(r#"{"x":[{"path":1,"p\u0061th":2}]}"#, "duplicate_key");
        check(r#"{"a":"x\u0000y"}"#, "nul");
        check(r#"{"a\u0000":1}"#, "nul");
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse(&nested(MAX_DEPTH)).is_ok(), "the stated depth is accepted");
        check(&nested(MAX_DEPTH + 1), "too_deep");
        check(&"[".repeat(100_000), "too_deep");
        check("{}{}", "syntax");
        check("1e400", "syntax");
        let error = check("{\n \"a\": x}", "syntax");
        assert_eq!((error.line, error.column), (2, 7));
    }

    #[test]
    fn program_output_has_one_meaning() {
        let read = |text: &str| parse_program_output(text.as_bytes());
        assert_eq!(read(r#"{"a":1,"a":[2],"b":"x\u0000"}"#).unwrap(), json!({"a": [2], "b": "x\0"}));
        // With its feature `raw_value`, `serde_json` would replace this object by the content of its string.
        let marked = json!({"$serde_json::private::RawValue": "[1]"});
        assert_eq!(read(&marked.to_string()).unwrap(), marked);
        assert_eq!(serde_json::from_value::<Value>(marked.clone()).unwrap(), marked);
        assert_eq!(read("[1] 2").unwrap_err().detail, "syntax");
        assert_eq!(parse_program_output(b"\"\xff\"").unwrap_err().detail, "syntax");
    }
}
