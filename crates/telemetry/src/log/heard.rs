//! Captured events, stored unprocessed until a writer thread processes them, so that calls do not wait.
//!
//! No output gets a captured event: only a `LogEntry`, which is bounded and redacted, can be written or sent.

use std::fmt::{Debug, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jiff::Timestamp;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata};

use super::record::{Record, SCAN_LIMIT, clip, is_hex};
use crate::event;
use crate::redact::{self, Redactor};
use crate::within::{self, CallIds};

/// Memory of an event besides its texts, in bytes.
const OVERHEAD: usize = 512;
/// Total text size of most events, in bytes.
const USUAL_TEXTS: usize = 256;

/// Captured `tracing` event before redaction.
pub(super) struct Heard {
    pub(super) time: Timestamp,
    pub(super) metadata: &'static Metadata<'static>,
    /// Redactor in force when the event occurred; a later policy applies to later events.
    pub(super) redactor: Arc<Redactor>,
    pub(super) said: Vec<(&'static str, Said)>,
    /// All texts, concatenated. Memory allocated on one thread and freed on another is expensive, so there is
    /// one allocation for all.
    pub(super) texts: String,
    /// Ids of the current call, if the event does not name a trace itself.
    pub(super) within: Option<CallIds>,
}

pub(super) enum Said {
    Text(Text),
    /// Value that cannot hold a secret.
    Plain(Plain),
}

/// Number or boolean, smaller than a `serde_json::Value`.
pub(super) enum Plain {
    Float(f64),
    Signed(i64),
    Unsigned(u64),
    Truth(bool),
}

impl From<Plain> for Value {
    fn from(plain: Plain) -> Value {
        match plain {
            Plain::Float(number) => json!(number),
            Plain::Signed(number) => json!(number),
            Plain::Unsigned(number) => json!(number),
            Plain::Truth(truth) => json!(truth),
        }
    }
}

/// Text of an event, limited to the part that is scanned for secrets.
pub(super) struct Text {
    /// Range of the scanned part within all texts.
    pub(super) place: Range<usize>,
    /// Length of the complete text in bytes.
    pub(super) bytes: usize,
}

impl Text {
    /// Returns the part of the text that is scanned.
    pub(super) fn start<'a>(&self, texts: &'a str) -> &'a str {
        texts.get(self.place.clone()).unwrap_or_default()
    }
}

/// Record that is built on first use, once for all outputs.
pub(crate) struct Pending {
    heard: Mutex<Option<Heard>>,
    record: OnceLock<Record>,
    /// Memory used while queued, in bytes.
    pub(super) weight: usize,
}

impl Pending {
    pub(super) fn new(heard: Heard) -> Self {
        let weight = heard.weight();
        Pending { heard: Mutex::new(Some(heard)), record: OnceLock::new(), weight }
    }

    #[cfg(test)]
    pub(super) fn saying(text: &str) -> Self {
        let record = OnceLock::from(Record::saying(text));
        Pending { heard: Mutex::default(), record, weight: text.len() }
    }

    pub(super) fn record(&self) -> &Record {
        self.record.get_or_init(|| {
            let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner).take();
            // The event is taken only here and only once, so it is present unless building its record
            // panicked.
            heard.map_or_else(|| Record::saying("an event could not be written"), Record::of)
        })
    }
}

impl Heard {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let mut heard = Heard {
            time: Timestamp::now(),
            metadata: event.metadata(),
            redactor: redact::shared(),
            said: Vec::with_capacity(12),
            texts: String::with_capacity(USUAL_TEXTS),
            within: None,
        };
        event.record(&mut heard);
        if !heard.names_a_trace() {
            heard.within = within::current();
        }
        heard
    }

    /// Returns true for events of this crate.
    pub(super) fn is_ours(&self) -> bool {
        self.metadata.target() == event::TARGET
    }

    fn names_a_trace(&self) -> bool {
        let named = |(name, said): &(&str, Said)| {
            *name == "trace_id" && matches!(said, Said::Text(text) if is_hex(text.start(&self.texts), 32))
        };
        self.said.iter().any(named)
    }

    fn weight(&self) -> usize {
        self.texts.len() + OVERHEAD
    }

    fn text(&mut self, field: &Field, text: &str) {
        let start = self.texts.len();
        self.texts.push_str(clip(text, SCAN_LIMIT));
        let place = start..self.texts.len();
        self.said.push((field.name(), Said::Text(Text { place, bytes: text.len() })));
    }

    /// Formats a text directly into the shared buffer.
    fn written(&mut self, field: &Field, text: std::fmt::Arguments<'_>) {
        let start = self.texts.len();
        let _ = self.texts.write_fmt(text);
        let whole = self.texts.get(start..).unwrap_or_default();
        let (bytes, kept) = (whole.len(), clip(whole, SCAN_LIMIT).len());
        if kept < bytes {
            self.texts.truncate(start + kept);
            // A long text may have allocated megabytes, and the event waits in a queue.
            self.texts.shrink_to_fit();
        }
        let place = start..self.texts.len();
        self.said.push((field.name(), Said::Text(Text { place, bytes })));
    }

    fn plain(&mut self, field: &Field, value: Plain) {
        self.said.push((field.name(), Said::Plain(value)));
    }
}

impl Visit for Heard {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.plain(field, Plain::Float(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.plain(field, Plain::Signed(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.plain(field, Plain::Unsigned(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.plain(field, Plain::Truth(value));
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
        self.written(field, format_args!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_without_a_record_is_reported_as_missing() {
        let taken = Pending { heard: Mutex::default(), record: OnceLock::new(), weight: 0 };
        assert_eq!(taken.record().message.as_deref(), Some("an event could not be written"));
    }
}
