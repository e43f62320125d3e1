//! Captured events, stored unprocessed until a writer thread processes them, so that calls do not wait.
//!
//! No output gets a captured event: only a `LogEntry`, which is bounded and redacted, can be written or sent.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jiff::Timestamp;
use serde_json::Value;
use tool::TraceContext;
use tool::text::SharedText;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata};

use super::record::{LogEntry, SCAN_LIMIT, clip, is_hex};
use crate::event;
use crate::redact::{self, Redactor};

/// Memory of an event besides its texts, in bytes.
const EVENT_OVERHEAD: usize = 512;

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
pub fn with_call_ids<F: Future>(trace: &TraceContext, work: F) -> impl Future<Output = F::Output> + use<F> {
    let ids = CallIds { trace_id: trace.trace_id.clone(), span_id: trace.span_id.clone() };
    CALL.scope(ids, work)
}

/// Captured `tracing` event before redaction.
pub(super) struct CapturedEvent {
    pub(super) time: Timestamp,
    pub(super) metadata: &'static Metadata<'static>,
    /// Redactor in force when the event occurred; a later policy applies to later events.
    pub(super) redactor: Arc<Redactor>,
    pub(super) fields: Vec<(&'static str, FieldValue)>,
    /// Ids of the current call, if the event does not name a trace itself.
    pub(super) call_ids: Option<CallIds>,
}

/// Captured value of a field.
pub(super) enum FieldValue {
    /// Part of a text that is scanned for secrets, and the length of the whole text in bytes.
    Text { start: String, full_length: usize },
    /// Number or boolean, which cannot hold a secret.
    Scalar(Value),
}

/// Record that is built on first use, once for all outputs.
pub(crate) struct LazyRecord {
    event: Mutex<Option<CapturedEvent>>,
    record: OnceLock<LogEntry>,
    /// Memory used while queued, in bytes.
    pub(super) queued_bytes: usize,
}

impl LazyRecord {
    pub(super) fn new(received: CapturedEvent) -> Self {
        let queued_bytes = received.queued_bytes();
        LazyRecord { event: Mutex::new(Some(received)), record: OnceLock::new(), queued_bytes }
    }

    #[cfg(test)]
    pub(super) fn from_message(text: &str) -> Self {
        let record = OnceLock::from(LogEntry::from_message(text));
        LazyRecord { event: Mutex::default(), record, queued_bytes: text.len() }
    }

    pub(super) fn record(&self) -> &LogEntry {
        self.record.get_or_init(|| {
            let received = self.event.lock().unwrap_or_else(PoisonError::into_inner).take();
            // The event is taken only here and only once, so it is present unless building its record
            // panicked.
            received
                .map_or_else(|| LogEntry::from_message("an event could not be written"), LogEntry::from_event)
        })
    }
}

impl CapturedEvent {
    pub(super) fn capture(event: &Event<'_>) -> Self {
        let mut received = CapturedEvent {
            time: Timestamp::now(),
            metadata: event.metadata(),
            redactor: redact::shared(),
            fields: Vec::with_capacity(12),
            call_ids: None,
        };
        event.record(&mut received);
        if !received.has_trace_id() {
            received.call_ids = CALL.try_with(Clone::clone).ok();
        }
        received
    }

    /// Returns true for events of this crate.
    pub(super) fn is_ours(&self) -> bool {
        self.metadata.target() == event::EVENT_TARGET
    }

    fn has_trace_id(&self) -> bool {
        let named = |(name, value): &(&str, FieldValue)| {
            *name == "trace_id" && matches!(value, FieldValue::Text { start, .. } if is_hex(start, 32))
        };
        self.fields.iter().any(named)
    }

    fn queued_bytes(&self) -> usize {
        let bytes = |(_, value): &(&str, FieldValue)| match value {
            FieldValue::Text { start, .. } => start.len(),
            FieldValue::Scalar(_) => 0,
        };
        self.fields.iter().map(bytes).sum::<usize>() + EVENT_OVERHEAD
    }

    fn push_text(&mut self, field: &Field, text: &str) {
        let start = clip(text, SCAN_LIMIT).to_owned();
        self.fields.push((field.name(), FieldValue::Text { start, full_length: text.len() }));
    }

    fn push_scalar(&mut self, field: &Field, value: impl Into<Value>) {
        self.fields.push((field.name(), FieldValue::Scalar(value.into())));
    }
}

impl Visit for CapturedEvent {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.push_scalar(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push_scalar(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push_scalar(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push_scalar(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.push_text(field, value);
    }

    fn record_error(&mut self, field: &Field, error: &(dyn std::error::Error + 'static)) {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(next) = cause {
            let _ = write!(text, ": {next}");
            cause = next.source();
        }
        self.push_text(field, &text);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.push_text(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_without_a_record_is_reported_as_missing() {
        let taken = LazyRecord { event: Mutex::default(), record: OnceLock::new(), queued_bytes: 0 };
        assert_eq!(taken.record().message.as_deref(), Some("an event could not be written"));
    }
}
