//! `sinew/session.open`: a session for a worker, and the socket that is its only door. For the orchestrator.

use execution::{SessionError, SessionTerms};
use serde_json::{Map, Value, json};

use crate::agent::Agent;
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
    // One at a time, so that a name is given once.
    let mut named = workers.named();
    if let Some(door) = name.as_ref().and_then(|name| named.get(name)) {
        let error = RpcError::server("conflict", "a session of this name is open");
        // Whose it is may go on with it; to others its id is as good as a hold on it.
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
        let message = format!("`name` must have 1 to {LONGEST_NAME} letters, digits or signs");
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

/// The terms are part of the reply: what was asked for is not always what holds.
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

/// Why a session is not as it was asked for.
pub(super) fn error(error: &SessionError) -> RpcError {
    let word = match error {
        SessionError::Terms(_) => return RpcError::invalid_params("session", &error.to_string()),
        SessionError::TooManyOfUser | SessionError::TooManyNamed => "busy",
        SessionError::NotFound => "not_found",
        SessionError::NotRecorded(_) => "ledger_unavailable",
    };
    RpcError::server(word, error.to_string())
}

/// The session that a message is about, if this connection may speak of it: any other is as good as none.
pub(super) fn session_of(agent: &Agent, session: &Session, params: &mut Params) -> Result<String, RpcError> {
    let id: String = params.need("session_id")?;
    if agent.workers()?.knows(session, &id) { Ok(id) } else { Err(error(&SessionError::NotFound)) }
}
