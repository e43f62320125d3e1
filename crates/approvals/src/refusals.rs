//! Refusals of calls that are not approved.

use tool::{Refusal, RefusalCode};

use crate::queue::{CapacityError, UnusableApproval};
pub use crate::state::EarlierRequest;

/// Refusal of a call whose standing rule was revoked or has expired.
pub fn rule_expired_refusal(tool: &str) -> Box<Refusal> {
    let reason = "Permission denied: The standing rule that covered this call is no longer in effect";
    let refusal = Refusal::new(tool, RefusalCode::Conflict, reason).with_detail("approval_revoked");
    Box::new(refusal.with_hint("repeat the call to request approval"))
}

/// Refusal of a call that does not wait for the decision.
pub fn pending_refusal(tool: &str, id: &str, detail: &str) -> Box<Refusal> {
    let reason = "Waiting for approval";
    let refusal = Refusal::new(tool, RefusalCode::ApprovalPending, reason).with_detail(detail);
    let hint = format!(
        "nothing was run; the operator was asked (approval {id}): call again with the same arguments to continue, \
         from another process also with this approval id"
    );
    Box::new(Refusal { approval_id: Some(id.to_owned()), ..refusal.with_hint(hint) })
}

/// Refusal of a call that the operator denied a moment ago. The operator is not asked again.
pub fn denied_before_refusal(tool: &str, id: &str, message: Option<String>) -> Box<Refusal> {
    let refusal = unusable_refusal(tool, id, &UnusableApproval::Denied(message));
    let hint = "the operator denied the same call within the last ten minutes and was not asked again";
    Box::new(refusal.with_detail("denied_before").with_hint(hint))
}

/// Refusal of a call because too many requests are pending.
pub fn capacity_refusal(tool: &str, full: CapacityError) -> Box<Refusal> {
    let pending = match full {
        CapacityError::Total(max) => format!("{max} approval requests are pending"),
        CapacityError::User(max) => {
            format!("{max} approval requests of this user are pending, over all client names")
        }
        CapacityError::Caller(max) => format!("{max} approval requests of this caller are pending"),
    };
    let reason = format!("Permission denied: Approval is required, but {pending} already");
    let refusal = Refusal::new(tool, RefusalCode::Busy, reason).with_detail("too_many_approvals");
    Box::new(
        refusal.with_hint("wait until some are decided; the operator sees them with `sinew approvals list`"),
    )
}

/// Refusal of a call whose approval cannot be used.
pub fn unusable_refusal(tool: &str, id: &str, why: &UnusableApproval) -> Box<Refusal> {
    use RefusalCode::{ApprovalDenied, ApprovalPending, ApprovalTimedOut, Conflict};
    let (code, detail, reason, hint) = match why {
        UnusableApproval::Denied(message) => {
            let message = message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
            let reason = format!("Approval denied by user{message}");
            (
                ApprovalDenied,
                "denied_by_user",
                reason,
                "do not try the same again; ask the user what they want",
            )
        }
        UnusableApproval::Expired => {
            let reason = "Approval timed out: the operator did not decide in time".to_owned();
            (ApprovalTimedOut, "timed_out", reason, "nothing was run; without a decision the call is denied")
        }
        UnusableApproval::Pending => {
            (ApprovalPending, "asked", "Approval is pending".to_owned(), "repeat the call once it is decided")
        }
        UnusableApproval::Used => {
            let reason = format!("Approval {id} has already been used");
            (
                Conflict,
                "approval_used",
                reason,
                "an approval is for one call: repeat it without approval_id to request another",
            )
        }
        UnusableApproval::Void(why) => {
            let reason = format!("Approval {id} was withdrawn: {why}");
            (Conflict, "approval_withdrawn", reason, "repeat the call without approval_id to request another")
        }
        UnusableApproval::Mismatch => {
            let reason = format!("Approval {id} does not match what this call would do now");
            (Conflict, "approval_mismatch", reason, "repeat the call without approval_id to request another")
        }
        UnusableApproval::Unknown => {
            let reason = "There is no such approval for this caller".to_owned();
            (Conflict, "approval_unknown", reason, "repeat the call without approval_id to request one")
        }
    };
    let reason = format!("Permission denied: {reason}");
    let refusal = Refusal::new(tool, code, reason).with_detail(detail).with_hint(hint);
    Box::new(Refusal { approval_id: Some(id.to_owned()), ..refusal })
}
