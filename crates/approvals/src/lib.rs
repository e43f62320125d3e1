//! Approvals by the operator and worker sessions: who may let a call run, and how much a worker may use.
//!
//! `Approvals` holds the requests, decisions and standing rules; `sessions` the allowlists and budgets of
//! workers. The stages of the pipeline that use them are in the crate `execution`.

mod approval_ref;
mod caller_share;
mod clock;
mod display_escape;
pub mod edits;
mod effect;
mod operator;
mod pin;
mod queue;
pub mod refusals;
mod request;
mod request_store;
mod rule;
#[cfg(test)]
mod schedule_rng;
pub mod sessions;
mod standing_rules;
mod state;
mod submission;

pub use approval_ref::{ApprovalBasis, ApprovalMode, ApprovalRef};
pub use display_escape::escape_for_display;
pub use effect::CallEffect;
pub use operator::{DecideError, DecisionOutcome, ListedApproval, OperatorDecision, StandingRuleRequest};
pub use pin::{OperatorProof, Pin, PinError};
pub use queue::{ApprovalClaim, UnusableApproval};
pub use request::{ApprovalFact, ApprovalRequest, ApprovalRequestLine, DiffLineKind, FileDiff, LineStyle};
pub use standing_rules::StandingRule;
pub use state::Approvals;
pub use submission::{RequestedCall, SubmitError, new_approval_id, rule_names};
