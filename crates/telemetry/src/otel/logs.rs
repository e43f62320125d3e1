//! Export of log records over OTLP, redacted like the log itself.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::logs::{AnyValue, LogRecord as _, Logger as _, LoggerProvider as _, Severity};
use opentelemetry::trace::{SpanId, TraceFlags, TraceId};
use opentelemetry::{InstrumentationScope, Key};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{
    BatchConfigBuilder, BatchLogProcessor, LogExporter, LogProcessor, SdkLogRecord, SdkLogger,
    SdkLoggerProvider,
};
use serde_json::Value;
use tracing::Level;

use super::export_monitor::{ExportMonitor, MonitoredExporter};
use crate::log::LogEntry;

/// Maximum number of records that wait for the collector.
pub(super) const QUEUE_CAPACITY: usize = 4096;
const BATCH_SIZE: usize = 512;

/// Targets of the export's own log records. Exporting them would cause an endless loop.
const EXPORT_TARGETS: [&str; 8] =
    ["sinew::otlp", "hyper", "reqwest", "h2", "rustls", "tower", "opentelemetry", "mio"];

#[derive(Debug, Clone)]
pub(crate) struct LogsPipeline {
    provider: SdkLoggerProvider,
    logger: SdkLogger,
    pub(super) monitor: Arc<ExportMonitor>,
}

impl LogsPipeline {
    pub(super) fn new(
        exporter: impl LogExporter + 'static,
        watch: Arc<ExportMonitor>,
        resource: Resource,
        scope: InstrumentationScope,
    ) -> Self {
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_CAPACITY + BATCH_SIZE)
            .with_max_export_batch_size(BATCH_SIZE)
            .build();
        let exporter = MonitoredExporter { exporter, monitor: Arc::clone(&watch) };
        let batches = BatchLogProcessor::builder(exporter).with_batch_config(config).build();
        let bounded = BoundedLogProcessor { batches, monitor: Arc::clone(&watch) };
        let provider =
            SdkLoggerProvider::builder().with_log_processor(bounded).with_resource(resource).build();
        LogsPipeline { logger: provider.logger_with_scope(scope), provider, monitor: watch }
    }

    /// Queues a record. Never waits.
    pub(crate) fn write(&self, record: &LogEntry) {
        let own = EXPORT_TARGETS.iter().filter_map(|name| record.target.strip_prefix(name));
        if own.into_iter().any(|rest| rest.is_empty() || rest.starts_with("::")) {
            return;
        }
        let mut out = self.logger.create_log_record();
        let (severity, text) = severity(record.level);
        out.set_severity_number(severity);
        out.set_severity_text(text);
        out.set_timestamp(record.time.into());
        out.set_target(record.target);
        if let Some(event) = record.event {
            out.set_event_name(event);
        }
        if let Some(message) = &record.message {
            out.set_body(AnyValue::from(message.clone()));
        }
        if let (Some(trace), Some(span)) = (&record.trace_id, &record.span_id)
            && let (Ok(trace), Ok(span)) = (TraceId::from_hex(trace), SpanId::from_hex(span))
        {
            out.set_trace_context(trace, span, Some(TraceFlags::SAMPLED));
        }
        out.add_attributes(
            record.fields.iter().map(|(key, value)| (to_key(key.clone()), to_any_value(value))),
        );
        self.logger.emit(out);
    }

    pub(super) fn shutdown(&self, timeout: Duration) -> bool {
        self.provider.shutdown_with_timeout(timeout).is_ok()
    }
}

/// Processor that refuses records when the queue is full and counts them; the SDK would drop them silently.
#[derive(Debug)]
struct BoundedLogProcessor {
    batches: BatchLogProcessor,
    monitor: Arc<ExportMonitor>,
}

impl LogProcessor for BoundedLogProcessor {
    fn emit(&self, record: &mut SdkLogRecord, scope: &InstrumentationScope) {
        if self.monitor.try_reserve() {
            self.batches.emit(record, scope);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.batches.set_resource(resource);
    }
}

fn severity(level: Level) -> (Severity, &'static str) {
    match level {
        Level::ERROR => (Severity::Error, "ERROR"),
        Level::WARN => (Severity::Warn, "WARN"),
        Level::INFO => (Severity::Info, "INFO"),
        Level::DEBUG => (Severity::Debug, "DEBUG"),
        Level::TRACE => (Severity::Trace, "TRACE"),
    }
}

fn to_key(name: Cow<'static, str>) -> Key {
    match name {
        Cow::Borrowed(name) => Key::from(name),
        Cow::Owned(name) => Key::from(name),
    }
}

fn to_any_value(value: &Value) -> AnyValue {
    match value {
        Value::Null => AnyValue::from("null"),
        Value::Bool(flag) => AnyValue::from(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => AnyValue::from(whole),
            None => AnyValue::from(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => AnyValue::from(text.clone()),
        Value::Array(items) => items.iter().map(to_any_value).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, item)| (Key::from(key.clone()), to_any_value(item))).collect()
        }
    }
}
