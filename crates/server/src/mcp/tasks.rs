//! `tasks/…`: state, result, list, cancellation of tasks. Revision 2025-11-25 has these methods in its core; in the
//! stateless revision they are an extension that each request must declare.

use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::era::{McpEra, TASKS_EXTENSION};
use super::task_table::{TaskOwner, TaskState};
use super::{TASKS_REVISION, task_view};
use crate::agent::AgentContext;
use crate::connection_state::ConnectionState;
use crate::rpc::{Params, RpcError};
use crate::service::{MethodCall, MethodReply, MethodResult};

/// Returns the state of a task; in the stateless revision with its result.
pub(crate) fn get(agent: &AgentContext, session: &mut ConnectionState, mut call: MethodCall) -> MethodResult {
    let era = task_era(session, &mut call.params, "tasks/get")?;
    let task = find(agent, session, &era, &mut call.params)?.borrow().clone();
    Ok(MethodReply::now(&match &era {
        McpEra::Handshake => task_view::handshake_task(&task),
        McpEra::Stateless { .. } => complete(task_view::stateless_task(&task, era.features().forms)),
    }))
}

/// Waits for the end of a task and returns the result of its call.
pub(crate) fn result(
    agent: &AgentContext,
    session: &mut ConnectionState,
    mut call: MethodCall,
) -> MethodResult {
    let era = handshake_era(session, &mut call.params, "tasks/result")?;
    let mut task = find(agent, session, &era, &mut call.params)?;
    Ok(MethodReply::deferred(async move {
        let ended = task.wait_for(|state| state.outcome.is_some()).await;
        let outcome = ended.map_err(|_| expired()).map(|state| state.outcome.clone())?;
        outcome.ok_or_else(RpcError::internal)?.reply.clone()
    }))
}

/// Lists the tasks of the connection. They always fit on one page, so there is no cursor.
pub(crate) fn list(
    agent: &AgentContext,
    session: &mut ConnectionState,
    mut call: MethodCall,
) -> MethodResult {
    let era = handshake_era(session, &mut call.params, "tasks/list")?;
    if call.params.optional::<String>("cursor")?.is_some() {
        return Err(RpcError::invalid_params("cursor", "`cursor` is unknown: the list has one page"));
    }
    let tasks = agent.tasks.list(&owner(session, &era));
    let tasks: Vec<Value> = tasks.iter().map(task_view::handshake_task).collect();
    Ok(MethodReply::now(&json!({"tasks": tasks})))
}

/// Cancels the call of a task.
pub(crate) fn cancel(
    agent: &AgentContext,
    session: &mut ConnectionState,
    mut call: MethodCall,
) -> MethodResult {
    let era = task_era(session, &mut call.params, "tasks/cancel")?;
    let id: String = call.params.required("taskId")?;
    let (before, after) = agent.tasks.cancel(&id, &owner(session, &era)).ok_or_else(unknown_task)?;
    match era {
        McpEra::Handshake if before.is_terminal() => {
            Err(RpcError::invalid_params("taskId", "the task has ended, so it cannot be cancelled"))
        }
        McpEra::Handshake => Ok(MethodReply::now(&task_view::handshake_task(&after))),
        // An acknowledgement; the task may have ended before.
        McpEra::Stateless { .. } => Ok(MethodReply::now(&complete(Map::new()))),
    }
}

/// Takes the answers of a client to forms. They only end the display of a form.
pub(crate) fn update(
    agent: &AgentContext,
    session: &mut ConnectionState,
    mut call: MethodCall,
) -> MethodResult {
    let era = task_era(session, &mut call.params, "tasks/update")?;
    if era == McpEra::Handshake {
        return Err(RpcError::unknown_method("tasks/update", []));
    }
    let id: String = call.params.required("taskId")?;
    let responses: Map<String, Value> = call.params.required("inputResponses")?;
    let is_answered = |approval: &str| task_view::form_answers(&responses).any(|(id, _)| id == approval);
    if !agent.tasks.acknowledge(&id, &owner(session, &era), is_answered) {
        return Err(unknown_task());
    }
    Ok(MethodReply::now(&complete(Map::new())))
}

/// Returns the party that the tasks of a request belong to.
pub(super) fn owner(session: &ConnectionState, era: &McpEra) -> TaskOwner {
    match era {
        McpEra::Handshake => TaskOwner::Connection(session.connection),
        McpEra::Stateless { .. } => TaskOwner::Party(era.caller(session)),
    }
}

/// Returns true if the handshake of the connection has negotiated a revision with tasks.
pub(super) fn handshake_has_tasks(session: &ConnectionState) -> bool {
    session.handshake.as_ref().is_some_and(|handshake| handshake.revision == TASKS_REVISION)
}

/// Refuses a request of the stateless revision that does not declare the extension.
pub(super) fn require_extension(era: &McpEra, method: &str) -> Result<(), RpcError> {
    if era.features().tasks {
        return Ok(());
    }
    let required = json!({"extensions": {TASKS_EXTENSION: {}}});
    Err(RpcError::missing_capability(method, &required))
}

/// Returns the era of a request for a method that both revisions with tasks have.
fn task_era(session: &mut ConnectionState, params: &mut Params, method: &str) -> Result<McpEra, RpcError> {
    let (era, _) = McpEra::from_request(session, params)?;
    match era {
        McpEra::Handshake if !handshake_has_tasks(session) => Err(RpcError::unknown_method(method, [])),
        McpEra::Handshake => Ok(era),
        McpEra::Stateless { .. } => require_extension(&era, method).map(|()| era),
    }
}

/// Returns the era of a request for a method that only the revision with a handshake has.
fn handshake_era(
    session: &mut ConnectionState,
    params: &mut Params,
    method: &str,
) -> Result<McpEra, RpcError> {
    match McpEra::from_request(session, params)?.0 {
        McpEra::Handshake if handshake_has_tasks(session) => Ok(McpEra::Handshake),
        McpEra::Handshake | McpEra::Stateless { .. } => Err(RpcError::unknown_method(method, [])),
    }
}

fn find(
    agent: &AgentContext,
    session: &ConnectionState,
    era: &McpEra,
    params: &mut Params,
) -> Result<watch::Receiver<TaskState>, RpcError> {
    let id: String = params.required("taskId")?;
    agent.tasks.find(&id, &owner(session, era)).ok_or_else(unknown_task)
}

fn unknown_task() -> RpcError {
    RpcError::invalid_params("taskId", "no task of this client has this id: it is unknown or has expired")
}

fn expired() -> RpcError {
    RpcError::invalid_params("taskId", "the task has expired before its call ended")
}

fn complete(mut result: Map<String, Value>) -> Value {
    result.insert("resultType".to_owned(), "complete".into());
    Value::Object(result)
}
