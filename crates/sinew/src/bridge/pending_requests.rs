//! Open requests and handshake of the client, so that the bridge can report a lost daemon and repeat the
//! handshake.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::message_head::{MessageHead, cancelled_request};

/// Notification that a client sends after its handshake.
pub(super) const INITIALIZED: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
/// Id of the repeated handshake. One of the client's own ids could be in use.
const REPEATED_HANDSHAKE_ID: &str = "sinew-bridge";

/// The open requests of one client.
#[derive(Default)]
pub(super) struct PendingRequests(Mutex<PendingRequestsState>);

/// Longest request that is kept to be sent again.
const MAX_KEPT_BYTES: usize = 1024 * 1024;

#[derive(Default)]
struct PendingRequestsState {
    open: HashMap<Value, UnansweredRequest>,
    /// Handshake with its id, from the request until an error response.
    handshake: Option<(Value, Vec<u8>)>,
}

struct UnansweredRequest {
    /// Line of the request, unless it is too long to be kept.
    line: Option<Vec<u8>>,
    /// Number of times that it was taken back.
    attempt: u32,
    /// True once a connection has taken all of it.
    is_sent: bool,
}

/// Request that a stopping daemon refused and that is open again.
pub(super) struct RefusedRequest {
    pub(super) id: Value,
    pub(super) line: Vec<u8>,
    pub(super) attempt: u32,
}

impl PendingRequests {
    /// Notes a line from the client.
    pub(super) fn note_request(&self, head: &MessageHead<'_>, line: &[u8]) {
        if head.is_cancellation() {
            // The daemon sends no response to a cancelled request.
            if let Some(id) = cancelled_request(line) {
                self.lock().open.remove(&id);
            }
            return;
        }
        let Some(id) = head.request_id().cloned() else { return };
        let mut state = self.lock();
        let kept = (line.len() <= MAX_KEPT_BYTES).then(|| line.to_owned());
        state.open.insert(id.clone(), UnansweredRequest { line: kept, attempt: 0, is_sent: false });
        if head.method.as_deref() == Some("initialize") && state.handshake.is_none() {
            state.handshake = Some((id, line.to_owned()));
        }
    }

    /// Notes a response to the client.
    pub(super) fn note_response(&self, head: &MessageHead<'_>) {
        let Some(id) = head.response_id() else { return };
        let mut state = self.lock();
        state.open.remove(id);
        if head.is_error() && state.handshake.as_ref().is_some_and(|(handshake_id, _)| handshake_id == id) {
            state.handshake = None;
        }
    }

    /// Notes that a connection has taken all of a request. Returns false if the request was answered or taken back
    /// meanwhile.
    pub(super) fn mark_sent(&self, id: &Value, attempt: u32) -> bool {
        let mut state = self.lock();
        match state.open.get_mut(id) {
            Some(request) if request.attempt == attempt && !request.is_sent => {
                request.is_sent = true;
                true
            }
            _ => false,
        }
    }

    /// Takes back a request that did not run, to be sent again. Returns `None` if its line was not kept.
    pub(super) fn take_back(&self, id: &Value) -> Option<RefusedRequest> {
        let mut state = self.lock();
        let request = state.open.get_mut(id)?;
        let line = request.line.clone()?;
        request.attempt += 1;
        request.is_sent = false;
        Some(RefusedRequest { id: id.clone(), line, attempt: request.attempt })
    }

    /// Removes all requests that were sent and returns an error response for each. Only the ledger shows whether a
    /// call that had started has completed.
    pub(super) fn fail_all(&self) -> Vec<Vec<u8>> {
        let mut state = self.lock();
        let sent = state.open.extract_if(|_, request| request.is_sent);
        let failed: Vec<Value> = sent.map(|(id, _)| id).collect();
        if state.handshake.as_ref().is_some_and(|(id, _)| failed.contains(id)) {
            state.handshake = None;
        }
        failed.iter().map(daemon_gone_error).collect()
    }

    /// Removes one open request and returns its error response, unless it was already removed.
    pub(super) fn fail_one(&self, id: &Value) -> Option<Vec<u8>> {
        let mut state = self.lock();
        if state.handshake.as_ref().is_some_and(|(handshake_id, _)| handshake_id == id) {
            state.handshake = None;
        }
        state.open.remove(id).map(|_| daemon_gone_error(id))
    }

    /// Returns the client's handshake with a new id, if the daemon has answered it.
    pub(super) fn handshake(&self) -> Option<Vec<u8>> {
        let state = self.lock();
        // An open handshake is still to be sent, or its response is still to be read.
        let (_, line) = state.handshake.as_ref().filter(|(id, _)| !state.open.contains_key(id))?;
        let mut message: Value = serde_json::from_slice(line).ok()?;
        *message.get_mut("id")? = json!(REPEATED_HANDSHAKE_ID);
        Some(format!("{message}\n").into_bytes())
    }

