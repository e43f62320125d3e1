//! JSON that is written already, and was by nobody else: it needs not be read again to be known as such.

use serde::ser::{Serialize, SerializeStruct, Serializer};
use serde_json::value::RawValue;

/// By this name `serde_json` says, and is told, that a text is JSON already.
pub(super) const RAW: &str = "$serde_json::private::RawValue";

/// The text of one value, as it goes into others. Made by [`write`](super::write), or of what `serde_json` has looked at.
#[derive(Clone, Debug)]
pub struct Written(String);

impl Written {
    pub(super) fn new(json: String) -> Self {
        Written(json)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The same for whoever works with `serde_json`, which reads it first.
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
