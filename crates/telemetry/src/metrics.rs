//! Metrics: one function per measurement, which may be called whether or not metrics are exported.
//!
//! Labels come from a small, closed set; never a path, a query, a caller or a process.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider as _};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use tool::result::{Truncation, TruncationUnit};
use tool::{Mode, RefusalCode, ToolName};

use crate::conventions::{self, OTHER, attribute, metric};
use crate::{ApprovalDecision, CallOutcome, otel};

/// One request of an MCP or native client, as defined by the MCP conventions.
#[derive(Clone, Copy, Debug)]
pub struct RequestOperation<'a> {
    /// Method, such as `tools/call`; an unknown method is `_OTHER`.
    pub method: &'static str,
    /// Tool, if the method names one that exists.
    pub tool: Option<&'a ToolName>,
    /// Negotiated protocol version.
    pub protocol_version: Option<&'static str>,
    /// Value of `error.type`, if the request failed.
    pub error_type: Option<&'static str>,
}

/// Records an answered request.
pub fn record_operation(operation: &RequestOperation<'_>, duration: Duration) {
    with_instruments(|instruments| {
        let mut labels = vec![
            KeyValue::new(attribute::MCP_METHOD_NAME, operation.method),
            KeyValue::new(attribute::NETWORK_TRANSPORT, "unix"),
        ];
        if let Some(tool) = operation.tool {
            labels.push(KeyValue::new(attribute::TOOL_NAME, tool.as_str().to_owned()));
            labels.push(KeyValue::new(attribute::OPERATION_NAME, conventions::EXECUTE_TOOL));
        }
        let version = operation.protocol_version.map(|v| KeyValue::new(attribute::MCP_PROTOCOL_VERSION, v));
        let error = operation.error_type.map(|e| KeyValue::new(attribute::ERROR_TYPE, e));
        labels.extend(version.into_iter().chain(error));
        instruments.operation_duration.record(duration.as_secs_f64(), &labels);
    });
}

/// Records the end of a call. Called by [`crate::CallSpan::end`].
pub(crate) fn record_call(tool: &str, outcome: CallOutcome, duration: Duration) {
    with_instruments(|instruments| {
        let mut labels = vec![
            KeyValue::new(attribute::TOOL_NAME, tool_label(tool, outcome)),
            KeyValue::new(attribute::OUTCOME, outcome.as_str()),
        ];
        labels.extend(outcome.error_type().map(|error| KeyValue::new(attribute::ERROR_TYPE, error)));
        instruments.calls.add(1, &labels);
        instruments.call_duration.record(duration.as_secs_f64(), &labels);
    });
}

/// Records a policy decision: `permit`, `ask` or `deny`.
pub fn record_decision(mode: Mode, decision: &'static str) {
    with_instruments(|instruments| {
        let labels = [
            KeyValue::new(attribute::MODE, mode.as_str()),
            KeyValue::new(attribute::POLICY_DECISION, decision),
        ];
        instruments.decisions.add(1, &labels);
    });
}

/// Records the outcome and waiting time of an approval request.
pub fn record_approval(outcome: ApprovalDecision, wait: Duration) {
    with_instruments(|instruments| {
        let labels = [KeyValue::new(attribute::APPROVAL_OUTCOME, outcome.as_str())];
        instruments.approvals.add(1, &labels);
        instruments.approval_wait.record(wait.as_secs_f64(), &labels);
    });
}

/// Records a truncated output.
pub fn record_truncation(tool: &ToolName, cut: &Truncation) {
    with_instruments(|instruments| {
        let by = cut.total.saturating_sub(cut.returned);
        let tool = KeyValue::new(attribute::TOOL_NAME, tool.as_str().to_owned());
        match cut.unit {
            TruncationUnit::Bytes => instruments.truncated_bytes.add(by, &[tool]),
            unit => {
                instruments.truncated_items.add(by, &[tool, KeyValue::new(attribute::UNIT, unit.as_str())]);
            }
        }
    });
}

/// Quantity with a current value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// Pending approval requests.
    ApprovalsPending,
    /// Running tools.
    ToolsRunning,
}

/// Sets the number of records that the ledger acknowledged and lost.
pub fn set_lost_records(count: u64) {
    LOST_RECORDS.store(count, Ordering::Relaxed);
}

