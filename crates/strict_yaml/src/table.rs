//! Mapping with free keys in file order, each key with its position.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::Located;

/// Mapping whose keys are chosen by the author of the file. The scan refuses duplicate keys.
#[derive(Clone, Debug, PartialEq)]
pub struct LocatedMap<V> {
    entries: Vec<(Located<String>, V)>,
}

impl<V> LocatedMap<V> {
    /// Returns the entries in file order.
    pub fn iter(&self) -> impl Iterator<Item = (&Located<String>, &V)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<V> Default for LocatedMap<V> {
    fn default() -> Self {
        LocatedMap { entries: Vec::new() }
    }
}

impl<V> IntoIterator for LocatedMap<V> {
    type Item = (Located<String>, V);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for LocatedMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LocatedMapVisitor(PhantomData))
    }
}

struct LocatedMapVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for LocatedMapVisitor<V> {
    type Value = LocatedMap<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LocatedMap<V>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(LocatedMap { entries })
    }
}

impl<V: JsonSchema> JsonSchema for LocatedMap<V> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<String, V>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, V>::json_schema(generator)
    }
}
