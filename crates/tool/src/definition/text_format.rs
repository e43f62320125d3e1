//! Formats of text arguments, named as in JSON Schema.

use schemars::JsonSchema;
use serde::Deserialize;

/// Text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Format")]
#[allow(missing_docs, reason = "the words are those of JSON Schema")]
pub enum TextFormat {
    Email,
    Uri,
    Date,
    Time,
    DateTime,
    Uuid,
    Ipv4,
    Ipv6,
    Hostname,
}

impl TextFormat {
    /// Returns the word used in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            TextFormat::Email => "email",
            TextFormat::Uri => "uri",
            TextFormat::Date => "date",
            TextFormat::Time => "time",
            TextFormat::DateTime => "date-time",
            TextFormat::Uuid => "uuid",
            TextFormat::Ipv4 => "ipv4",
            TextFormat::Ipv6 => "ipv6",
            TextFormat::Hostname => "hostname",
        }
    }
}
