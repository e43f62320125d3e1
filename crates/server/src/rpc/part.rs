//! Value of one field of a message, read without avoidable work: a text is not copied, and the keys of an
//! object are not hashed.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use tool::strict_json::Strict;

use super::given::Given;

/// Value of one field.
pub(super) enum Part<'a> {
    Text(Cow<'a, str>),
    Fields(Given),
    Other(Value),
}

/// Reads one as strictly as [`tool::strict_json::parse`] does.
pub(super) struct ReadPart;

impl<'de> DeserializeSeed<'de> for ReadPart {
    type Value = Part<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Part<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ReadPart {
    type Value = Part<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Part<'de>, E> {
        Strict.check_text(text)?;
        Ok(Part::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Part<'de>, E> {
        Strict.check_text(text)?;
        Ok(Part::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Part<'de>, A::Error> {
        Given::read(entries).map(Part::Fields)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Part<'de>, A::Error> {
        Strict.deserialize(SeqAccessDeserializer::new(items)).map(Part::Other)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Part<'de>, E> {
        Ok(Part::Other(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Part<'de>, E> {
        Ok(Part::Other(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Part<'de>, E> {
        Ok(Part::Other(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Part<'de>, E> {
        Ok(Part::Other(value.into()))
    }

    fn visit_unit<E: Error>(self) -> Result<Part<'de>, E> {
        Ok(Part::Other(Value::Null))
    }
}
