//! A human changes the arguments of a call that waits: what comes of it is checked, judged and asked about like any other
//! call. Nothing runs here.

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

/// Where changes to the arguments of a waiting call come in, for as long as it waits.
pub(super) struct Editing<'a> {
    layer: &'a ToolExecutionLayer,
    id: &'a str,
    /// Which of those who wait this is.
    sender: mpsc::Sender<Edit>,
    edits: mpsc::Receiver<Edit>,
}

impl<'a> Editing<'a> {
    pub(super) fn open(layer: &'a ToolExecutionLayer, id: &'a str) -> Self {
        let (sender, edits) = mpsc::channel(1);
        // Behind whoever waits already: a second one that brings the same question takes nothing from the first.
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

/// A human changed the arguments: they are checked and judged like any others, and asked about anew. What is wrong with
/// them is told to the human, and the call goes on waiting as it was.
pub(super) async fn edited(
    layer: &ToolExecutionLayer,
    call: &Call,
    tool: &Arc<Tool>,
    hand: &Hand,
    edit: Edit,
) -> Option<Halt> {
    let Edit { arguments, answer } = edit;
    let judged = judge_edited(layer, call, tool, arguments.clone()).await;
    // Whoever changed them was told that it takes too long: it does not happen behind their back.
    if answer.is_closed() {
        if let Ok(Some(next)) = &judged {
            let why = "whoever changed the arguments waited no longer";
            layer.approvals.void(&layer.ledger, &next.id, why).await;
        }
        return None;
    }
    let (told, halt) = match judged {
        Ok(Some(next)) => (Ok(Edited::Asks(next.id.clone())), Some(Halt::Edited(arguments, Some(next)))),
        Ok(None) => (Ok(Edited::Runs), Some(Halt::Edited(arguments, None))),
        Err(refusal) => (Err(refusal.reason), None),
    };
    if halt.is_some() {
        layer.approvals.void(&layer.ledger, &hand.id, "its arguments were changed by a human").await;
    }
    let _ = answer.send(told);
    halt
}

/// The new question, or none where nobody needs to be asked.
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
