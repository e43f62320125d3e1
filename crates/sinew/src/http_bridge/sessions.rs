//! Sessions of the bridge by id. An idle session ends after `idle_timeout`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::session::Session;

/// Maximum number of sessions. Each has a process of its own.
pub(super) const MAX_SESSIONS: usize = 64;
/// Maximum interval between two scans for idle sessions.
const MAX_EXPIRY_INTERVAL: Duration = Duration::from_secs(60);
const MIN_EXPIRY_INTERVAL: Duration = Duration::from_millis(250);

/// All sessions.
pub(super) struct HttpSessions {
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// One permit for each further session.
    places: Arc<Semaphore>,
    /// Time after which an idle session ends.
    idle_timeout: Duration,
}

impl HttpSessions {
    pub(super) fn new(idle_timeout: Duration) -> Self {
        let places = Arc::new(Semaphore::new(MAX_SESSIONS));
        HttpSessions { sessions: Mutex::default(), places, idle_timeout }
    }

    /// Ends idle sessions, and reserves the slot of a new one, which holds it until its process has ended.
    /// Returns `None` if the maximum number of sessions is open.
    pub(super) fn reserve(&self) -> Option<OwnedSemaphorePermit> {
        self.end_idle(Instant::now());
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    pub(super) fn insert(&self, id: String, session: Arc<Session>) {
        self.lock().insert(id, session);
    }

    /// Returns a session that has not ended.
    pub(super) fn get(&self, id: &str) -> Option<Arc<Session>> {
        self.lock().get(id).filter(|session| session.is_open()).cloned()
    }

    pub(super) fn remove(&self, id: &str) {
        // Dropped outside of the lock: dropping a session kills its process and waits for it.
        let removed = self.lock().remove(id);
        drop(removed);
    }

    /// Ends idle sessions periodically. Never returns.
    pub(super) async fn end_idle_sessions(&self) -> ! {
        let interval = (self.idle_timeout / 4).clamp(MIN_EXPIRY_INTERVAL, MAX_EXPIRY_INTERVAL);
        loop {
            tokio::time::sleep(interval).await;
            self.end_idle(Instant::now());
        }
    }

    fn end_idle(&self, now: Instant) {
        let mut sessions = self.lock();
        let ended: Vec<Arc<Session>> = sessions
            .extract_if(|_, session| session.is_idle(self.idle_timeout, now))
            .map(|(_, it)| it)
            .collect();
        drop(sessions);
        drop(ended);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        // The map is consistent after every statement, so a poisoned lock is safe to use.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::net::UnixStream;

    use super::*;
    use crate::http_bridge::daemon_connection::DaemonConnection;
    use crate::http_bridge::event_log::EventId;
    use crate::http_bridge::message::ClientMessage;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn insert(table: &HttpSessions, id: &str) -> (Arc<Session>, UnixStream) {
        let (ours, daemon) = UnixStream::pair().unwrap();
        let session = Arc::new(Session::new(DaemonConnection::from_stream(ours), table.reserve().unwrap()));
        table.insert(id.to_owned(), Arc::clone(&session));
        (session, daemon)
    }

    #[tokio::test]
    async fn unused_session_ends_and_a_used_one_stays() {
        let table = HttpSessions::new(TIMEOUT);
        let (_unused, (calling, _daemon), (followed, _other)) =
            (insert(&table, "unused"), insert(&table, "calling"), insert(&table, "followed"));
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}).to_string();
        calling.send(&ClientMessage::parse(call.as_bytes()).ok().unwrap()).await.unwrap();
        let stream = followed.follow(EventId { stream: 0, number: 0 }).unwrap();
        table.end_idle(Instant::now());
        assert!(table.get("unused").is_some(), "it is new");
        table.end_idle(Instant::now() + TIMEOUT + Duration::from_secs(1));
        assert!(table.get("unused").is_none());
        assert!(table.get("calling").is_some(), "a request is open");
        assert!(table.get("followed").is_some(), "its client listens");
        drop(stream);
        // The follower notices the end of its client.
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        table.end_idle(Instant::now() + TIMEOUT + Duration::from_secs(1));
        assert!(table.get("followed").is_none(), "its client is gone");
    }

    #[tokio::test]
    async fn place_is_free_again_once_its_session_has_ended() {
        let table = HttpSessions::new(TIMEOUT);
        let (session, _daemon) = insert(&table, "first");
        let mut reserved: Vec<_> = (1..MAX_SESSIONS).map(|_| table.reserve().unwrap()).collect();
        assert!(table.reserve().is_none(), "reserved places count before their sessions exist");
        reserved.pop();
        assert!(table.reserve().is_some(), "a session that could not be started has no place");
        reserved.push(table.reserve().unwrap());
        table.remove("first");
        assert!(table.reserve().is_none(), "a request still uses the session");
        drop(session);
        assert!(table.reserve().is_some());
    }
}
