//! Telemetry of Sinew: events, the log, OpenTelemetry, and the redaction applied to all of them and to the
//! records of other crates.
//!
//! Telemetry never decides, delays or fails a call: its queues are bounded and its losses are counted.

mod error;
mod event;
mod event_feed;
mod init;
mod log;
mod otel;
mod panic;
mod settings;
mod span;

pub mod conventions;
pub mod log_reader;
pub mod metrics;
pub mod redact;

pub use error::TelemetryError;
pub use event::{ApprovalDecision, CallContext, TelemetryEvent, emit, is_content_captured};
pub use event_feed::{EventSubscription, FeedItem, subscribe};
pub use init::{FlushOutcome, LogTarget, TelemetryGuard, init};
pub use log::with_call_ids;
pub use settings::{LogSettings, LoggedCalls, OtlpSettings, TelemetrySettings, TelemetrySignal, VARIABLES};
pub use span::{CallOutcome, CallSpan, SpanNote, Stage, StageTiming};
