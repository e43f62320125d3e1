//! A mapping with free keys, in the order of the file, each key with its place.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::Located;

/// A mapping whose keys are the file's own words. A key stands in it once: the reader refuses duplicates.
#[derive(Clone, Debug, PartialEq)]
pub struct Table<V> {
    entries: Vec<(Located<String>, V)>,
}

impl<V> Table<V> {
    /// The entries, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&Located<String>, &V)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Table { entries: Vec::new() }
    }
}

impl<V> IntoIterator for Table<V> {
    type Item = (Located<String>, V);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Table<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

struct Entries<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
    type Value = Table<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table<V>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Table { entries })
    }
}

impl<V: JsonSchema> JsonSchema for Table<V> {
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
