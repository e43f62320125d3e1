//! What a call is told that a human has not let run.

use tool::{Refusal, RefusalCode};

use super::queue::{Full, Unusable};
use crate::call::Call;
use crate::pipeline::Halt;

pub(super) fn again_without(call: &Call) -> Halt {
    let reason = "Permission denied: The rule by which nobody was asked does not hold any more";
    let refusal = Refusal::new(&call.tool_name, RefusalCode::Conflict, reason).detail("approval_revoked");
    Box::new(refusal.hint("repeat the call: a human is asked")).into()
}

pub(super) fn pending(call: &Call, id: &str, detail: &str) -> Box<Refusal> {
    let reason = "Permission denied: Approval is pending";
    let refusal = Refusal::new(&call.tool_name, RefusalCode::ApprovalPending, reason).detail(detail);
    let hint = format!("nothing was run; repeat the same call with approval_id `{id}` once it is approved");
    Box::new(Refusal { approval_id: Some(id.to_owned()), ..refusal.hint(hint) })
}

pub(super) fn too_many(call: &Call, full: Full) -> Box<Refusal> {
    let whose = match full {
        Full::All(most) => format!("{most} questions wait"),
        Full::OfUser(most) => {
            format!("{most} questions of this user wait, whatever its clients call themselves")
        }
        Full::OfCaller(most) => format!("{most} questions of this caller wait"),
    };
    let reason = format!("Permission denied: Approval is required, and {whose} already");
    let refusal = Refusal::new(&call.tool_name, RefusalCode::Busy, reason).detail("too_many_approvals");
    Box::new(refusal.hint("wait until some are answered: `sinew approvals list` shows them to the human"))
}

/// The refusal of a call whose answer is not a yes to it.
pub(super) fn unusable(call: &Call, id: &str, why: &Unusable) -> Box<Refusal> {
    use RefusalCode::{ApprovalDenied, ApprovalPending, ApprovalTimedOut, Conflict};
    let (code, detail, reason, hint) = match why {
        Unusable::Denied(message) => {
            let said = message.as_deref().map(|message| format!(": {message}")).unwrap_or_default();
            let reason = format!("Approval denied by user{said}");
            (
                ApprovalDenied,
                "denied_by_user",
                reason,
                "do not try the same again; ask the user what they want",
            )
        }
        Unusable::Expired => {
            let reason = "Approval timed out: nobody answered in time".to_owned();
            (ApprovalTimedOut, "timed_out", reason, "nothing was run; silence is not consent")
        }
        Unusable::Pending => {
            (ApprovalPending, "asked", "Approval is pending".to_owned(), "come back when it is decided")
        }
        Unusable::Used => {
            let reason = format!("Approval {id} was used already");
            (
                Conflict,
                "approval_used",
                reason,
                "an approval is for one call: repeat it without approval_id to ask again",
            )
        }
        Unusable::Void(why) => {
            let reason = format!("Approval {id} was withdrawn: {why}");
            (Conflict, "approval_withdrawn", reason, "repeat the call without approval_id to ask again")
        }
        Unusable::Mismatch => {
            let reason = format!("Approval {id} is for something else than this call would do now");
            (Conflict, "approval_mismatch", reason, "repeat the call without approval_id to ask again")
        }
        Unusable::Unknown => {
            let reason = "There is no such approval for this caller".to_owned();
            (Conflict, "approval_unknown", reason, "repeat the call without approval_id to ask")
        }
    };
    let reason = format!("Permission denied: {reason}");
    let refusal = Refusal::new(&call.tool_name, code, reason).detail(detail).hint(hint);
    Box::new(Refusal { approval_id: Some(id.to_owned()), ..refusal })
}
