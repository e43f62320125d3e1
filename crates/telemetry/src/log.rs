//! The log: every `tracing` event becomes one record, which is written as a JSON line to the rotating file
//! and as a short line to standard error, and exported over OTLP, depending on the configuration.
//!
//! All strings are redacted once, before any of the three outputs gets them. If only the file and standard
//! error are configured, the writer threads redact them, so that calls do not wait for it.

mod captured_event;
mod human;
mod record;
mod rotate;
mod stderr;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::event::{self, EVENT_TARGET};
use captured_event::{CapturedEvent, LazyRecord};

pub use captured_event::with_call_ids;

pub use human::ColourMode;
pub(crate) use human::format_line as human_line;
pub(crate) use record::LogEntry;
pub(crate) use rotate::{RotatingFile, RotationLimits, path as log_path};
pub(crate) use stderr::StderrSink;
pub(crate) use writer::LineWriter;

/// `tracing` layer that passes records to the configured outputs.
pub(crate) struct LogLayer {
    pub(crate) file: Option<LineWriter>,
    pub(crate) stderr: Option<LineWriter>,
    pub(crate) otlp: Option<crate::otel::LogsPipeline>,
    /// If false, calls that ran as intended have no lines in the file and on standard error. Shared with the guard, which
    /// applies changed settings.
    pub(crate) logs_all_calls: Arc<AtomicBool>,
}

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let is_shown = metadata.target() == EVENT_TARGET && crate::event_feed::has_subscribers();
        let is_written = self.logs_all_calls.load(Ordering::Relaxed) || !event::is_routine(metadata);
        if !is_shown && !is_written && self.otlp.is_none() {
            return;
        }
        let pending = Arc::new(LazyRecord::new(CapturedEvent::capture(event)));
        if is_shown {
            crate::event_feed::publish(metadata.name(), pending.record());
        }
        if let Some(otlp) = &self.otlp {
            otlp.write(pending.record());
        }
        if is_written {
            for lines in self.file.iter().chain(&self.stderr) {
                lines.write(&pending);
            }
        }
    }
}
