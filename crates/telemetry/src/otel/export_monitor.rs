//! Monitoring of exports: results are counted, and the log reports once when exports start to fail and once
//! when they recover.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

use crate::settings::TelemetrySignal;

/// Health of the exports of one signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportHealth {
    /// Signal.
    pub signal: TelemetrySignal,
    /// Number of spans or records that the collector accepted; for metrics, of exports.
    pub delivered: u64,
    /// Number of items lost because the queue was full or the collector did not accept them.
    pub lost: u64,
    /// Last error, while exports fail.
    pub failing: Option<String>,
}

/// Counters of one signal and the occupancy of its queue.
#[derive(Debug)]
pub(super) struct ExportMonitor {
    signal: TelemetrySignal,
    capacity: usize,
    queued: AtomicUsize,
    delivered: AtomicU64,
    lost: AtomicU64,
    is_failing: AtomicBool,
    error: Mutex<Option<String>>,
}

impl ExportMonitor {
    pub(super) fn new(signal: TelemetrySignal, space: usize) -> Arc<Self> {
        Arc::new(ExportMonitor {
            signal,
            capacity: space,
            queued: AtomicUsize::new(0),
            delivered: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
            error: Mutex::new(None),
        })
    }

    pub(super) fn health(&self) -> ExportHealth {
        ExportHealth {
            signal: self.signal,
            delivered: self.delivered.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
            failing: self.error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Reserves a slot in the queue. Returns false and counts the item as lost if the queue is full.
    pub(super) fn try_reserve(&self) -> bool {
        let taken = self.queued.fetch_update(Ordering::AcqRel, Ordering::Acquire, |queued| {
            (queued < self.capacity).then_some(queued + 1)
        });
        if taken.is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    /// Counts the result of an export of `items` items.
    fn record_result(&self, items: usize, queued: QueueAccounting, result: OTelSdkResult) -> OTelSdkResult {
        if queued == QueueAccounting::Queued {
            self.queued.fetch_sub(items, Ordering::AcqRel);
        }
        let counter = if result.is_ok() { &self.delivered } else { &self.lost };
        counter.fetch_add(items as u64, Ordering::Relaxed);
        let signal = self.signal.as_str();
        let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        match &result {
            Ok(()) => {
                *error = None;
                if self.is_failing.swap(false, Ordering::AcqRel) {
                    let lost = self.lost.load(Ordering::Relaxed);
                    tracing::info!(target: TARGET, signal, lost, "the collector accepts telemetry again");
                }
            }
            Err(cause) => {
                *error = Some(cause.to_string());
                if !self.is_failing.swap(true, Ordering::AcqRel) {
                    tracing::warn!(target: TARGET, signal, error = %cause,
                        "the collector does not accept telemetry; it is dropped until the collector recovers, calls are unaffected");
                }
            }
        }
        result
    }
}

/// `tracing` target of the messages of this module.
const TARGET: &str = "sinew::otlp";

#[derive(Clone, Copy, PartialEq, Eq)]
enum QueueAccounting {
    Queued,
    Unqueued,
}

/// Exporter wrapper that reports its results to a monitor.
#[derive(Debug)]
pub(super) struct MonitoredExporter<E> {
    pub(super) exporter: E,
    pub(super) monitor: Arc<ExportMonitor>,
}

impl<E: SpanExporter> SpanExporter for MonitoredExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let items = batch.len();
        let result = self.exporter.export(batch).await;
        self.monitor.record_result(items, QueueAccounting::Queued, result)
    }

    fn shutdown_with_timeout(&self, timeout: std::time::Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E: LogExporter> LogExporter for MonitoredExporter<E> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let items = batch.iter().count();
        let result = self.exporter.export(batch).await;
        self.monitor.record_result(items, QueueAccounting::Queued, result)
    }

    fn shutdown_with_timeout(&self, timeout: std::time::Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E: PushMetricExporter> PushMetricExporter for MonitoredExporter<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let result = self.exporter.export(metrics).await;
        self.monitor.record_result(1, QueueAccounting::Unqueued, result)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: std::time::Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}
