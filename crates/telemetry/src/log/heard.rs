//! What an event said, kept as it is until a thread that no call waits for has time for it.
//!
//! Nobody is shown any of it: only a [`Record`], which is bounded and redacted, can be written or sent.

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

/// What an event takes beside its texts.
const OVERHEAD: usize = 512;
/// The texts of most events together.
const USUAL_TEXTS: usize = 256;

/// One event, as it was said.
pub(super) struct Heard {
    pub(super) time: Timestamp,
    pub(super) metadata: &'static Metadata<'static>,
    /// The one of the moment: what the policy says later is for what happens later.
    pub(super) redactor: Arc<Redactor>,
    pub(super) said: Vec<(&'static str, Said)>,
    /// All texts, one after the other: memory that one thread takes and another gives back is dear, so it is one piece.
    pub(super) texts: String,
    /// The call it happened in, where it does not name one itself.
    pub(super) within: Option<CallIds>,
}

pub(super) enum Said {
    Text(Text),
    /// What can hold no secret.
    Plain(Plain),
}

/// A number or a truth, in less memory than a value takes.
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

/// A text, as much of it as will be looked at.
pub(super) struct Text {
    /// Where that stands among all texts.
    pub(super) place: Range<usize>,
    /// The length of all of it.
    pub(super) bytes: usize,
}

impl Text {
    /// What will be looked at.
    pub(super) fn start<'a>(&self, texts: &'a str) -> &'a str {
        texts.get(self.place.clone()).unwrap_or_default()
    }
}

/// A record that is made when it is first looked at, once for all who write it.
pub(crate) struct Pending {
    heard: Mutex<Option<Heard>>,
    record: OnceLock<Record>,
    /// What it takes while it waits, in bytes.
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
            // It is taken here and once, so it is there, unless making a record of it panicked.
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

    /// Whether it is one of this crate's events.
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

    /// A text that is put together here, in the memory of all of them.
    fn written(&mut self, field: &Field, text: std::fmt::Arguments<'_>) {
        let start = self.texts.len();
        let _ = self.texts.write_fmt(text);
        let whole = self.texts.get(start..).unwrap_or_default();
        let (bytes, kept) = (whole.len(), clip(whole, SCAN_LIMIT).len());
        if kept < bytes {
            self.texts.truncate(start + kept);
            // A long text may have taken megabytes, and this waits in a queue.
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
    fn what_could_not_be_made_a_record_of_is_said_to_be_missing() {
        let taken = Pending { heard: Mutex::default(), record: OnceLock::new(), weight: 0 };
        assert_eq!(taken.record().message.as_deref(), Some("an event could not be written"));
    }
}
