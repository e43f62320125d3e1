//! JSON serialised by this process, which need not be parsed again before it is embedded.

use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::value::RawValue;

/// Struct and field name by which `serde_json` marks a string that is already JSON.
pub(super) const RAW: &str = "$serde_json::private::RawValue";

/// Serialised text of one value. Created by `json_text::write`, or from a `RawValue` that `serde_json`
/// checked.
#[derive(Clone, Debug)]
pub struct Written(String);

impl Written {
    pub(super) fn new(json: String) -> Self {
        Written(json)
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Converts to the raw value of `serde_json`, which parses the text to check it.
    pub fn into_raw(self) -> Result<Box<RawValue>, serde_json::Error> {
        RawValue::from_string(self.0)
    }
}

impl From<Box<RawValue>> for Written {
    fn from(raw: Box<RawValue>) -> Self {
        Written(Box::<str>::from(raw).into())
    }
}

impl Serialize for Written {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct(RAW, 1)?;
        out.serialize_field(RAW, &self.0)?;
        out.end()
    }
}
