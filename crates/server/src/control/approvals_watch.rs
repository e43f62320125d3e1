//! `control/approvals.watch`: a `control/approvals.changed` notification whenever something happened to a question, until
//! the connection is closed. What there is now is for `control/approvals.list` to say.

use serde_json::json;
use tokio::sync::watch;

use super::Control;
use crate::notify::Notifier;
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;

pub(crate) const METHOD: Method<Control> = Method { name: "control/approvals.watch", run };

fn run(control: &Control, _session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    call.params.finish()?;
    // Before the answer: what happens after it is seen.
    let changes = control.layer.approvals_changes();
    let answer = rpc::answer(&json!({"following": true}));
    Ok(Answer::Follow(answer, Box::new(move |notifier| Box::pin(follow(changes, notifier)))))
}

async fn follow(mut changes: watch::Receiver<u64>, notifier: Notifier) {
    while changes.changed().await.is_ok() {
        let change = *changes.borrow_and_update();
        notifier.tell("control/approvals.changed", &json!({"change": change})).await;
    }
}
