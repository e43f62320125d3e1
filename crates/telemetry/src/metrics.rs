//! Metrics: one function per measurement, which may be called whether or not metrics are exported.
//!
//! Labels come from a small, closed set; never a path, a query, a caller or a process.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider as _};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use tool::{CutUnit, Mode, RefusalCode, ToolName, Truncation};

use crate::conventions::{self, OTHER, attribute, metric};
use crate::{ApprovalDecision, Outcome, otel};

/// One request of an MCP or native client, as defined by the MCP conventions.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
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
pub fn operation(operation: &Operation<'_>, duration: Duration) {
    record(|instruments| {
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
pub(crate) fn call(tool: &str, outcome: Outcome, duration: Duration) {
    record(|instruments| {
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
pub fn decision(mode: Mode, decision: &'static str) {
    record(|instruments| {
        let labels = [
            KeyValue::new(attribute::MODE, mode.as_str()),
            KeyValue::new(attribute::POLICY_DECISION, decision),
        ];
        instruments.decisions.add(1, &labels);
    });
}

/// Records the outcome and waiting time of an approval request.
pub fn approval(outcome: ApprovalDecision, wait: Duration) {
    record(|instruments| {
        let labels = [KeyValue::new(attribute::APPROVAL_OUTCOME, outcome.as_str())];
        instruments.approvals.add(1, &labels);
        instruments.approval_wait.record(wait.as_secs_f64(), &labels);
    });
}

/// Records a truncated output.
pub fn truncated(tool: &ToolName, cut: &Truncation) {
    record(|instruments| {
        let by = cut.total.saturating_sub(cut.returned);
        let tool = KeyValue::new(attribute::TOOL_NAME, tool.as_str().to_owned());
        match cut.unit {
            CutUnit::Bytes => instruments.truncated_bytes.add(by, &[tool]),
            unit => {
                instruments.truncated_items.add(by, &[tool, KeyValue::new(attribute::UNIT, unit.as_str())]);
            }
        }
    });
}

/// Quantity with a current value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Pending approval requests.
    ApprovalsPending,
    /// Running tools.
    ToolsRunning,
}

/// Sets the number of records that the ledger acknowledged and lost.
pub fn lost_records(count: u64) {
    LOST_RECORDS.store(count, Ordering::Relaxed);
}

static LOST_RECORDS: AtomicU64 = AtomicU64::new(0);
static APPROVALS_PENDING: AtomicI64 = AtomicI64::new(0);
static TOOLS_RUNNING: AtomicI64 = AtomicI64::new(0);

impl Level {
    fn counter(self) -> &'static AtomicI64 {
        match self {
            Level::ApprovalsPending => &APPROVALS_PENDING,
            Level::ToolsRunning => &TOOLS_RUNNING,
        }
    }

    /// Returns the current value.
    pub fn now(self) -> i64 {
        self.counter().load(Ordering::Relaxed)
    }

    /// Increments the value until the returned guard is dropped.
    #[must_use = "it counts until this is dropped"]
    pub fn hold(self) -> Held {
        self.counter().fetch_add(1, Ordering::Relaxed);
        Held(self)
    }
}

/// Guard that decrements a `Gauge` when dropped.
#[derive(Debug)]
pub struct Held(Level);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.counter().fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the tool name as a label. An unknown name comes from the caller and could be anything, so it
/// becomes `_OTHER`.
pub(crate) fn tool_label(tool: &str, outcome: Outcome) -> String {
    let known = outcome != Outcome::Refused(RefusalCode::UnknownTool);
    ToolName::new(tool).ok().filter(|_| known).map_or_else(|| OTHER.to_owned(), |name| name.to_string())
}

fn record(measure: impl FnOnce(&Instruments)) {
    if let Some(pipelines) = otel::pipelines()
        && let Some(metrics) = &pipelines.metrics
    {
        measure(&metrics.instruments);
    }
}

/// Metric instruments, created once.
#[derive(Debug)]
pub(crate) struct Instruments {
    operation_duration: Histogram<f64>,
    calls: Counter<u64>,
    call_duration: Histogram<f64>,
    decisions: Counter<u64>,
    approvals: Counter<u64>,
    approval_wait: Histogram<f64>,
    truncated_bytes: Counter<u64>,
    truncated_items: Counter<u64>,
}

impl Instruments {
    pub(crate) fn new(provider: &SdkMeterProvider, scope: InstrumentationScope) -> Self {
        let meter = provider.meter_with_scope(scope);
        let counter = |name, unit| meter.u64_counter(name).with_unit(unit).build();
        gauge(&meter, metric::APPROVALS_PENDING, "{approval}", Level::ApprovalsPending);
        gauge(&meter, metric::TOOLS_RUNNING, "{call}", Level::ToolsRunning);
        lost_records_counter(&meter);
        Instruments {
            operation_duration: seconds(&meter, metric::OPERATION_DURATION),
            calls: counter(metric::TOOL_CALLS, "{call}"),
            call_duration: seconds(&meter, metric::TOOL_DURATION),
            decisions: counter(metric::POLICY_DECISIONS, "{decision}"),
            approvals: counter(metric::APPROVALS, "{approval}"),
            approval_wait: seconds(&meter, metric::APPROVAL_WAIT),
            truncated_bytes: counter(metric::TRUNCATED_BYTES, "By"),
            truncated_items: counter(metric::TRUNCATED_ITEMS, "{item}"),
        }
    }
}

fn seconds(meter: &Meter, name: &'static str) -> Histogram<f64> {
    meter.f64_histogram(name).with_unit("s").with_boundaries(metric::DURATION_BOUNDARIES.to_vec()).build()
}

fn gauge(meter: &Meter, name: &'static str, unit: &'static str, level: Level) {
    // The meter keeps the gauge alive.
    let _ = meter
        .i64_observable_gauge(name)
        .with_unit(unit)
        .with_callback(move |observer| observer.observe(level.now(), &[]))
        .build();
}

/// Registers the counter of lost records. It is exported at zero too, so that an alert can tell "no loss"
/// from "no data".
fn lost_records_counter(meter: &Meter) {
    let _ = meter
        .u64_observable_counter(metric::LOST_RECORDS)
        .with_unit("{record}")
        .with_callback(|observer| observer.observe(LOST_RECORDS.load(Ordering::Relaxed), &[]))
        .build();
}
