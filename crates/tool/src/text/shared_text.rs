//! Immutable text that many records of a call repeat, shared instead of copied.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// Immutable text with shared ownership. A clone does not copy it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SharedText(Arc<str>);

impl SharedText {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for SharedText {
    fn default() -> Self {
        "".into()
    }
}

// The schema is that of a plain string.
impl JsonSchema for SharedText {
    fn inline_schema() -> bool {
        String::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for SharedText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self)
    }
}

impl<T: Into<Arc<str>>> From<T> for SharedText {
    fn from(text: T) -> Self {
        SharedText(text.into())
    }
}

impl PartialEq<str> for SharedText {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for SharedText {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<SharedText> for String {
    fn eq(&self, other: &SharedText) -> bool {
        self.as_str() == other.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_text_serialises_as_a_string() {
        let text = SharedText::from("a\"b");
        assert_eq!(serde_json::to_string(&text).unwrap(), r#""a\"b""#);
        assert_eq!(serde_json::from_str::<SharedText>(r#""a\"b""#).unwrap(), text);
        assert_eq!(schemars::schema_for!(SharedText), schemars::schema_for!(String));
        assert!(Arc::ptr_eq(&text.0, &text.clone().0), "shared, not copied");
    }
}
