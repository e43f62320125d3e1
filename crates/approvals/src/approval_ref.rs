//! Approval state that a call carries through the pipeline: how it requests approval, and which approval it
//! references.

use std::time::Duration;

/// Approval mode that a call requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApprovalMode {
    /// Wait for the decision.
    #[default]
    Wait,
    /// Wait for the decision, and return its approval id if that takes longer. The caller continues by repeating the
    /// call.
    WaitAtMost(Duration),
    /// Submit the request, return its approval id to the caller and end the call.
    Async,
    /// Never request approval.
    Never,
}

/// Reference to the approval request of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRef {
    /// Approval id.
    pub id: String,
    /// True if this call created the request. A request of another call is only presented, and is never
    /// withdrawn.
    pub is_own: bool,
}

/// Basis on which a call is approved. The approval is not consumed yet.
#[derive(Debug)]
pub enum ApprovalBasis {
    /// A single approval, for one call.
    Once {
        /// The approval.
        approval_ref: ApprovalRef,
        /// Rules that require the approval.
        rules: Vec<String>,
    },
    /// A standing rule.
    ByRule {
        /// Rules that require the approval.
        rules: Vec<String>,
    },
}

impl ApprovalMode {
    /// Returns true if the call waits for the decision.
    pub fn waits(self) -> bool {
        matches!(self, ApprovalMode::Wait | ApprovalMode::WaitAtMost(_))
    }
}
