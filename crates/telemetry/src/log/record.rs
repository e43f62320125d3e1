//! Log record: the content of a `tracing` event, bounded and redacted.

use std::borrow::Cow;
use std::fmt::Write;

use jiff::Timestamp;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};
use tracing::Level;

use super::captured_event::{CapturedEvent, FieldValue};
use crate::event;
use crate::redact::Redactor;

/// Maximum size of a text in bytes. The log is not meant for content.
const TEXT_LIMIT: usize = 16 * 1024;
/// Number of bytes of a text that are scanned, which bounds the cost of a huge text.
pub(super) const SCAN_LIMIT: usize = 4 * TEXT_LIMIT;
/// Maximum size of all texts of a record in bytes.
const RECORD_LIMIT: usize = 4 * TEXT_LIMIT;

/// Standard keys of a line; a field of the same name is written as `field.NAME`.
const RESERVED_KEYS: [&str; 7] = ["time", "level", "event", "message", "target", "trace_id", "span_id"];

#[derive(Debug, Clone)]
pub(crate) struct LogEntry {
    pub(crate) time: Timestamp,
    pub(crate) level: Level,
    pub(crate) target: &'static str,
    /// Stable name, for events of this crate.
    pub(crate) event: Option<&'static str>,
    pub(crate) message: Option<String>,
    pub(crate) trace_id: Option<String>,
    pub(crate) span_id: Option<String>,
    pub(crate) fields: Vec<(Cow<'static, str>, Value)>,
}

impl LogEntry {
    /// Builds the bounded and redacted record of a captured event.
    pub(super) fn from_event(received: CapturedEvent) -> Self {
        let is_own_event = received.is_ours();
        let record = LogEntry {
            time: received.time,
            level: *received.metadata.level(),
            target: received.metadata.target(),
            event: is_own_event.then(|| received.metadata.name()),
            message: None,
            trace_id: None,
            span_id: None,
            fields: Vec::with_capacity(received.fields.len()),
        };
        let mut builder =
            RecordBuilder { redactor: &received.redactor, is_own_event, bytes_left: RECORD_LIMIT, record };
        for (name, value) in received.fields {
            match value {
                FieldValue::Text { start, full_length: bytes } => builder.push_text(name, &start, bytes),
                FieldValue::Scalar(scalar) => builder.push_field(name, scalar),
            }
        }
        let mut record = builder.record;
        if let (None, Some(ids)) = (&record.trace_id, received.call_ids) {
            record.trace_id = Some(ids.trace_id.to_string());
            record.span_id = Some(ids.span_id.to_string());
        }
        record
    }

    /// Builds an error record in place of one that could not be built.
    pub(super) fn from_message(text: &str) -> Self {
        LogEntry {
            time: Timestamp::now(),
            level: Level::ERROR,
            target: "sinew",
            event: None,
            message: Some(text.to_owned()),
            trace_id: None,
            span_id: None,
            fields: Vec::new(),
        }
    }

    /// Returns the standard members of a line, in the order they are written.
    fn standard_members(&self) -> impl Iterator<Item = (&'static str, Cow<'_, str>)> {
        let members = [
            ("time", Some(Cow::Owned(format!("{:.3}", self.time)))),
            ("level", Some(Cow::Borrowed(self.level.as_str()))),
            ("event", self.event.map(Cow::Borrowed)),
            ("message", self.message.as_deref().map(Cow::Borrowed)),
            ("target", Some(Cow::Borrowed(self.target))),
            ("trace_id", self.trace_id.as_deref().map(Cow::Borrowed)),
            ("span_id", self.span_id.as_deref().map(Cow::Borrowed)),
        ];
        members.into_iter().filter_map(|(key, value)| Some((key, value?)))
    }

    /// Converts the record into a JSON object.
    pub(crate) fn to_map(&self) -> Map<String, Value> {
        let head =
            self.standard_members().map(|(key, value)| (key.to_owned(), Value::String(value.into_owned())));
        let fields = self.fields.iter().map(|(key, value)| (key.clone().into_owned(), value.clone()));
        head.chain(fields).collect()
    }
}

impl Serialize for LogEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.standard_members() {
            map.serialize_entry(key, &value)?;
        }
        for (key, value) in &self.fields {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// Builder of a record, text by text.
struct RecordBuilder<'a> {
    redactor: &'a Redactor,
    is_own_event: bool,
    bytes_left: usize,
    record: LogEntry,
}

impl RecordBuilder<'_> {
    fn push_field(&mut self, name: &'static str, value: Value) {
        let name = if RESERVED_KEYS.contains(&name) {
            Cow::Owned(format!("field.{name}"))
        } else {
            Cow::Borrowed(name)
        };
        self.record.fields.push((name, value));
    }

    /// Adds a text, given its scanned part and its full length.
    fn push_text(&mut self, name: &'static str, scanned: &str, bytes: usize) {
        let text = self.redact_and_clip(name, scanned, bytes);
        match name {
            "message" => self.record.message = Some(text),
            // These keys only hold valid ids, even if another crate uses the names.
            "trace_id" if is_hex(&text, 32) => self.record.trace_id = Some(text),
            "span_id" if is_hex(&text, 16) => self.record.span_id = Some(text),
            _ => {
                let parsed = (self.is_own_event && event::JSON_FIELDS.contains(&name))
                    .then(|| serde_json::from_str::<Value>(&text).ok())
                    .flatten();
                self.push_field(name, parsed.unwrap_or(Value::String(text)));
            }
        }
    }

    /// Redacts a text, then cuts it to the limit. Redaction comes first, because a detector does not
    /// recognize half a secret.
    fn redact_and_clip(&mut self, name: &str, scanned: &str, bytes: usize) -> String {
        let mut clean = self.redactor.redact_field(name, scanned).unwrap_or_else(|| scanned.to_owned());
        if scanned.len() < bytes {
            // The last word may be the first half of a secret.
            let end = clean.rfind(char::is_whitespace).unwrap_or(0);
            clean.truncate(end);
        }
        let limit = TEXT_LIMIT.min(self.bytes_left);
        if clean.len() > limit || scanned.len() < bytes {
            let length = clip(&clean, limit).len();
            clean.truncate(length);
            let _ = write!(clean, "… [{bytes} bytes in total]");
        }
        self.bytes_left = self.bytes_left.saturating_sub(clean.len());
        clean
    }
}

pub(super) fn clip(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or(text)
}

pub(super) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}
