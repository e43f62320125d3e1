//! Open requests and handshake of the client, so that the bridge can report a lost daemon and repeat the
//! handshake.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::line::Head;

/// Notification that a client sends after its handshake.
pub(super) const INITIALIZED: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
/// Id of the repeated handshake. One of the client's own ids could be in use.
const AGAIN: &str = "sinew-bridge";

/// The open requests of one client.
#[derive(Default)]
pub(super) struct OpenCalls(Mutex<State>);

#[derive(Default)]
struct State {
    open: HashSet<Value>,
    /// Handshake with its id, from the request until an error response.
    greeting: Option<(Value, Vec<u8>)>,
}

impl OpenCalls {
    /// Notes a line from the client.
    pub(super) fn note(&self, head: &Head<'_>, line: &[u8]) {
        let Some(id) = head.asks().cloned() else { return };
        let mut state = self.lock();
        state.open.insert(id.clone());
        if head.method.as_deref() == Some("initialize") && state.greeting.is_none() {
            state.greeting = Some((id, line.to_owned()));
        }
    }

    /// Notes a response to the client.
    pub(super) fn answered(&self, head: &Head<'_>) {
        let Some(id) = head.answers() else { return };
        let mut state = self.lock();
        state.open.remove(id);
        if head.is_error() && state.greeting.as_ref().is_some_and(|(greeting, _)| greeting == id) {
            state.greeting = None;
        }
    }

    /// Removes all open requests and returns an error response for each. Only the ledger shows whether a call
    /// that had started has completed.
    pub(super) fn give_up(&self) -> Vec<Vec<u8>> {
        let mut state = self.lock();
        let open = std::mem::take(&mut state.open);
        if state.greeting.as_ref().is_some_and(|(id, _)| open.contains(id)) {
            state.greeting = None;
        }
        open.iter().map(gone).collect()
    }

    /// Removes one open request and returns its error response, unless it was already removed.
    pub(super) fn give_up_one(&self, id: &Value) -> Option<Vec<u8>> {
        let mut state = self.lock();
        if state.greeting.as_ref().is_some_and(|(greeting, _)| greeting == id) {
            state.greeting = None;
        }
        state.open.remove(id).then(|| gone(id))
    }

    /// Returns the client's handshake with a new id, if it has had one.
    pub(super) fn handshake(&self) -> Option<Vec<u8>> {
        let state = self.lock();
        let (_, line) = state.greeting.as_ref()?;
        let mut message: Value = serde_json::from_slice(line).ok()?;
        *message.get_mut("id")? = json!(AGAIN);
        Some(format!("{message}\n").into_bytes())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every statement, so a poisoned lock is safe to use.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn gone(id: &Value) -> Vec<u8> {
    let message = "the daemon stopped before it answered; the ledger shows whether and how the call ended";
    let error = json!({"code": -32000, "message": message, "data": {"code": "daemon_gone"}});
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "error": error})).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(calls: &OpenCalls, line: &str) {
        calls.note(&Head::of(line.as_bytes()), line.as_bytes());
    }

    fn told(calls: &OpenCalls) -> Vec<String> {
        let mut told: Vec<String> =
            calls.give_up().into_iter().map(|line| String::from_utf8(line).unwrap()).collect();
        told.sort();
        told
    }

    #[test]
    fn each_open_request_gets_one_error() {
        let calls = OpenCalls::default();
        note(&calls, r#"{"id":1,"method":"tools/call"}"#);
        note(&calls, r#"{"id":"b","method":"tools/call"}"#);
        note(&calls, r#"{"method":"notifications/cancelled"}"#);
        calls.answered(&Head::of(br#"{"id":1,"result":{}}"#));
        let told_first = told(&calls);
        assert_eq!(told_first.len(), 1);
        assert!(
            told_first[0].contains(r#""id":"b""#) && told_first[0].contains("daemon_gone"),
            "{told_first:?}"
        );
        assert!(told(&calls).is_empty());
        // Different spellings of an id are equal.
        note(&calls, r#"{"id":"\u0041","method":"tools/call"}"#);
        calls.answered(&Head::of(br#"{"id":"A","result":{}}"#));
        assert!(told(&calls).is_empty());
        note(&calls, r#"{"id":2,"method":"tools/call"}"#);
        assert!(calls.give_up_one(&2.into()).is_some() && calls.give_up_one(&2.into()).is_none());
    }

    #[test]
    fn only_a_completed_handshake_is_repeated() {
        let calls = OpenCalls::default();
        assert!(calls.handshake().is_none());
        let hello = r#"{"id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
        note(&calls, hello);
        told(&calls);
        assert!(calls.handshake().is_none(), "it was answered with an error");
        note(&calls, hello);
        calls.answered(&Head::of(br#"{"id":0,"error":{"code":1,"message":"no"}}"#));
        assert!(calls.handshake().is_none(), "it was refused");
        note(&calls, hello);
        calls.answered(&Head::of(br#"{"id":0,"result":{}}"#));
        let again: Value = serde_json::from_slice(&calls.handshake().unwrap()).unwrap();
        assert_eq!(
            (&again["id"], &again["params"]["protocolVersion"]),
            (&json!(AGAIN), &json!("2025-11-25"))
        );
    }
}
