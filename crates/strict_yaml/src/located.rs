//! Value with its position in a file, so that messages can name the line of a rule.

use std::borrow::Cow;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

/// Value with the line and column it was read from.
///
/// Inside an untagged or flattened type the position is lost (both numbers are 0): wrap the whole type
/// instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Line number from 1; 0 if unknown.
    pub line: u64,
    /// Column number from 1, in characters; 0 if unknown.
    pub column: u64,
}

impl<T> Located<T> {
    /// Creates a value that is not from a file.
    pub fn without_position(value: T) -> Self {
        Located { value, line: 0, column: 0 }
    }

    /// Converts the value and keeps its position.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Located<U> {
        Located { value: change(self.value), line: self.line, column: self.column }
    }
}

impl<T> Deref for Located<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Located<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<T>::deserialize(deserializer)?;
        let (line, column) = (spanned.referenced.line(), spanned.referenced.column());
        Ok(Located { value: spanned.value, line, column })
    }
}

// The position is not part of the file's schema.
impl<T: JsonSchema> JsonSchema for Located<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
