//! OpenTelemetry: three optional pipelines over OTLP/HTTP, each on its own threads.
//!
//! Calls only reach bounded queues. Setup and shutdown run on plain threads, because the HTTP client must not
//! be created, used or dropped on a thread of an async runtime.

mod client;
mod configuration;
mod export_monitor;
mod logs;
mod traces;

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::MetricExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};

use crate::conventions::{SCHEMA_URL, SCOPE};
use crate::metrics::MetricInstruments;
use crate::settings::TelemetrySignal;
use crate::{FlushOutcome, TelemetryError};

pub(crate) use configuration::{ExportConfiguration, resolve};
pub(crate) use export_monitor::ExportHealth;
use export_monitor::{ExportMonitor, MonitoredExporter};
pub(crate) use logs::LogsPipeline;
pub(crate) use traces::{FinishedCall, TracesPipeline};

static INSTALLED_PIPELINES: LazyLock<ArcSwapOption<ExportPipelines>> = LazyLock::new(ArcSwapOption::empty);

/// Returns the pipelines of this process; `None` before [`install`].
pub(crate) fn pipelines() -> Option<Arc<ExportPipelines>> {
    INSTALLED_PIPELINES.load_full()
}

pub(crate) fn install(pipelines: &Arc<ExportPipelines>) {
    INSTALLED_PIPELINES.store(Some(Arc::clone(pipelines)));
}

/// Pipelines of the exported signals.
#[derive(Default)]
pub(crate) struct ExportPipelines {
    /// Reasons why configured signals are not exported.
    pub(crate) warnings: Vec<String>,
    pub(crate) traces: Option<TracesPipeline>,
    pub(crate) metrics: Option<MetricsPipeline>,
    pub(crate) logs: Option<LogsPipeline>,
}

pub(crate) struct MetricsPipeline {
    provider: SdkMeterProvider,
    pub(crate) instruments: MetricInstruments,
    monitor: Arc<ExportMonitor>,
}

/// Builds the configured pipelines on a separate thread. A signal that cannot be exported is left out with a
/// warning, so that the daemon still starts.
pub(crate) fn build(configuration: &ExportConfiguration) -> Result<ExportPipelines, TelemetryError> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("sinew-otlp-setup".to_owned());
        let failed = |cause| TelemetryError::Thread { name: "OTLP set-up", cause };
        let thread = builder.spawn_scoped(scope, || build_on_this_thread(configuration)).map_err(failed)?;
        thread.join().map_err(|_| failed(std::io::Error::other("the thread panicked")))
    })
}

fn build_on_this_thread(configuration: &ExportConfiguration) -> ExportPipelines {
    let resource = resource(configuration);
    let mut pipelines =
        ExportPipelines { warnings: configuration.warnings.clone(), ..ExportPipelines::default() };
    for (signal, to) in &configuration.signals {
        let built = match signal {
            TelemetrySignal::Traces => client::span_exporter(to, configuration).map(|exporter| {
                let watch = ExportMonitor::new(*signal, traces::QUEUE_CAPACITY);
                pipelines.traces = Some(TracesPipeline::new(
                    exporter,
                    watch,
                    &resource,
                    instrumentation_scope(),
                    configuration.sampler,
                ));
            }),
            TelemetrySignal::Metrics => client::metric_exporter(to, configuration).map(|exporter| {
                pipelines.metrics =
                    Some(MetricsPipeline::new(exporter, resource.clone(), configuration.metric_interval));
            }),
            TelemetrySignal::Logs => client::log_exporter(to, configuration).map(|exporter| {
                let watch = ExportMonitor::new(*signal, logs::QUEUE_CAPACITY);
                pipelines.logs =
                    Some(LogsPipeline::new(exporter, watch, resource.clone(), instrumentation_scope()));
            }),
        };
        pipelines.warnings.extend(built.err().map(|error| error.to_string()));
    }
    pipelines
}

fn instrumentation_scope() -> InstrumentationScope {
    InstrumentationScope::builder(SCOPE)
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_schema_url(SCHEMA_URL)
        .build()
}

fn resource(configuration: &ExportConfiguration) -> Resource {
    let own = [
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", uuid::Uuid::new_v4().to_string()),
        KeyValue::new("process.pid", i64::from(std::process::id())),
        KeyValue::new("telemetry.sdk.name", "opentelemetry"),
        KeyValue::new("telemetry.sdk.language", "rust"),
    ];
    let configured =
        configuration.resource.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    Resource::builder_empty().with_attributes(own.into_iter().chain(configured)).build()
}

impl ExportPipelines {
    pub(crate) fn is_empty(&self) -> bool {
        self.traces.is_none() && self.metrics.is_none() && self.logs.is_none()
    }

    pub(crate) fn health(&self) -> Vec<ExportHealth> {
        let watches = [
            self.traces.as_ref().map(|traces| &traces.monitor),
            self.metrics.as_ref().map(|metrics| &metrics.monitor),
            self.logs.as_ref().map(|logs| &logs.monitor),
        ];
        watches.into_iter().flatten().map(|watch| watch.health()).collect()
    }

    /// Exports queued items, all signals in parallel. A collector that hangs is abandoned at the deadline.
    pub(crate) fn shutdown(self: &Arc<Self>, deadline: Instant) -> FlushOutcome {
        if self.is_empty() {
            return FlushOutcome::Complete;
        }
        if pipelines().is_some_and(|installed| Arc::ptr_eq(&installed, self)) {
            INSTALLED_PIPELINES.store(None);
        }
        let (report, reports) = sync_channel(3);
        let steps: [fn(&ExportPipelines, Duration) -> bool; 3] = [
            |all, timeout| all.traces.as_ref().is_none_or(|traces| traces.shutdown(timeout)),
            |all, timeout| all.metrics.as_ref().is_none_or(|metrics| metrics.shutdown(timeout)),
            |all, timeout| all.logs.as_ref().is_none_or(|logs| logs.shutdown(timeout)),
        ];
        let mut started = 0;
        for step in steps {
            let (all, report) = (Arc::clone(self), report.clone());
            let remaining = deadline.saturating_duration_since(Instant::now());
            let thread = std::thread::Builder::new().name("sinew-otlp-stop".to_owned());
            let begun = thread.spawn(move || {
                let done = step(&all, remaining);
                // The last reference drops the HTTP clients on this thread and not on the thread of the
                // guard.
                drop(all);
                let _ = report.send(done);
            });
            started += usize::from(begun.is_ok());
        }
        let in_time = (0..started).filter(|_| {
            reports.recv_timeout(deadline.saturating_duration_since(Instant::now())).unwrap_or(false)
        });
        if in_time.count() == 3 { FlushOutcome::Complete } else { FlushOutcome::TimedOut }
    }
}

impl MetricsPipeline {
    fn new(exporter: MetricExporter, resource: Resource, interval: Duration) -> Self {
        let watch = ExportMonitor::new(TelemetrySignal::Metrics, 0);
        let exporter = MonitoredExporter { exporter, monitor: Arc::clone(&watch) };
        let reader = PeriodicReader::builder(exporter).with_interval(interval).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).with_resource(resource).build();
        MetricsPipeline {
            instruments: MetricInstruments::new(&provider, instrumentation_scope()),
            provider,
            monitor: watch,
        }
    }

    /// Shuts the pipeline down. The SDK takes no deadline here; the caller enforces it by not waiting for
    /// this thread.
    fn shutdown(&self, _: Duration) -> bool {
        self.provider.shutdown().is_ok()
    }
}

#[cfg(test)]
mod tests;
