//! `subscriptions/listen`: sends change notifications until the client cancels the request. A reply would end
//! the subscription, so none is sent while the connection is open.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, watch};

use super::era::McpEra;
use super::task_table::{MAX_TASKS_PER_CALLER, TaskState};
use super::{LIST_CHANGED, task_view, tasks};
use crate::agent::AgentContext;
use crate::connection_state::ConnectionState;
use crate::notify::Notifier;
use crate::rpc::RpcError;
use crate::service::{MethodCall, MethodReply, MethodResult};

const METHOD: &str = "subscriptions/listen";

/// Notification sent when the state of a followed task changes.
const TASK_CHANGED: &str = "notifications/tasks";
const ACKNOWLEDGED_METHOD: &str = "notifications/subscriptions/acknowledged";
const SUBSCRIPTION_ID_KEY: &str = "io.modelcontextprotocol/subscriptionId";

pub(crate) fn run(agent: &AgentContext, session: &mut ConnectionState, mut call: MethodCall) -> MethodResult {
    let (era, _) = McpEra::from_request(session, &mut call.params)?;
    if era == McpEra::Handshake {
        return Err(RpcError::unknown_method(METHOD, []));
    }
    let wanted: Map<String, Value> = call.params.required("notifications")?;
    let tools = wanted.get("toolsListChanged").and_then(Value::as_bool).unwrap_or(false);
    let tasks = match wanted.get("taskIds") {
        None => None,
        Some(ids) => Some(followed_tasks(agent, session, &era, ids)?),
    };
    let subscription = Subscription {
        meta: json!({SUBSCRIPTION_ID_KEY: call.id}),
        tools: tools.then(|| agent.layer.tool_changes()),
        tasks,
    };
    Ok(MethodReply::NotifyOnly(Box::new(|notifier| Box::pin(subscription.run(notifier)))))
}

/// Notifications that a client subscribes to.
struct Subscription {
    meta: Value,
    /// Changes of the tools, if the client follows them.
    tools: Option<watch::Receiver<u64>>,
    tasks: Option<FollowedTasks>,
}

/// Tasks that a client follows.
struct FollowedTasks {
    tasks: Vec<(String, watch::Receiver<TaskState>)>,
    changes: broadcast::Receiver<Arc<str>>,
    shows_forms: bool,
}

/// Finds the tasks that a client may follow. An unknown one is missing from the acknowledgement.
fn followed_tasks(
    agent: &AgentContext,
    session: &ConnectionState,
    era: &McpEra,
    ids: &Value,
) -> Result<FollowedTasks, RpcError> {
    tasks::require_extension(era, METHOD)?;
    let wrong = || RpcError::wrong_type("taskIds", "a list of strings", ids);
    let owner = tasks::owner(session, era);
    let mut found = Vec::new();
    for id in ids.as_array().ok_or_else(wrong)?.iter().take(MAX_TASKS_PER_CALLER) {
        let id = id.as_str().ok_or_else(wrong)?;
        found.extend(agent.tasks.find(id, &owner).map(|task| (id.to_owned(), task)));
    }
    Ok(FollowedTasks { tasks: found, changes: agent.tasks.changes(), shows_forms: era.features().forms })
}

impl Subscription {
    /// Acknowledges the supported notifications, then sends them. An unsupported one is missing from the
    /// acknowledgement, so that the client can detect it.
    async fn run(mut self, notifier: Notifier) {
        let mut honoured = Map::new();
        honoured.extend(self.tools.is_some().then(|| ("toolsListChanged".to_owned(), true.into())));
        let ids = self.tasks.as_ref().map(|it| it.tasks.iter().map(|(id, _)| id).collect::<Vec<_>>());
        honoured.extend(ids.map(|ids| ("taskIds".to_owned(), json!(ids))));
        let params = json!({"notifications": honoured, "_meta": self.meta});
        notifier.notify(ACKNOWLEDGED_METHOD, &params).await;
        loop {
            tokio::select! {
                changed = next_change(&mut self.tools) => match changed {
                    true => notifier.notify(LIST_CHANGED, &json!({"_meta": self.meta})).await,
                    false => return,
                },
                tasks = next_tasks(&mut self.tasks) => for mut task in tasks {
                    task.insert("_meta".to_owned(), self.meta.clone());
                    notifier.notify(TASK_CHANGED, &task).await;
                },
            }
        }
    }
}

/// Waits for a change of the tools. Returns false once there can be none.
async fn next_change(tools: &mut Option<watch::Receiver<u64>>) -> bool {
    match tools {
        Some(tools) => tools.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}

/// Waits for changed tasks and returns them.
async fn next_tasks(followed: &mut Option<FollowedTasks>) -> Vec<Map<String, Value>> {
    let Some(FollowedTasks { tasks, changes, shows_forms }) = followed else {
        return std::future::pending().await;
    };
    loop {
        // A subscriber that falls behind misses ids, so it checks all of its tasks.
        if changes.recv().await == Err(broadcast::error::RecvError::Closed) {
            return std::future::pending().await;
        }
        let changed = tasks.iter_mut().filter(|(_, task)| task.has_changed().unwrap_or(false));
        let views =
            changed.map(|(_, task)| task_view::stateless_task(&task.borrow_and_update(), *shows_forms));
        let views: Vec<_> = views.collect();
        if !views.is_empty() {
            return views;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;
    use crate::outbox::{Outbox, OutboxHooks};

    #[tokio::test]
    async fn notifications_carry_the_subscription_id() {
        let (server, client) = tokio::io::duplex(1024);
        let (outbox, _writer) = Outbox::open(server, Duration::from_secs(60), OutboxHooks::none());
        let sender = watch::Sender::new(0_u64);
        let meta = json!({SUBSCRIPTION_ID_KEY: 7});
        let subscription = Subscription { meta: meta.clone(), tools: Some(sender.subscribe()), tasks: None };
        let notifying = tokio::spawn(subscription.run(Notifier::new(outbox)));
        let mut lines = BufReader::new(client).lines();
        for (expect, change) in [(ACKNOWLEDGED_METHOD, 1), (LIST_CHANGED, 2)] {
            let reported: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
            assert_eq!((&reported["method"], &reported["params"]["_meta"]), (&json!(expect), &meta));
            sender.send_replace(change);
        }
        drop(sender);
        notifying.await.unwrap();
    }
}
