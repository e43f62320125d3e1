//! `control/approvals.watch`: sends a `control/approvals.changed` notification for every change of an
//! approval request, until the connection is closed. The current requests come from `control/approvals.list`.

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
    // Subscribed before the reply, so that every change after the reply is reported.
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
