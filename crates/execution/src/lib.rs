//! The road of a call, and the one place where every end of it is recorded.
//!
//! [`ToolExecutionLayer`] is what the doors (sockets, MCP, command line) talk to: a [`Request`] goes in, a
//! `ToolResult` comes out, whatever happens in between. The stages themselves live in their own crates;
//! `pipeline.rs` is their order, top to bottom.

mod approvals;
mod aside;
mod book;
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
mod transition;
mod undo;
mod watch;
mod world;

pub use approvals::{
    Answer, Asking, Card, CardLine, DecideError, Decided, Fact, Lasting, Listed, OperatorProof, Pin,
    PinError, ShownChange, Side, StandingRule, Tone, shown,
};
pub use call::{CuratedMap, Request};
pub use calls::{CallStanding, Cancelled, Standing};
pub use content::redactor;
pub use explain::{Explanation, Finding, Hearer};
pub use governance::{Difference, Effect};
pub use host::{
    Advice, Below, Host, HostArgument, HostCall, HostJudge, HostReview, HostTool, HostToolName, HostVerdict,
    JudgedTool, OnPermit, Origin, Silence, UnknownHost, secrets_in,
};
pub use layer::{Parts, ToolExecutionLayer};
pub use ledger::{ExportFormat, Filter as LedgerFilter, LedgerError, Record as LedgerRecord};
pub use mode::{ModeError, ModeSet};
pub use offers::Offer;
pub use recorder::Configuration;
pub use reload::{Acceptance, ReloadReport, Reloaded, between_maps, loosens};
pub use resources::{Reversal, Reverted};
pub use sessions::{OpenedSession, SessionError, SessionStanding, SessionTerms, TermsError};
pub use status::Status;
pub use undo::{UndoError, Undone};
pub use world::{ToolFilter, World};
