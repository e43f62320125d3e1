//! `subscriptions/listen`: sends change notifications until the client cancels the request. A reply would end
//! the subscription, so none is sent while the connection is open.

use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::LIST_CHANGED;
use super::era::McpEra;
use crate::agent::AgentContext;
use crate::connection_state::ConnectionState;
use crate::notify::Notifier;
use crate::rpc::RpcError;
use crate::service::{MethodCall, MethodReply, MethodResult};

const METHOD: &str = "subscriptions/listen";

const ACKNOWLEDGED_METHOD: &str = "notifications/subscriptions/acknowledged";
const SUBSCRIPTION_ID_KEY: &str = "io.modelcontextprotocol/subscriptionId";

pub(crate) fn run(agent: &AgentContext, session: &mut ConnectionState, mut call: MethodCall) -> MethodResult {
    let (era, _) = McpEra::from_request(session, &mut call.params)?;
    if era == McpEra::Handshake {
        return Err(RpcError::unknown_method(METHOD, []));
    }
    let wanted: Map<String, Value> = call.params.required("notifications")?;
    let tools = wanted.get("toolsListChanged").and_then(Value::as_bool).unwrap_or(false);
    let changes = tools.then(|| agent.layer.tool_changes());
    let meta = json!({SUBSCRIPTION_ID_KEY: call.id});
    Ok(MethodReply::NotifyOnly(Box::new(|notifier| Box::pin(notify_subscriber(meta, changes, notifier)))))
}

/// Acknowledges the supported notifications, then sends them. An unsupported one is missing from the
/// acknowledgement, which tells the client so.
async fn notify_subscriber(meta: Value, changes: Option<watch::Receiver<u64>>, notifier: Notifier) {
    let honoured = if changes.is_some() { json!({"toolsListChanged": true}) } else { json!({}) };
    notifier.notify(ACKNOWLEDGED_METHOD, &json!({"notifications": honoured, "_meta": meta})).await;
    let Some(mut changes) = changes else { return std::future::pending().await };
    while changes.changed().await.is_ok() {
        notifier.notify(LIST_CHANGED, &json!({"_meta": meta})).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;
    use crate::outbox::Outbox;

    #[tokio::test]
    async fn notifications_carry_the_subscription_id() {
        let (server, client) = tokio::io::duplex(1024);
        let (outbox, _writer) = Outbox::open(server, Duration::from_secs(60));
        let sender = watch::Sender::new(0_u64);
        let meta = json!({SUBSCRIPTION_ID_KEY: 7});
        let telling =
            tokio::spawn(notify_subscriber(meta.clone(), Some(sender.subscribe()), Notifier::new(outbox)));
        let mut lines = BufReader::new(client).lines();
        for (expect, change) in [(ACKNOWLEDGED_METHOD, 1), (LIST_CHANGED, 2)] {
            let reported: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
            assert_eq!((&reported["method"], &reported["params"]["_meta"]), (&json!(expect), &meta));
            sender.send_replace(change);
        }
        drop(sender);
        telling.await.unwrap();
    }
}