static LOST_RECORDS: AtomicU64 = AtomicU64::new(0);
static APPROVALS_PENDING: AtomicI64 = AtomicI64::new(0);
static TOOLS_RUNNING: AtomicI64 = AtomicI64::new(0);

impl Gauge {
    fn counter(self) -> &'static AtomicI64 {
        match self {
            Gauge::ApprovalsPending => &APPROVALS_PENDING,
            Gauge::ToolsRunning => &TOOLS_RUNNING,
        }
    }

    /// Returns the current value.
    pub fn value(self) -> i64 {
        self.counter().load(Ordering::Relaxed)
    }

    /// Increments the value until the returned guard is dropped.
    #[must_use = "it counts until this is dropped"]
    pub fn increment(self) -> GaugeGuard {
        self.counter().fetch_add(1, Ordering::Relaxed);
        GaugeGuard(self)
    }
}

/// Guard that decrements a `Gauge` when dropped.
#[derive(Debug)]
pub struct GaugeGuard(Gauge);

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.counter().fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the tool name as a label. An unknown name comes from the caller and could be anything, so it
/// becomes `_OTHER`.
pub(crate) fn tool_label(tool: &str, outcome: CallOutcome) -> String {
    let known = outcome != CallOutcome::Refused(RefusalCode::UnknownTool);
    ToolName::new(tool).ok().filter(|_| known).map_or_else(|| OTHER.to_owned(), |name| name.to_string())
}

fn with_instruments(measure: impl FnOnce(&MetricInstruments)) {
    if let Some(pipelines) = otel::pipelines()
        && let Some(metrics) = &pipelines.metrics
    {
        measure(&metrics.instruments);
    }
}

/// Metric instruments, created once.
#[derive(Debug)]
pub(crate) struct MetricInstruments {
    operation_duration: Histogram<f64>,
    calls: Counter<u64>,
    call_duration: Histogram<f64>,
    decisions: Counter<u64>,
    approvals: Counter<u64>,
    approval_wait: Histogram<f64>,
    truncated_bytes: Counter<u64>,
    truncated_items: Counter<u64>,
}

impl MetricInstruments {
    pub(crate) fn new(provider: &SdkMeterProvider, scope: InstrumentationScope) -> Self {
        let meter = provider.meter_with_scope(scope);
        let counter = |name, unit| meter.u64_counter(name).with_unit(unit).build();
        register_gauge(&meter, metric::APPROVALS_PENDING, "{approval}", Gauge::ApprovalsPending);
        register_gauge(&meter, metric::TOOLS_RUNNING, "{call}", Gauge::ToolsRunning);
        register_lost_records(&meter);
        MetricInstruments {
            operation_duration: duration_histogram(&meter, metric::OPERATION_DURATION),
            calls: counter(metric::TOOL_CALLS, "{call}"),
            call_duration: duration_histogram(&meter, metric::TOOL_DURATION),
            decisions: counter(metric::POLICY_DECISIONS, "{decision}"),
            approvals: counter(metric::APPROVALS, "{approval}"),
            approval_wait: duration_histogram(&meter, metric::APPROVAL_WAIT),
            truncated_bytes: counter(metric::TRUNCATED_BYTES, "By"),
            truncated_items: counter(metric::TRUNCATED_ITEMS, "{item}"),
        }
    }
}

fn duration_histogram(meter: &Meter, name: &'static str) -> Histogram<f64> {
    meter.f64_histogram(name).with_unit("s").with_boundaries(metric::DURATION_BOUNDARIES.to_vec()).build()
}

fn register_gauge(meter: &Meter, name: &'static str, unit: &'static str, level: Gauge) {
    // The meter keeps the gauge alive.
    let _ = meter
        .i64_observable_gauge(name)
        .with_unit(unit)
        .with_callback(move |observer| observer.observe(level.value(), &[]))
        .build();
}

/// Registers the counter of lost records. It is exported at zero too, so that an alert can tell "no loss"
/// from "no data".
fn register_lost_records(meter: &Meter) {
    let _ = meter
        .u64_observable_counter(metric::LOST_RECORDS)
        .with_unit("{record}")
        .with_callback(|observer| observer.observe(LOST_RECORDS.load(Ordering::Relaxed), &[]))
        .build();
}
