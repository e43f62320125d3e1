//! Export of finished calls as spans: `execute_tool NAME` with one child per stage, under the ids of the
//! call.
//!
//! The spans are built after the call and passed to the batch processor of the SDK; no SDK code runs during a
//! call.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, IdGenerator, RandomIdGenerator, SamplingDecision, ShouldSample,
    SpanData, SpanEvents, SpanExporter, SpanLinks, SpanProcessor,
};
use tool::TraceContext;

use super::export_monitor::{ExportMonitor, MonitoredExporter};
use crate::conventions::EXECUTE_TOOL;
use crate::redact;
use crate::settings::Sampler;
use crate::span::StageTiming;

/// Maximum number of spans that wait for the collector: over a thousand calls.
pub(super) const QUEUE_CAPACITY: usize = 8192;
const BATCH_SIZE: usize = 512;

/// Call that has ended.
pub(crate) struct FinishedCall {
    pub(crate) trace: TraceContext,
    /// Tool label, safe for a span name.
    pub(crate) tool: String,
    pub(crate) started_at: SystemTime,
    pub(crate) duration: Duration,
    pub(crate) attributes: Vec<KeyValue>,
    pub(crate) error: Option<&'static str>,
    pub(crate) stages: Vec<StageTiming>,
}

#[derive(Debug)]
pub(crate) struct TracesPipeline {
    processor: BatchSpanProcessor,
    pub(super) monitor: Arc<ExportMonitor>,
    scope: InstrumentationScope,
    sampler: opentelemetry_sdk::trace::Sampler,
    ids: RandomIdGenerator,
}

impl TracesPipeline {
    pub(super) fn new(
        exporter: impl SpanExporter + 'static,
        watch: Arc<ExportMonitor>,
        resource: &Resource,
        scope: InstrumentationScope,
        sampler: (Sampler, f64),
    ) -> Self {
        // The monitor admits at most QUEUE_CAPACITY spans and frees a slot only after the export. The queue
        // of the SDK, which drops silently, is therefore never full.
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_CAPACITY + BATCH_SIZE)
            .with_max_export_batch_size(BATCH_SIZE)
            .build();
        let exporter = MonitoredExporter { exporter, monitor: Arc::clone(&watch) };
        let mut processor = BatchSpanProcessor::new(exporter, config);
        processor.set_resource(resource);
        let sampler = to_sdk_sampler(sampler);
        TracesPipeline { processor, monitor: watch, scope, sampler, ids: RandomIdGenerator::default() }
    }

    /// Queues the spans of a call. Never waits.
    pub(crate) fn finish(&self, call: FinishedCall) {
        let Some(ids) = SpanIds::from_context(&call.trace) else { return };
        let name = format!("{EXECUTE_TOOL} {}", call.tool);
        if !self.is_sampled(&ids, &name, &call.attributes) {
            return;
        }
        for timing in &call.stages {
            let start = call.started_at + Duration::from_micros(timing.start_us);
            let end = start + Duration::from_micros(timing.duration_us);
            let mut child = self.span(&ids, self.ids.new_span_id(), timing.stage.as_str().into(), start, end);
            child.parent_span_id = ids.span;
            child.attributes =
                vec![KeyValue::new(crate::conventions::attribute::STAGE, timing.stage.as_str())];
            self.enqueue(child);
        }
        let end = call.started_at + call.duration;
        let mut span = self.span(&ids, ids.span, name.into(), call.started_at, end);
        span.parent_span_id = ids.parent.unwrap_or(SpanId::INVALID);
        span.parent_span_is_remote = ids.parent.is_some();
        span.attributes = call.attributes;
        span.status = call.error.map_or(Status::Unset, Status::error);
        self.enqueue(span);
    }

    pub(super) fn shutdown(&self, timeout: Duration) -> bool {
        self.processor.shutdown_with_timeout(timeout).is_ok()
    }

    fn enqueue(&self, span: SpanData) {
        if self.monitor.try_reserve() {
            self.processor.on_end(span);
        }
    }

    fn is_sampled(&self, ids: &SpanIds, name: &str, attributes: &[KeyValue]) -> bool {
        let context = ids.parent.map_or_else(Context::new, |parent| {
            let caller = SpanContext::new(ids.trace, parent, ids.flags, true, ids.state.clone());
            Context::new().with_remote_span_context(caller)
        });
        let result =
            self.sampler.should_sample(Some(&context), ids.trace, name, &SpanKind::Internal, attributes, &[]);
        result.decision == SamplingDecision::RecordAndSample
    }

    fn span(
        &self,
        ids: &SpanIds,
        id: SpanId,
        name: Cow<'static, str>,
        start: SystemTime,
        end: SystemTime,
    ) -> SpanData {
        SpanData {
            span_context: SpanContext::new(ids.trace, id, TraceFlags::SAMPLED, false, ids.state.clone()),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name,
            start_time: start,
            end_time: end,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }
}

/// Ids of a call as SDK types.
struct SpanIds {
    trace: TraceId,
    span: SpanId,
    parent: Option<SpanId>,
    /// Trace flags of the caller.
    flags: TraceFlags,
    state: TraceState,
}

impl SpanIds {
    fn from_context(context: &TraceContext) -> Option<Self> {
        Some(SpanIds {
            trace: TraceId::from_hex(&context.trace_id).ok()?,
            span: SpanId::from_hex(&context.span_id).ok()?,
            parent: context.parent_span_id.as_deref().and_then(|parent| SpanId::from_hex(parent).ok()),
            flags: if context.sampled { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED },
            state: context.trace_state.as_deref().and_then(parse_trace_state).unwrap_or(TraceState::NONE),
        })
    }
}

/// Parses the caller's `tracestate`, unless it contains a secret: redacting part of it would change its
/// meaning.
fn parse_trace_state(text: &str) -> Option<TraceState> {
    let clean = redact::shared().redact_text(text) == text;
    clean.then(|| TraceState::from_str(text).ok()).flatten()
}

fn to_sdk_sampler((name, ratio): (Sampler, f64)) -> opentelemetry_sdk::trace::Sampler {
    use opentelemetry_sdk::trace::Sampler as Standard;
    match name {
        Sampler::AlwaysOn => Standard::AlwaysOn,
        Sampler::AlwaysOff => Standard::AlwaysOff,
        Sampler::Traceidratio => Standard::TraceIdRatioBased(ratio),
        Sampler::ParentbasedAlwaysOn => Standard::ParentBased(Box::new(Standard::AlwaysOn)),
        Sampler::ParentbasedAlwaysOff => Standard::ParentBased(Box::new(Standard::AlwaysOff)),
        Sampler::ParentbasedTraceidratio => {
            Standard::ParentBased(Box::new(Standard::TraceIdRatioBased(ratio)))
        }
    }
}
