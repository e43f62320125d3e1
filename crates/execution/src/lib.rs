//! Pipeline that every tool call runs through, and the single place where every outcome is recorded.
//!
//! The endpoints (sockets, MCP, command line) call `ToolExecutionLayer`: it takes a `CallRequest` and always
//! returns a `ToolResult`. The stages are implemented in their own crates; `pipeline.rs` defines their order.

mod approval_stage;
mod bookkeeping;
mod call;
mod calls;
mod config_snapshot;
mod console;
mod current_policy;
mod explain;
pub mod host;
mod idempotency;
mod layer;
pub mod ledger_queries;
mod limits;
mod look_up;
pub mod modes;
mod nudge;
mod offload;
mod pipeline;
mod policy_names;
mod recorder;
pub mod recording;
pub mod reload;
mod repair;
mod request_slots;
mod response_padding;
mod result_cache;
mod run;
#[cfg(test)]
#[path = "../../approvals/src/schedule_rng.rs"]
mod schedule_rng;
mod secret_screening;
mod sessions;
mod slots;
mod status;
mod suspension;
#[cfg(test)]
mod tests;
mod throttle;
pub mod undo;

pub use bookkeeping::Throttled;
pub use call::{CallRequest, CuratedMapCheck};
pub use calls::{CallState, CallStatus, CancelOutcome, ConnectionLoss};
pub use config_snapshot::{ConfigSnapshot, ManifestProblem, ToolFilter};
pub use console::OpenConsole;
pub use explain::{ExplainedVerdict, Explanation, ExplanationAudience};
pub use layer::{LayerParts, ToolExecutionLayer};
pub use recorder::StartConfiguration;
pub use request_slots::RequestSlots;
pub use secret_screening::redactor;
pub use status::{LayerStatus, ToolAvailability};
pub use suspension::SuspendedCaller;
pub use throttle::RequestCost;
