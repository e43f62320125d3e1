//! The vocabulary of Sinew: what a tool is, who calls it, and the three ways a call can end.
//!
//! Every other crate speaks in these types. Nothing here opens a file, reads a clock or knows a wire format;
//! values are checked once, when they are made, and immutable afterwards.

mod caller;
mod category;
mod definition;
mod export;
mod failure;
mod id;
mod mode;
mod name;
mod nearest;
mod parameter;
mod path_argument;
mod refusal;
mod result;
mod risk;
mod spec;
mod trace;

pub mod canonical;
pub mod strict_json;

pub use caller::{Caller, Door};
pub use category::Category;
pub use definition::{Annotations, ToolDefinition};
pub use export::Format;
pub use failure::{Failure, FailureKind, Fault};
pub use id::CallId;
pub use mode::Mode;
pub use name::ToolName;
pub use nearest::nearest;
pub use parameter::{ParameterType, ToolParameter};
pub use path_argument::{PathAccess, PathArgument};
pub use refusal::{Problem, Refusal, RefusalCode, Repair, RuleRef};
pub use result::{FailureReport, Metadata, Output, SandboxReport, ToolResult, Truncation, Usage};
pub use risk::RiskLevel;
pub use spec::{DefinitionError, ToolSpec};
pub use trace::TraceContext;

/// The arguments of a call: a JSON object in the order it was written.
pub type Arguments = serde_json::Map<String, serde_json::Value>;
