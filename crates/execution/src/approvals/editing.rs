//! Edits of the arguments of a waiting call by the operator. The edited call is checked, judged and submitted
//! for approval like any other call. Nothing runs here.

use std::sync::Arc;

use governance::{Question, Verdict};
use registry::Tool;
use tokio::sync::mpsc;
use tool::{Arguments, Refusal};

use super::asking::{Hands, fresh_id, look, names, put};
use super::hand::Hand;
use super::{Edit, Edited};
use crate::call::Call;
use crate::layer::ToolExecutionLayer;
use crate::pipeline::{self, Halt};

/// Receiving end of edits for one waiting call. Dropping it closes the channel.
pub(super) struct Editing<'a> {
    layer: &'a ToolExecutionLayer,
    id: &'a str,
    /// Identifies this call among those that wait for the same approval.
    sender: mpsc::Sender<Edit>,
    edits: mpsc::Receiver<Edit>,
}

impl<'a> Editing<'a> {
    pub(super) fn open(layer: &'a ToolExecutionLayer, id: &'a str) -> Self {
        let (sender, edits) = mpsc::channel(1);
        // Appended, so that a second call that presents the same approval does not take edits away from the
        // first.
        layer.approvals.editors().entry(id.to_owned()).or_default().push(sender.clone());
        Editing { layer, id, sender, edits }
    }

    pub(super) async fn next(&mut self) -> Option<Edit> {
        self.edits.recv().await
    }
}

impl Drop for Editing<'_> {
    fn drop(&mut self) {
        let mut editors = self.layer.approvals.editors();
        if let Some(waiting) = editors.get_mut(self.id) {
            waiting.retain(|sender| !sender.same_channel(&self.sender));
            if waiting.is_empty() {
                editors.remove(self.id);
            }
        }
    }
}

/// Applies an edit: the new arguments are checked, judged and submitted as a new request. If they are
/// refused, the operator gets the reason and the call continues to wait unchanged.
pub(super) async fn edited(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    hand: &Hand,
    edit: Edit,
) -> Option<Halt> {
    let Edit { arguments, answer } = edit;
    let judged = judge_edited(layer, call, tool, arguments.clone()).await;
    // The operator was already told that the edit timed out, so it must not take effect afterwards.
    if answer.is_closed() {
        if let Ok(Some(next)) = &judged {
            let why = "the edit of the arguments timed out";
            layer.approvals.void(&layer.ledger, &next.id, why).await;
        }
        return None;
    }
    let (reply, halt) = match judged {
        Ok(Some(next)) => (Ok(Edited::Asks(next.id.clone())), Some(Halt::Edited(arguments, Some(next)))),
        Ok(None) => (Ok(Edited::Runs), Some(Halt::Edited(arguments, None))),
        Err(refusal) => (Err(refusal.reason), None),
    };
    if halt.is_some() {
        layer.approvals.void(&layer.ledger, &hand.id, "its arguments were changed by the operator").await;
    }
    let _ = answer.send(reply);
    halt
}

/// Returns the new approval reference, or `None` if the edited call needs no approval.
async fn judge_edited(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    arguments: Arguments,
) -> Result<Option<Hand>, Box<Refusal>> {
    let value = serde_json::Value::Object(arguments);
    match pipeline::judge(layer, call, tool.definition(), tool.schema(), value).await? {
        Verdict::Permit(_) => Ok(None),
        Verdict::Denial(denial) => Err(denial.into()),
        Verdict::Question(question) => {
            let rules = names(question.asked_by());
            let (question, effect) = look(layer, call, tool, question, Question::proposed).await?;
            put(layer, call, &question, &effect, rules, (&fresh_id(), Hands::On)).await.map(Some)
        }
    }
}
