//! What the client waits for, and how it began: enough to tell it the truth when a daemon goes away.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::line::Head;

/// What a client says after its handshake.
pub(super) const INITIALIZED: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
/// The id of a handshake that is said again. The client is not asked for one of its own: it may be in use.
const AGAIN: &str = "sinew-bridge";

/// The open requests of one client.
#[derive(Default)]
pub(super) struct OpenCalls(Mutex<State>);

#[derive(Default)]
struct State {
    open: HashSet<Value>,
    /// The handshake and its id, once it was answered or while it may still be.
    greeting: Option<(Value, Vec<u8>)>,
}

impl OpenCalls {
    /// Takes note of what the client says.
    pub(super) fn note(&self, head: &Head<'_>, line: &[u8]) {
        let Some(id) = head.asks().map(read) else { return };
        let mut state = self.lock();
        state.open.insert(id.clone());
        if head.method.as_deref() == Some("initialize") && state.greeting.is_none() {
            state.greeting = Some((id, line.to_owned()));
        }
    }

    /// Takes note of what the client is told.
    pub(super) fn answered(&self, head: &Head<'_>) {
        let Some(id) = head.answers().map(read) else { return };
        let mut state = self.lock();
        state.open.remove(&id);
        if head.is_error() && state.greeting.as_ref().is_some_and(|(greeting, _)| *greeting == id) {
            state.greeting = None;
        }
    }

    /// The answers of a daemon that has gone: how a call ended that it had begun, only its record says.
    pub(super) fn give_up(&self) -> Vec<Vec<u8>> {
        let mut state = self.lock();
        let open = std::mem::take(&mut state.open);
        if state.greeting.as_ref().is_some_and(|(id, _)| open.contains(id)) {
            state.greeting = None;
        }
        open.iter().map(gone).collect()
    }

    /// The same for one request, unless it was told already.
    pub(super) fn give_up_one(&self, id: &str) -> Option<Vec<u8>> {
        let id = read(id);
        let mut state = self.lock();
        if state.greeting.as_ref().is_some_and(|(greeting, _)| *greeting == id) {
            state.greeting = None;
        }
        state.open.remove(&id).then(|| gone(&id))
    }

    /// The client's handshake, to be said once more, if it has had one.
    pub(super) fn handshake(&self) -> Option<Vec<u8>> {
        let state = self.lock();
        let (_, line) = state.greeting.as_ref()?;
        let mut message: Value = serde_json::from_slice(line).ok()?;
        *message.get_mut("id")? = json!(AGAIN);
        Some(format!("{message}\n").into_bytes())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whole after every statement, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An id as what it means: the daemon answers `"\u0041"` as `"A"`.
fn read(id: &str) -> Value {
    serde_json::from_str(id).unwrap_or_default()
}

fn gone(id: &Value) -> Vec<u8> {
    let message =
        "the daemon stopped before it had answered: whether and how the call ended is in the ledger";
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
    fn whoever_waits_is_told_once() {
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
        // However an id is written, it is the same one.
        note(&calls, r#"{"id":"\u0041","method":"tools/call"}"#);
        calls.answered(&Head::of(br#"{"id":"A","result":{}}"#));
        assert!(told(&calls).is_empty());
        note(&calls, r#"{"id":2,"method":"tools/call"}"#);
        assert!(calls.give_up_one("2").is_some() && calls.give_up_one("2").is_none());
    }

    #[test]
    fn a_handshake_is_said_again_only_if_the_client_has_had_it() {
        let calls = OpenCalls::default();
        assert!(calls.handshake().is_none());
        let hello = r#"{"id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
        note(&calls, hello);
        told(&calls);
        assert!(calls.handshake().is_none(), "it was told that there will be no answer");
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
