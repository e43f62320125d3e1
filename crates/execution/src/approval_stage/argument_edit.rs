//! Edits of the arguments of a waiting call by the operator. The edited call is checked, judged and submitted
//! for approval like any other call. Nothing runs here.

use approvals::edits::{ArgumentEdit, EditOutcome};
use approvals::{ApprovalRef, new_approval_id};
use governance::{ApprovalRequired, Verdict};
use tool::{Arguments, Refusal};

use super::{ArgumentOrigin, compute_effect, submit_request};
use crate::pipeline::{self, PipelineHalt, StageContext};

/// Applies an edit: the new arguments are checked, judged and submitted as a new request. If they are
/// refused, the operator gets the reason and the call continues to wait unchanged.
pub(super) async fn apply_edit(
    cx: &StageContext<'_>,
    approval_ref: &ApprovalRef,
    edit: ArgumentEdit,
) -> Option<PipelineHalt> {
    let ArgumentEdit { arguments, reply: answer } = edit;
    let judged = judge_edit(cx, arguments.clone()).await;
    // The operator has already received a timeout error for the edit, so it must not take effect afterwards.
    if answer.is_closed() {
        if let Ok(Some(next)) = &judged {
            let why = "the edit of the arguments timed out";
            cx.approvals.void(&next.id, why).await;
        }
        return None;
    }
    let (reply, halt) = match judged {
        Ok(Some(next)) => (
            Ok(EditOutcome::ApprovalRequired(next.id.clone())),
            Some(PipelineHalt::Edited(arguments, Some(next))),
        ),
        Ok(None) => (Ok(EditOutcome::Permitted), Some(PipelineHalt::Edited(arguments, None))),
        Err(refusal) => (Err(refusal.reason), None),
    };
    if halt.is_some() {
        cx.approvals.void(&approval_ref.id, "its arguments were changed by the operator").await;
    }
    let _ = answer.send(reply);
    halt
}

/// Returns the new approval reference, or `None` if the edited call needs no approval.
async fn judge_edit(
    cx: &StageContext<'_>,
    arguments: Arguments,
) -> Result<Option<ApprovalRef>, Box<Refusal>> {
    let value = serde_json::Value::Object(arguments);
    match pipeline::check_and_judge(cx, value).await? {
        Verdict::Permit(_) => Ok(None),
        Verdict::Denial(denial) => Err(denial.into()),
        Verdict::ApprovalRequired(question) => {
            let (question, effect) = compute_effect(cx, question, ApprovalRequired::permit).await?;
            submit_request(cx, &question, &effect, (&new_approval_id(), ArgumentOrigin::Operator))
                .await
                .map(Some)
        }
    }
}
