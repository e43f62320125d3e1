//! `sinew/session.open`: opens a worker session and its socket, the only endpoint of that session. For the
//! orchestrator.

use execution::{SessionError, SessionTerms};
use serde_json::{Map, Value, json};

use crate::agent::{Agent, rate_limited};
use crate::rpc::{self, Params, RpcError};
use crate::service::{Answer, Call, Method};
use crate::session::Session;
use crate::worker::{NoDoor, WorkerDoor};

pub(crate) const METHOD: Method<Agent> = Method { name: "sinew/session.open", run };

const LONGEST_NAME: usize = 64;

fn run(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    let mut params = call.params;
    let terms = terms(&mut params)?;
    params.finish()?;
    let workers = agent.workers()?;
    let name = terms.name.clone();
    // The lock is held until the session is inserted, so that a name is given once.
    let mut named = workers.named();
    if let Some(door) = name.as_ref().and_then(|name| named.get(name)) {
        let error = RpcError::server("conflict", "a session with this name is already open");
        // The opener may continue with the session; other callers do not learn its id.
        return Err(if door.is_of(session) {
            error.with("session_id", &door.opened.session_id)
        } else {
            error
        });
    }
    let door = workers.open(terms, session).map_err(told)?;
    let reply = shown(&door);
    match name {
        Some(name) => drop(named.insert(name, door)),
        None => session.workers.push(door),
    }
    Ok(Answer::Now(rpc::answer(&reply)))
}

fn terms(params: &mut Params) -> Result<SessionTerms, RpcError> {
    let name: Option<String> = params.want("name")?;
    if name.as_ref().is_some_and(|name| {
        name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(|c| c.is_ascii_graphic())
    }) {
        let message = format!("`name` must have 1 to {LONGEST_NAME} visible ASCII characters");
        return Err(RpcError::invalid_params("name", &message));
    }
    let mut terms = SessionTerms {
        name,
        allowlist: params.need("allowlist")?,
        hop_budget: params.want("hop_budget")?,
        ..SessionTerms::default()
    };
    if let Some(cap) = params.want::<Map<String, Value>>("cost_cap")? {
        let mut cap = Params::read(Some(Value::Object(cap)))?;
        (terms.cost_mode, terms.cost_amount) = (cap.want("mode")?, cap.want("amount")?);
        cap.finish()?;
    }
    Ok(terms)
}

/// Builds the reply. It contains the effective terms, which may differ from the requested ones.
fn shown(door: &WorkerDoor) -> Value {
    let mut reply = door.opened.terms.clone();
    if let Some(fields) = reply.as_object_mut() {
        fields.insert("session_id".to_owned(), json!(door.opened.session_id));
        fields.insert("socket".to_owned(), json!(door.socket));
    }
    reply
}

fn told(refused: NoDoor) -> RpcError {
    match refused {
        NoDoor::Impossible(error) => error,
        NoDoor::Session(error) => self::error(&error),
    }
}

/// Converts a session error to a JSON-RPC error.
pub(super) fn error(error: &SessionError) -> RpcError {
    let word = match error {
        SessionError::Terms(_) => return RpcError::invalid_params("session", &error.to_string()),
        SessionError::TooManyOfUser | SessionError::TooManyNamed => "busy",
        SessionError::NotFound => "not_found",
        SessionError::RateLimited(throttled) => return rate_limited(error.to_string(), *throttled),
        SessionError::NotRecorded(_) => "ledger_unavailable",
    };
    RpcError::server(word, error.to_string())
}

/// Reads the session id of a message. A session that this connection may not access is reported as not found.
pub(super) fn session_of(agent: &Agent, session: &Session, params: &mut Params) -> Result<String, RpcError> {
    let id: String = params.need("session_id")?;
    if agent.workers()?.knows(session, &id) { Ok(id) } else { Err(error(&SessionError::NotFound)) }
}
