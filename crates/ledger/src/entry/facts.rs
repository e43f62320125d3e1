//! What the judge saw, as a record holds it: written once by whoever made the record, or read back from one.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use tool::json_text;

/// The facts of a decision. Every call waits for its record, so they come as the JSON they stand there as.
#[derive(Clone, Debug)]
pub enum Facts {
    /// Ready to be written.
    Written(json_text::Written),
    /// Taken from a record.
    Read(Value),
}

impl Facts {
    /// The same as a value.
    pub fn value(&self) -> Value {
        match self {
            Facts::Written(text) => serde_json::from_str(text.as_str()).unwrap_or(Value::Null),
            Facts::Read(value) => value.clone(),
        }
    }

    pub(super) fn is_none(&self) -> bool {
        matches!(self, Facts::Read(Value::Null))
    }
}

impl Default for Facts {
    fn default() -> Self {
        Facts::Read(Value::Null)
    }
}

/// However they came by it, what they say is what they are.
impl PartialEq for Facts {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl Serialize for Facts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Facts::Written(text) => text.serialize(serializer),
            Facts::Read(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Facts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Facts::Read)
    }
}
