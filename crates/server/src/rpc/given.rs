//! The fields of one object by name: a handful as a rule, which are found faster in a list than by their hash.

use std::fmt;

use serde::de::MapAccess;
use serde_json::{Map, Value};
use tool::strict_json::{self, Strict};

/// Beyond this many they are hashed, so that a message of nothing but names costs no more than its length.
const FEW: usize = 16;
/// Usual number of fields of a method's parameters.
const USUAL: usize = 4;

/// Fields in the order they came, none twice.
pub(super) enum Given {
    Few(Vec<(String, Value)>),
    Many(Map<String, Value>),
}

impl Given {
    /// Reads an object as strictly as [`strict_json::parse`] does.
    pub(super) fn read<'de, A: MapAccess<'de>>(mut entries: A) -> Result<Self, A::Error> {
        let mut given = Given::default();
        while let Some(key) = entries.next_key::<String>()? {
            Strict.check_text(&key)?;
            if given.has(&key) {
                return Err(strict_json::duplicate(&key));
            }
            given.add(key, entries.next_value_seed(Strict)?);
        }
        Ok(given)
    }

    pub(super) fn take(&mut self, field: &str) -> Option<Value> {
        match self {
            Given::Few(fields) => {
                let place = fields.iter().position(|(key, _)| key == field)?;
                Some(fields.swap_remove(place).1)
            }
            Given::Many(fields) => fields.remove(field),
        }
    }

    /// Any field that has not been taken.
    pub(super) fn left_over(&self) -> Option<&str> {
        match self {
            Given::Few(fields) => fields.first().map(|(key, _)| key.as_str()),
            Given::Many(fields) => fields.keys().next().map(String::as_str),
        }
    }

    fn has(&self, field: &str) -> bool {
        match self {
            Given::Few(fields) => fields.iter().any(|(key, _)| key == field),
            Given::Many(fields) => fields.contains_key(field),
        }
    }

    fn add(&mut self, key: String, value: Value) {
        match self {
            Given::Few(fields) if fields.len() >= FEW => {
                let known = std::mem::take(fields).into_iter();
                *self = Given::Many(known.chain([(key, value)]).collect());
            }
            Given::Few(fields) => {
                if fields.capacity() == 0 {
                    fields.reserve_exact(USUAL);
                }
                fields.push((key, value));
            }
            Given::Many(fields) => {
                fields.insert(key, value);
            }
        }
    }
}

impl Default for Given {
    fn default() -> Self {
        Given::Few(Vec::new())
    }
}

impl From<Map<String, Value>> for Given {
    fn from(fields: Map<String, Value>) -> Self {
        Given::Many(fields)
    }
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Given::Few(fields) => {
                f.debug_map().entries(fields.iter().map(|(key, value)| (key, value))).finish()
            }
            Given::Many(fields) => f.debug_map().entries(fields).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::part::{Part, ReadPart};
    use super::*;

    /// An object with this many fields, `f0` and so on.
    fn object(fields: impl Iterator<Item = usize>) -> String {
        let fields: Vec<_> = fields.map(|number| format!("\"f{number}\":{number}")).collect();
        format!("{{{}}}", fields.join(","))
    }

    fn read(text: &str) -> Result<Given, String> {
        match strict_json::parse_with(text, ReadPart) {
            Ok(Part::Fields(given)) => Ok(given),
            Ok(_) => panic!("not an object"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_field_is_found_and_found_to_be_there_twice_however_many_there_are() {
        for many in [1, 2, FEW - 1, FEW, FEW + 1, FEW + 2, 1000] {
            let mut given = read(&object(0..many)).unwrap();
            let plain = strict_json::parse(&object(0..many)).unwrap();
            assert_eq!(format!("{given:?}"), format!("{:?}", plain.as_object().unwrap()), "the same order");
            assert_eq!(given.left_over(), Some("f0"));
            assert_eq!(given.take("none"), None);
            for number in 0..many {
                assert_eq!(given.take(&format!("f{number}")), Some(json!(number)), "{number} of {many}");
            }
            assert_eq!(given.left_over(), None);
            for twice in [0, many - 1] {
                let text = object((0..many).chain([twice]));
                let plain = strict_json::parse(&text).unwrap_err();
                assert_eq!(read(&text).unwrap_err(), plain.to_string());
            }
        }
    }

    #[test]
    fn many_fields_are_not_compared_with_one_another() {
        assert!(matches!(read(&object(0..FEW)).unwrap(), Given::Few(_)));
        assert!(matches!(read(&object(0..FEW + 1)).unwrap(), Given::Many(_)));
    }
}
