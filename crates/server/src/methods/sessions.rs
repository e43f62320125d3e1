//! `sinew/session.…`: worker sessions of an orchestrator.

use approvals::sessions::{SessionError, SessionTerms};
use execution::Throttled;
use serde_json::{Map, Value, json};

use crate::agent::{AgentContext, rate_limited};
use crate::connection_state::ConnectionState;
use crate::rpc::{Params, RpcError};
use crate::service::{MethodCall, MethodReply, MethodResult};
use crate::worker_sockets::{WorkerSocket, WorkerSocketError};

const MAX_NAME_BYTES: usize = 64;
/// Largest cost per request: far above real costs, and small enough that sums stay finite.
const MAX_COST: f64 = 1e12;

/// Opens a worker session and its socket, the only endpoint of that session.
pub(crate) fn open(agent: &AgentContext, session: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let mut params = call.params;
    let terms = parse_terms(&mut params)?;
    params.finish()?;
    let workers = agent.worker_sockets()?;
    let name = terms.name.clone();
    // The lock is held until the session is inserted, so that a name is given once.
    let mut named = workers.lock_named();
    if let Some(socket_name) = name.as_ref().and_then(|name| named.get(name)) {
        let error = RpcError::server("conflict", "a session with this name is already open");
        // The opener may continue with the session; other callers do not learn its id.
        return Err(if socket_name.is_opened_by(session) {
            error.with_data("session_id", &socket_name.opened.session_id)
        } else {
            error
        });
    }
    let socket_name = workers.open(terms, session).map_err(open_error)?;
    let reply = open_reply(&socket_name);
    match name {
        Some(name) => drop(named.insert(name, socket_name)),
        None => session.worker_sockets.push(socket_name),
    }
    Ok(MethodReply::now(&reply))
}

/// Starts the next turn of a worker session and resets its budgets.
pub(crate) fn turn(agent: &AgentContext, session: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let mut params = call.params;
    let id = accessible_session_id(agent, session, &mut params)?;
    params.finish()?;
    let reply = agent.layer.next_turn(&id).map_err(|refused| session_error(&refused))?;
    Ok(MethodReply::now(&reply))
}

/// Adds external cost of the worker's turn, such as model usage.
pub(crate) fn spend(agent: &AgentContext, session: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let mut params = call.params;
    let id = accessible_session_id(agent, session, &mut params)?;
    let cost: f64 = params.required("cost")?;
    params.finish()?;
    if !(0.0..=MAX_COST).contains(&cost) {
        let message =
            format!("`cost` must be between 0 and {MAX_COST}: costs can be added, but never taken back");
        return Err(RpcError::invalid_params("cost", &message));
    }
    let reply = agent.layer.spend_in_session(&id, cost).map_err(|refused| session_error(&refused))?;
    Ok(MethodReply::now(&reply))
}

/// Closes a worker session, with its socket and its running calls.
pub(crate) fn close(agent: &AgentContext, session: &mut ConnectionState, call: MethodCall) -> MethodResult {
    let mut params = call.params;
    let id = accessible_session_id(agent, session, &mut params)?;
    params.finish()?;
    agent.worker_sockets()?.close(session, &id);
    Ok(MethodReply::now(&json!({"session_id": id, "closed": true})))
}

fn parse_terms(params: &mut Params) -> Result<SessionTerms, RpcError> {
    let name: Option<String> = params.optional("name")?;
    if name.as_ref().is_some_and(|name| {
        name.is_empty() || name.len() > MAX_NAME_BYTES || !name.chars().all(|c| c.is_ascii_graphic())
    }) {
        let message = format!("`name` must have 1 to {MAX_NAME_BYTES} visible ASCII characters");
        return Err(RpcError::invalid_params("name", &message));
    }
    let mut terms = SessionTerms {
        name,
        allowlist: params.required("allowlist")?,
        hop_budget: params.optional("hop_budget")?,
        ..SessionTerms::default()
    };
    if let Some(cap) = params.optional::<Map<String, Value>>("cost_cap")? {
        let mut cap = Params::read(Some(Value::Object(cap)))?;
        (terms.cost_mode, terms.cost_amount) = (cap.optional("mode")?, cap.optional("amount")?);
        cap.finish()?;
    }
    Ok(terms)
}

/// Builds the reply. It contains the effective terms, which may differ from the requested ones.
fn open_reply(endpoint: &WorkerSocket) -> Value {
    let mut reply = endpoint.opened.terms.clone();
    if let Some(fields) = reply.as_object_mut() {
        fields.insert("session_id".to_owned(), json!(endpoint.opened.session_id));
        fields.insert("socket".to_owned(), json!(endpoint.path));
    }
    reply
}

fn open_error(refused: WorkerSocketError) -> RpcError {
    match refused {
        WorkerSocketError::Unavailable(error) => error,
        WorkerSocketError::Session(error) => self::session_error(&error),
    }
}

/// Converts a session error to a JSON-RPC error.
fn session_error(error: &SessionError) -> RpcError {
    let word = match error {
        SessionError::Terms(_) => return RpcError::invalid_params("session", &error.to_string()),
        SessionError::TooMany(_) | SessionError::TooManyNamed(_) | SessionError::TooManyOfUser(_) => "busy",
        SessionError::NotFound => "not_found",
        SessionError::RateLimited { retry_after_ms } => {
            return rate_limited(error.to_string(), Throttled { retry_after_ms: *retry_after_ms });
        }
        SessionError::NotRecorded(_) => "ledger_unavailable",
    };
    RpcError::server(word, error.to_string())
}

/// Reads the session id of a message. A session that this connection may not access is reported as not found.
fn accessible_session_id(
    agent: &AgentContext,
    session: &ConnectionState,
    params: &mut Params,
) -> Result<String, RpcError> {
    let id: String = params.required("session_id")?;
    if agent.worker_sockets()?.may_access(session, &id) {
        Ok(id)
    } else {
        Err(session_error(&SessionError::NotFound))
    }
}
