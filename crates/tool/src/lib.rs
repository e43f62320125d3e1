//! Base types of Sinew: tool definitions, callers, and the three outcomes of a call (result, refusal,
//! failure).
//!
//! Every other crate uses these types. This crate opens no file, reads no clock and knows no wire protocol.
//! Values are checked once, when they are constructed, and are immutable afterwards.

mod caller;
mod category;
mod definition;
mod definition_error;
mod export;
mod failure;
mod git_directory;
mod id;
mod json_kind;
mod mode;
mod name;
mod nearest;
mod outward_argument;
mod parameter;
mod path_argument;
mod path_places;
mod problem;
mod progress;
mod refusal;
mod result;
mod risk;
mod schema_of;
mod session;
mod shared_text;
mod shorten;
mod spec;
mod spelling;
mod text_format;
mod trace;
mod unseen;
mod visible;

pub mod canonical;
pub mod escaped_json;
pub mod strict_json;

pub use caller::{Caller, Door, Side, shortened};
pub use category::Category;
pub use definition::{Annotations, ToolDefinition};
pub use definition_error::DefinitionError;
pub use export::Format;
pub use failure::{Failure, FailureKind, Fault};
pub use git_directory::{
    GitDirectory, GitEntry, is_acted_on_by_git, is_git_entry, is_git_marker, is_ignored_in_names,
};
pub use id::CallId;
pub use json_kind::json_kind;
pub use mode::Mode;
pub use name::ToolName;
pub use nearest::{is_slip_of, nearest};
pub use outward_argument::{Outward, OutwardArgument};
pub use parameter::{ParameterType, ToolParameter};
pub use path_argument::{PathAccess, PathArgument};
pub use problem::Problem;
pub use progress::{Progress, ProgressNote};
pub use refusal::{Refusal, RefusalCode, Repair, RuleRef};
pub use result::{
    CutUnit, FailureReport, Metadata, Output, Repeat, SandboxReport, SandboxTier, ToolResult, Truncation,
    Usage,
};
pub use risk::RiskLevel;
pub use session::{CostCapReport, Marks, SessionReport, fresh_session_id};
pub use shared_text::SharedText;
pub use shorten::{LONGEST_WORD, shorten};
pub use spec::{SESSION_ARGUMENT, ToolSpec, is_version};
pub use text_format::TextFormat;
pub use trace::TraceContext;
pub use unseen::is_unseen;
pub use visible::{visible, visible_line};

/// Arguments of a call: a JSON object that keeps the order of its keys.
pub type Arguments = serde_json::Map<String, serde_json::Value>;
