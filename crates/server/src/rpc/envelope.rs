//! The outermost object of a message, read straight into its four fields. What they may hold is not judged here.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};
use tool::strict_json::{self, JsonError, Strict};

use super::part::{Part, ReadPart};

pub(super) const FIELDS: [&str; 4] = ["jsonrpc", "id", "method", "params"];

/// Fields of a message; a field that is absent is `None`.
#[derive(Default)]
pub(super) struct Envelope<'a> {
    pub(super) jsonrpc: Option<Part<'a>>,
    pub(super) id: Option<Value>,
    pub(super) method: Option<Part<'a>>,
    pub(super) params: Option<Part<'a>>,
    /// The names of fields that no message has, in order; hashed, so that many cost no more than their length.
    pub(super) unknown: Map<String, Value>,
}

impl<'a> Envelope<'a> {
    /// Reads a text that begins as an object does, as strictly as [`strict_json::parse`].
    pub(super) fn read(text: &'a str) -> Result<Self, JsonError> {
        strict_json::parse_with(text, Reader)
    }

    fn fill<A: MapAccess<'a>>(&mut self, field: Field, entries: &mut A) -> Result<(), A::Error> {
        match field {
            Field::Jsonrpc => once(&mut self.jsonrpc, "jsonrpc", || entries.next_value_seed(ReadPart)),
            Field::Id => once(&mut self.id, "id", || entries.next_value_seed(Strict)),
            Field::Method => once(&mut self.method, "method", || entries.next_value_seed(ReadPart)),
            Field::Params => once(&mut self.params, "params", || entries.next_value_seed(ReadPart)),
            Field::Unknown(name) if self.unknown.contains_key(&name) => Err(strict_json::duplicate(&name)),
            Field::Unknown(name) => {
                entries.next_value_seed(Strict)?;
                self.unknown.insert(name, Value::Null);
                Ok(())
            }
        }
    }
}

fn once<T, E: Error>(slot: &mut Option<T>, name: &str, read: impl FnOnce() -> Result<T, E>) -> Result<(), E> {
    if slot.is_some() {
        return Err(strict_json::duplicate(name));
    }
    *slot = Some(read()?);
    Ok(())
}

struct Reader;

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = Envelope<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(field) = entries.next_key_seed(Name)? {
            envelope.fill(field, &mut entries)?;
        }
        Ok(envelope)
    }
}

enum Field {
    Jsonrpc,
    Id,
    Method,
    Params,
    Unknown(String),
}

/// Reads the name of a field. Those that are known are not copied.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Field;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Field, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Field, E> {
        Ok(match name {
            "jsonrpc" => Field::Jsonrpc,
            "id" => Field::Id,
            "method" => Field::Method,
            "params" => Field::Params,
            other => {
                Strict.check_text(other)?;
                Field::Unknown(other.to_owned())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_what_a_plain_reading_refuses_and_at_the_same_place() {
        for text in [
            "{",
            "{} x",
            "{}{}",
            " \t\r\n{\n \"id\": x}",
            r#"{"id":1,}"#,
            r#"{"id" 1}"#,
            r#"{id:1}"#,
            r#"{5:1}"#,
            r#"{"id":1,"id":2}"#,
            r#"{"id":null,"id":null}"#,
            r#"{"jsonrpc":"2.0","jsonrpc" : "2.0"}"#,
            r#"{"method":"a","m\u0065thod":"a"}"#,
            r#"{"params":{},"params":{}}"#,
            r#"{"é\n":1,"x":2,"é\n":3}"#,
            r#"{"id":"\u0000"}"#,
            r#"{"jsonrpc":"a\u0000b"}"#,
            r#"{"method":["\u0000"]}"#,
            r#"{"method":{"\u0000":1}}"#,
            r#"{"params":"\u0000"}"#,
            r#"{"params":{"x":"\u0000"}}"#,
            r#"{"params":{"x":1, "x" :2}}"#,
            r#"{"params":{"x":{"y":1,"y":2}}}"#,
            r#"{"\u0000":1}"#,
            r#"{"x":"\u0000"}"#,
            r#"{"x":{"a":1,"a":2}}"#,
            r#"{"params":1e400}"#,
            r#"{"method":tru}"#,
            &format!(r#"{{"params":{}"#, "[".repeat(127)),
            &format!(r#"{{"params":{{"x":{}"#, r#"{"x":"#.repeat(126)),
            &format!(r#"{{"jsonrpc":{}"#, "[".repeat(1000)),
        ] {
            let plain = strict_json::parse(text).expect_err(text);
            assert_eq!(Envelope::read(text).err(), Some(plain), "{text:.80}");
        }
    }
}
