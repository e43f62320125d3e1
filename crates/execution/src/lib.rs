//! Pipeline that every tool call runs through, and the single place where every outcome is recorded.
//!
//! The endpoints (sockets, MCP, command line) call `ToolExecutionLayer`: it takes a `CallRequest` and always
//! returns a `ToolResult`. The stages are implemented in their own crates; `pipeline.rs` defines their order.

mod approvals;
mod aside;
mod book;
mod bookkeeping;
mod call;
mod calls;
mod content;
mod explain;
mod host;
mod layer;
mod limits;
mod look_up;
mod mode;
mod nudge;
mod offers;
mod pace;
mod pipeline;
mod recorder;
mod reload;
mod repair;
mod repeats;
mod run;
mod sensors;
mod sessions;
mod slots;
mod status;
#[cfg(test)]
mod tests;
mod throttle;
mod transition;
mod undo;
mod watch;
mod world;

pub use approvals::{
    Answer, Asking, Card, CardLine, DecideError, Decided, Fact, Lasting, Listed, OperatorProof, Pin,
    PinError, ShownChange, Side, StandingRule, Tone, shown,
};
pub use bookkeeping::Throttled;
pub use call::{CuratedMap, Request};
pub use calls::{CallStanding, Cancelled, Standing};
pub use content::redactor;
pub use explain::{Explanation, Finding, Hearer};
pub use file_access::{Reversal, Reverted};
pub use host::{
    Advice, Below, Host, HostArgument, HostCall, HostJudge, HostReview, HostTool, HostToolName, HostVerdict,
    JudgedTool, OnPermit, Origin, Silence, UnknownHost, secrets_in,
};
pub use layer::{Parts, ToolExecutionLayer};
pub use ledger::{ExportFormat, Filter as LedgerFilter, LedgerError, Record as LedgerRecord};
pub use mode::{ModeError, ModeSet};
pub use offers::Offer;
pub use policy_tools::{Difference, Effect};
pub use recorder::Configuration;
pub use reload::{Acceptance, ReloadReport, Reloaded, between_maps, loosens};
pub use sessions::{OpenedSession, SessionError, SessionStanding, SessionTerms, TermsError};
pub use status::Status;
pub use throttle::{CallerKey, RequestCost};
pub use undo::{UndoError, Undone};
pub use world::{ToolFilter, World};
