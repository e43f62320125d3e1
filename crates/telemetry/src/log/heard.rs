//! Captured events, stored unprocessed until a writer thread processes them, so that calls do not wait.
//!
//! No output gets a captured event: only a `LogEntry`, which is bounded and redacted, can be written or sent.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jiff::Timestamp;
use serde_json::Value;
use tool::{SharedText, TraceContext};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata};

use super::record::{Record, SCAN_LIMIT, clip, is_hex};
use crate::event;
use crate::redact::{self, Redactor};

/// Memory of an event besides its texts, in bytes.
const OVERHEAD: usize = 512;

/// Trace and span id of a call.
#[derive(Clone)]
pub(super) struct CallIds {
    pub(super) trace_id: SharedText,
    pub(super) span_id: SharedText,
}

tokio::task_local! {
    /// Ids of the current call, added to every log line that any crate writes meanwhile.
    static CALL: CallIds;
}

/// Wraps the work of a call: every log line written while it is polled carries the ids of the call.
pub fn within_call<F: Future>(trace: &TraceContext, work: F) -> impl Future<Output = F::Output> + use<F> {
    let ids = CallIds { trace_id: trace.trace_id.clone(), span_id: trace.span_id.clone() };
    CALL.scope(ids, work)
}

/// Captured `tracing` event before redaction.
pub(super) struct Heard {
    pub(super) time: Timestamp,
    pub(super) metadata: &'static Metadata<'static>,
    /// Redactor in force when the event occurred; a later policy applies to later events.
    pub(super) redactor: Arc<Redactor>,
    pub(super) said: Vec<(&'static str, Said)>,
    /// Ids of the current call, if the event does not name a trace itself.
    pub(super) within: Option<CallIds>,
}

/// Captured value of a field.
pub(super) enum Said {
    /// Part of a text that is scanned for secrets, and the length of the whole text in bytes.
    Text { start: String, bytes: usize },
    /// Number or boolean, which cannot hold a secret.
    Plain(Value),
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
            within: None,
        };
        event.record(&mut heard);
        if !heard.names_a_trace() {
            heard.within = CALL.try_with(Clone::clone).ok();
        }
        heard
    }

    /// Returns true for events of this crate.
    pub(super) fn is_ours(&self) -> bool {
        self.metadata.target() == event::TARGET
    }

    fn names_a_trace(&self) -> bool {
        let named = |(name, said): &(&str, Said)| {
            *name == "trace_id" && matches!(said, Said::Text { start, .. } if is_hex(start, 32))
        };
        self.said.iter().any(named)
    }

    fn weight(&self) -> usize {
        let bytes = |(_, said): &(&str, Said)| match said {
            Said::Text { start, .. } => start.len(),
            Said::Plain(_) => 0,
        };
        self.said.iter().map(bytes).sum::<usize>() + OVERHEAD
    }

    fn text(&mut self, field: &Field, text: &str) {
        let start = clip(text, SCAN_LIMIT).to_owned();
        self.said.push((field.name(), Said::Text { start, bytes: text.len() }));
    }

    fn plain(&mut self, field: &Field, value: impl Into<Value>) {
        self.said.push((field.name(), Said::Plain(value.into())));
    }
}

impl Visit for Heard {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.plain(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.plain(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.plain(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.plain(field, value);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_without_a_record_is_reported_as_missing() {
        let taken = Pending { heard: Mutex::default(), record: OnceLock::new(), weight: 0 };
        assert_eq!(taken.record().message.as_deref(), Some("an event could not be written"));
    }
}
