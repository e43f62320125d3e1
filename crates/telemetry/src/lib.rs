//! Telemetry of Sinew: events, the log, OpenTelemetry, and the redaction applied to all of them and to the
//! records of other crates.
//!
//! Telemetry never decides, delays or fails a call: its queues are bounded and its losses are counted.

mod error;
mod event;
mod feed;
mod init;
mod log;
mod otel;
mod panic;
mod settings;
mod span;

pub mod conventions;
pub mod logs;
pub mod metrics;
pub mod redact;

pub use error::TelemetryError;
pub use event::{ApprovalDecision, Event, Subject, captures_content, emit};
pub use feed::{Happened, Seen, Watch, watch};
pub use init::{Flushed, Guard, LogTarget, init};
pub use log::within_call;
pub use otel::ExportHealth;
pub use settings::{
    Compression, LogSettings, OtlpSettings, Protocol, Sampler, Signal, TelemetrySettings, VARIABLES, Variable,
};
pub use span::{CallSpan, Note, Outcome, Stage, StageSpan, StageTiming};
