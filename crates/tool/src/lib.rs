//! Base types of Sinew: tool definitions, callers, and the three outcomes of a call (result, refusal,
//! failure).
//!
//! Every other crate uses these types. This crate opens no file, reads no clock and knows no wire protocol.
//! Values are checked once, when they are constructed, and are immutable afterwards.

mod argument_problem;
mod callable_names;
mod caller;
mod category;
mod definition;
mod definition_error;
mod escape_invisible;
mod export;
mod external_target_argument;
mod failure;
mod git_directory;
mod id;
mod invisible;
mod json_kind;
mod mode;
mod name;
mod nearest;
mod parameter;
mod path_argument;
mod path_declarations;
mod progress;
mod refusal;
mod result;
mod risk;
mod schema_of;
mod session_report;
mod shared_text;
mod shorten;
mod spec;
mod text_format;
mod trace;

pub mod canonical;
pub mod escaped_json;
pub mod strict_json;

pub use argument_problem::ArgumentProblem;
pub use caller::{Caller, CallerEndpoint, EndpointParty, shorten_with_digest};
pub use category::Category;
pub use definition::{Annotations, ToolDefinition};
pub use definition_error::DefinitionError;
pub use escape_invisible::{escape_invisible, escape_invisible_line};
pub use export::ToolFormat;
pub use external_target_argument::{COMMAND_PREFIX, ExternalTargetKind};
pub use failure::{Failure, FailureKind, FaultParty};
pub use git_directory::{
    GitDirectory, GitEntry, is_acted_on_by_git, is_git_entry, is_git_marker, is_ignored_in_names,
};
pub use id::CallId;
pub use invisible::is_invisible;
pub use json_kind::json_kind;
pub use mode::Mode;
pub use name::ToolName;
pub use nearest::{is_typo_of, nearest_word};
pub use parameter::{ParameterType, ToolParameter};
pub use path_argument::PathAccess;
pub use progress::{Progress, ProgressNote};
pub use refusal::{Refusal, RefusalCode, Repair, RuleRef};
pub use result::{
    FailureReport, RepeatedCall, ResultMetadata, SandboxReport, SandboxTier, ToolOutput, ToolResult,
    Truncation, TruncationUnit, Usage,
};
pub use risk::RiskLevel;
pub use session_report::{CostCapReport, SessionReport, UntrustedMarkers, fresh_session_id};
pub use shared_text::SharedText;
pub use shorten::{MAX_QUOTED_CHARS, shorten};
pub use spec::{SESSION_ARGUMENT, ToolSpec, is_version};
pub use text_format::TextFormat;
pub use trace::TraceContext;

/// Arguments of a call: a JSON object that keeps the order of its keys.
pub type Arguments = serde_json::Map<String, serde_json::Value>;
