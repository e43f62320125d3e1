//! The log: every `tracing` event becomes one record, which is written as a JSON line to the rotating file, as a
//! short line to standard error, and handed to OTLP, whichever of them are configured.
//!
//! All strings are redacted once, before any of the three sees them. Writing happens on other threads.

mod human;
mod json;
mod record;
mod rotate;
mod stderr;
mod writer;

use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::within;

pub(crate) use human::{Colour, line as human_line};
pub(crate) use record::Record;
pub(crate) use rotate::{Limits, RotatingFile, path as log_path};
pub(crate) use stderr::Stderr;
pub(crate) use writer::LineWriter;

/// Where records go.
pub(crate) struct LogLayer {
    pub(crate) file: Option<LineWriter>,
    pub(crate) stderr: Option<(LineWriter, Colour)>,
    pub(crate) otlp: Option<crate::otel::Logs>,
}

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut record = Record::of(event);
        if record.trace_id.is_none() {
            record.adopt(within::current());
        }
        if let Some(event) = record.event {
            crate::feed::publish(event, &record);
        }
        if let Some(file) = &self.file {
            file.write(json::line(&record));
        }
        if let Some((stderr, colour)) = &self.stderr {
            stderr.write(human::line(&record.as_map(), *colour).into_bytes());
        }
        if let Some(otlp) = &self.otlp {
            otlp.write(&record);
        }
    }
}
