//! Base types of Sinew: tool definitions, callers, and the three outcomes of a call (result, refusal,
//! failure).
//!
//! Every other crate uses these types. This crate opens no file, reads no clock and knows no wire protocol.
//! Values are checked once, when they are constructed, and are immutable afterwards.

mod category;
mod failure;
mod mode;
mod name;
mod path_text;
mod progress;
mod trace;

pub mod caller;
pub mod canonical;
pub mod definition;
pub mod escaped_json;
pub mod git;
pub mod refusal;
pub mod result;
pub mod strict_json;
pub mod text;

pub use caller::{Caller, CallerEndpoint};
pub use category::{Category, RiskLevel};
pub use definition::{ToolDefinition, ToolSpec};
pub use failure::{Failure, FailureKind, FaultParty};
pub use mode::Mode;
pub use name::ToolName;
pub use progress::{Progress, ProgressNote};
pub use refusal::{Refusal, RefusalCode, RuleRef};
pub use result::{ToolOutput, ToolResult};
pub use trace::{CallId, TraceContext};

/// Arguments of a call: a JSON object that keeps the order of its keys.
pub type Arguments = serde_json::Map<String, serde_json::Value>;
