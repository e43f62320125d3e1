//! Facts behind a decision, either as JSON text for writing or as a value read from the ledger.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use tool::json_text;

/// Facts of a decision. Every call waits for its record, so new facts are passed as finished JSON text.
#[derive(Clone, Debug)]
pub enum Facts {
    /// JSON text ready to be written.
    Written(json_text::Written),
    /// Value read from a record.
    Read(Value),
}

impl Facts {
    /// Returns the facts as a JSON value.
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

/// Compares the JSON values, regardless of the representation.
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