    fn lock(&self) -> MutexGuard<'_, PendingRequestsState> {
        // The state is consistent after every statement, so a poisoned lock is safe to use.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn daemon_gone_error(id: &Value) -> Vec<u8> {
    let message = "the daemon stopped before it answered; the ledger shows whether and how the call ended";
    let error = json!({"code": -32000, "message": message, "data": {"code": "daemon_gone"}});
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "error": error})).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(calls: &PendingRequests, line: &str) {
        let head = MessageHead::parse(line.as_bytes());
        calls.note_request(&head, line.as_bytes());
        head.request_id().iter().for_each(|id| assert!(calls.mark_sent(id, 0)));
    }

    fn failed_requests(calls: &PendingRequests) -> Vec<String> {
        let mut reported: Vec<String> =
            calls.fail_all().into_iter().map(|line| String::from_utf8(line).unwrap()).collect();
        reported.sort();
        reported
    }

    #[test]
    fn each_open_request_gets_one_error() {
        let calls = PendingRequests::default();
        note(&calls, r#"{"id":1,"method":"tools/call"}"#);
        note(&calls, r#"{"id":"b","method":"tools/call"}"#);
        note(&calls, r#"{"method":"notifications/cancelled"}"#);
        calls.note_response(&MessageHead::parse(br#"{"id":1,"result":{}}"#));
        let reported_first = failed_requests(&calls);
        assert_eq!(reported_first.len(), 1);
        assert!(
            reported_first[0].contains(r#""id":"b""#) && reported_first[0].contains("daemon_gone"),
            "{reported_first:?}"
        );
        assert!(failed_requests(&calls).is_empty());
        // Different spellings of an id are equal.
        note(&calls, r#"{"id":"\u0041","method":"tools/call"}"#);
        calls.note_response(&MessageHead::parse(br#"{"id":"A","result":{}}"#));
        assert!(failed_requests(&calls).is_empty());
        note(&calls, r#"{"id":2,"method":"tools/call"}"#);
        assert!(calls.fail_one(&2.into()).is_some() && calls.fail_one(&2.into()).is_none());
    }

    #[test]
    fn cancelled_request_gets_no_error() {
        let calls = PendingRequests::default();
        note(&calls, r#"{"id":1,"method":"tools/call"}"#);
        note(&calls, r#"{"id":2,"method":"tools/call"}"#);
        note(&calls, r#"{"method":"notifications/cancelled","params":{"requestId":1}}"#);
        let failed = failed_requests(&calls);
        assert!(failed.len() == 1 && failed[0].contains(r#""id":2"#), "{failed:?}");
    }

    #[test]
    fn only_a_completed_handshake_is_repeated() {
        let calls = PendingRequests::default();
        assert!(calls.handshake().is_none());
        let hello = r#"{"id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
        let head = MessageHead::parse(hello.as_bytes());
        calls.note_request(&head, hello.as_bytes());
        assert!(calls.handshake().is_none(), "it waits for a connection, on which it is sent");
        assert!(calls.mark_sent(&0.into(), 0));
        assert!(calls.handshake().is_none(), "it was not answered");
        failed_requests(&calls);
        assert!(calls.handshake().is_none(), "it was answered with an error");
        note(&calls, hello);
        calls.note_response(&MessageHead::parse(br#"{"id":0,"error":{"code":1,"message":"no"}}"#));
        assert!(calls.handshake().is_none(), "it was refused");
        note(&calls, hello);
        calls.note_response(&MessageHead::parse(br#"{"id":0,"result":{}}"#));
        let again: Value = serde_json::from_slice(&calls.handshake().unwrap()).unwrap();
        assert_eq!(
            (&again["id"], &again["params"]["protocolVersion"]),
            (&json!(REPEATED_HANDSHAKE_ID), &json!("2025-11-25"))
        );
    }

    #[test]
    fn request_that_did_not_run_is_not_failed() {
        let calls = PendingRequests::default();
        let line = r#"{"id":1,"method":"tools/call"}"#;
        note(&calls, line);
        let taken = calls.take_back(&1.into()).unwrap();
        assert_eq!((&taken.id, &taken.line[..]), (&json!(1), line.as_bytes()));
        assert!(failed_requests(&calls).is_empty(), "it is open and not yet sent");
        assert!(!calls.mark_sent(&1.into(), 0), "the thread that sent it first does not own it any more");
        assert!(calls.mark_sent(&1.into(), taken.attempt) && !calls.mark_sent(&1.into(), taken.attempt));
        assert_eq!(failed_requests(&calls).len(), 1);
        let long = format!(r#"{{"id":2,"method":"tools/call","params":"{}"}}"#, "x".repeat(MAX_KEPT_BYTES));
        note(&calls, &long);
        assert!(calls.take_back(&2.into()).is_none(), "a long line is not kept");
    }
}
