//! One log record: what a `tracing` event says, bounded and redacted.

use std::borrow::Cow;
use std::fmt::{Debug, Write};
use std::sync::Arc;

use jiff::Timestamp;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use crate::event;
use crate::redact::{self, Redactor};
use crate::within::CallIds;

/// Longer texts are cut; the log is no place for content.
const TEXT_LIMIT: usize = 16 * 1024;
/// Of a longer text only this much is looked at, so that a huge one costs little.
const SCAN_LIMIT: usize = 4 * TEXT_LIMIT;
/// A record may have this much text in all.
const RECORD_LIMIT: usize = 4 * TEXT_LIMIT;

/// The keys every line has or may have; a field of the same name is written as `field.NAME`.
const RESERVED: [&str; 7] = ["time", "level", "event", "message", "target", "trace_id", "span_id"];

#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) time: Timestamp,
    pub(crate) level: Level,
    pub(crate) target: &'static str,
    /// The stable name, for the events of this crate.
    pub(crate) event: Option<&'static str>,
    pub(crate) message: Option<String>,
    pub(crate) trace_id: Option<String>,
    pub(crate) span_id: Option<String>,
    pub(crate) fields: Vec<(Cow<'static, str>, Value)>,
}

impl Record {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let metadata = event.metadata();
        let ours = metadata.target() == event::TARGET;
        let mut collector = Collector {
            redactor: redact::shared(),
            ours,
            left: RECORD_LIMIT,
            message: None,
            trace_id: None,
            span_id: None,
            fields: Vec::with_capacity(12),
        };
        event.record(&mut collector);
        Record {
            time: Timestamp::now(),
            level: *metadata.level(),
            target: metadata.target(),
            event: ours.then(|| metadata.name()),
            message: collector.message,
            trace_id: collector.trace_id,
            span_id: collector.span_id,
            fields: collector.fields,
        }
    }

    /// Takes the place in the trace from the call the event happened in.
    pub(super) fn adopt(&mut self, ids: Option<CallIds>) {
        if let Some(ids) = ids {
            self.trace_id = Some(ids.trace_id);
            self.span_id = Some(ids.span_id);
        }
    }

    /// The members every line has, in the order they are written.
    fn head(&self) -> impl Iterator<Item = (&'static str, Cow<'_, str>)> {
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

    /// The line's object.
    pub(crate) fn as_map(&self) -> Map<String, Value> {
        let head = self.head().map(|(key, value)| (key.to_owned(), Value::String(value.into_owned())));
        let fields = self.fields.iter().map(|(key, value)| (key.clone().into_owned(), value.clone()));
        head.chain(fields).collect()
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.head() {
            map.serialize_entry(key, &value)?;
        }
        for (key, value) in &self.fields {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

struct Collector {
    redactor: Arc<Redactor>,
    ours: bool,
    left: usize,
    message: Option<String>,
    trace_id: Option<String>,
    span_id: Option<String>,
    fields: Vec<(Cow<'static, str>, Value)>,
}

impl Collector {
    fn put(&mut self, field: &Field, value: Value) {
        let name = field.name();
        let name =
            if RESERVED.contains(&name) { Cow::Owned(format!("field.{name}")) } else { Cow::Borrowed(name) };
        self.fields.push((name, value));
    }

    fn text(&mut self, field: &Field, text: &str) {
        let name = field.name();
        let text = self.bounded(name, text);
        match name {
            "message" => self.message = Some(text),
            // Ids are free of anything else, also when another crate uses the names.
            "trace_id" if is_hex(&text, 32) => self.trace_id = Some(text),
            "span_id" if is_hex(&text, 16) => self.span_id = Some(text),
            _ => {
                let parsed = (self.ours && event::STRUCTURED.contains(&name))
                    .then(|| serde_json::from_str::<Value>(&text).ok())
                    .flatten();
                self.put(field, parsed.unwrap_or(Value::String(text)));
            }
        }
    }

    /// The text without secrets and of a length fit for a log. Redacted before it is cut: half a secret is no
    /// longer recognised as one.
    fn bounded(&mut self, name: &str, text: &str) -> String {
        let scanned = clip(text, SCAN_LIMIT);
        let mut clean = self.redactor.redact_field(name, scanned).unwrap_or_else(|| scanned.to_owned());
        if scanned.len() < text.len() {
            // The last word may be the first half of a secret.
            let end = clean.rfind(char::is_whitespace).unwrap_or(0);
            clean.truncate(end);
        }
        let limit = TEXT_LIMIT.min(self.left);
        if clean.len() > limit || scanned.len() < text.len() {
            let kept = clip(&clean, limit).len();
            clean.truncate(kept);
            let _ = write!(clean, "… [{} bytes in all]", text.len());
        }
        self.left = self.left.saturating_sub(clean.len());
        clean
    }
}

impl Visit for Collector {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, json!(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, json!(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, json!(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, json!(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_error(&mut self, field: &Field, error: &(dyn std::error::Error + 'static)) {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(next) = cause {
            let _ = write!(text, ": {next}");
            cause = next.source();
        }
        self.text(field, &text);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field, &format!("{value:?}"));
    }
}

fn clip(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or(text)
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}
