//! Session of a client that uses an MCP revision with a handshake: its `sinew mcp` process, and the event streams
//! that carry its messages.
//!
//! A stream outlives its HTTP request. A client that loses the connection resumes the stream; a call ends when
//! it is cancelled or when the session ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use serde_json::Value;
use tokio::io::{BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::AbortHandle;

use super::daemon_connection::{DaemonConnection, SessionProcess, send_line};
use super::event_log::{EventId, EventLog};
use super::message::{ClientMessage, error_object};

/// Stream of the messages that belong to no request.
const COMMON_STREAM: u64 = 0;
/// Maximum number of finished streams that are retained for clients that resume.
const MAX_FINISHED_STREAMS: usize = 64;
/// Interval of comments on an idle stream, which reveal a client that has disconnected.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Capacity of the event queue of one client.
const QUEUED_EVENTS: usize = 16;

/// Session of a client.
pub(super) struct Session {
    write: tokio::sync::Mutex<OwnedWriteHalf>,
    state: Arc<Mutex<SessionState>>,
    /// Task that reads the daemon's messages.
    reader: AbortHandle,
    /// Process that identifies the session to the daemon. It is killed when the session ends.
    process: Option<SessionProcess>,
    /// Slot of the session, released after the process has ended.
    _place: OwnedSemaphorePermit,
}

struct SessionState {
    streams: HashMap<u64, EventLog>,
    /// Stream and progress token of each open request, by its id as JSON.
    requests: HashMap<String, RoutedRequest>,
    next_stream: u64,
    /// Task that sends the common stream. Each message is sent to one client only, so a new follower replaces
    /// the earlier one.
    common_follower: Option<AbortHandle>,
    last_use: Instant,
    /// False once the connection to the session process is lost.
    is_open: bool,
}

struct RoutedRequest {
    stream: u64,
    progress_token: Option<String>,
}

impl Session {
    pub(super) fn new(connection: DaemonConnection, place: OwnedSemaphorePermit) -> Self {
        let DaemonConnection { lines, write, process } = connection;
        let state = Arc::new(Mutex::new(SessionState {
            streams: HashMap::from([(COMMON_STREAM, EventLog::new(COMMON_STREAM))]),
            requests: HashMap::new(),
            next_stream: COMMON_STREAM + 1,
            common_follower: None,
            last_use: Instant::now(),
            is_open: true,
        }));
        let reader = tokio::spawn(route_messages(lines, Arc::clone(&state))).abort_handle();
        Session { write: tokio::sync::Mutex::new(write), state, reader, process, _place: place }
    }

    /// Sends a message to the daemon. Returns the stream of the response, or the common stream if the message
    /// is not a request. Returns `None` if the request id is in use or the session is closed.
    pub(super) async fn send(&self, message: &ClientMessage) -> Option<u64> {
        let stream = match message.request_id() {
            Some(id) => self.state().open_request(id, message.progress_token())?,
            None => COMMON_STREAM,
        };
        let sent = send_line(&mut *self.write.lock().await, &message.to_line()).await;
        let mut state = self.state();
        if sent.is_err() {
            state.lose_connection();
        }
        if let Some(id) = message.cancelled_request() {
            state.cancel_request(id);
        }
        Some(stream)
    }

    /// Waits for the response on a stream, and removes the stream.
    pub(super) async fn response(&self, stream: u64) -> Option<String> {
        loop {
            let changed = {
                let mut state = self.state();
                let log = state.streams.get(&stream)?;
                if log.is_finished() {
                    let (events, _) = log.events_from(0);
                    state.streams.remove(&stream);
                    return events.last().and_then(|event| data_of(event));
                }
                Arc::clone(&log.changed).notified_owned()
            };
            changed.await;
        }
    }

    /// Subscribes to a stream from an event on. The receiver gets the retained events, then each new one.
    pub(super) fn follow(&self, from: EventId) -> Option<mpsc::Receiver<Bytes>> {
        let mut state = self.state();
        state.streams.get(&from.stream)?;
        let (sender, receiver) = mpsc::channel(QUEUED_EVENTS);
        let follower = tokio::spawn(forward_events(Arc::clone(&self.state), from, sender)).abort_handle();
        if from.stream == COMMON_STREAM
            && let Some(earlier) = state.common_follower.replace(follower)
        {
            earlier.abort();
        }
        Some(receiver)
    }

    /// Returns the position of a new client of the stream for messages that belong to no request: an event
    /// without data, from which it can resume.
    pub(super) fn join_common_stream(&self) -> EventId {
        let mut state = self.state();
        let number = state.streams.get_mut(&COMMON_STREAM).map_or(0, EventLog::push_position);
        EventId { stream: COMMON_STREAM, number }
    }

    /// Returns true if the session has ended, or if it has no open request and no follower and was last used more
    /// than `timeout` ago.
    pub(super) fn is_idle(&self, timeout: Duration, now: Instant) -> bool {
        let state = self.state();
        let is_followed = state.common_follower.as_ref().is_some_and(|follower| !follower.is_finished());
        let is_used = !state.requests.is_empty() || is_followed;
        !state.is_open || (!is_used && now.saturating_duration_since(state.last_use) > timeout)
    }

    pub(super) fn is_open(&self) -> bool {
        self.state().is_open
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        lock(&self.state)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Closes the connection to the daemon, which ends the calls of the session.
        drop(self.process.take());
        self.reader.abort();
        self.state().lose_connection();
    }
}

impl SessionState {
    /// Opens the stream of a request.
    fn open_request(&mut self, id: &Value, progress_token: Option<&Value>) -> Option<u64> {
        self.last_use = Instant::now();
        let key = id.to_string();
        if self.requests.contains_key(&key) || !self.is_open {
            return None;
        }
        let stream = self.next_stream;
        self.next_stream += 1;
        self.forget_old_streams();
        self.streams.insert(stream, EventLog::new(stream));
        self.requests
            .insert(key, RoutedRequest { stream, progress_token: progress_token.map(Value::to_string) });
        Some(stream)
    }

    /// Ends the stream of a cancelled request: the daemon sends no response to it.
    fn cancel_request(&mut self, id: &Value) {
        let request = self.requests.remove(&id.to_string());
        if let Some(log) = request.and_then(|request| self.streams.get_mut(&request.stream)) {
            log.finish();
        }
    }

    fn forget_old_streams(&mut self) {
        let finished = self.streams.iter().filter(|(_, log)| log.is_finished()).map(|(stream, _)| *stream);
        let mut finished: Vec<u64> = finished.collect();
        finished.sort_unstable();
        let excess = finished.len().saturating_sub(MAX_FINISHED_STREAMS);
        for stream in finished.into_iter().take(excess) {
            self.streams.remove(&stream);
        }
    }

    /// Adds a message of the daemon to the stream of its request, or to the common stream.
    fn route(&mut self, line: &str) {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let is_response = message.get("method").is_none();
        if let Some(id) = message.get("id").filter(|_| is_response) {
            self.last_use = Instant::now();
            // A response that was sent before its request was cancelled has no stream.
            let request = self.requests.remove(&id.to_string());
            if let Some(log) = request.and_then(|request| self.streams.get_mut(&request.stream)) {
                log.push_message(line);
                log.finish();
            }
            return;
        }
        let token = message.pointer("/params/progressToken").map(Value::to_string);
        let owner = token.and_then(|token| {
            self.requests.values().find(|request| request.progress_token.as_deref() == Some(&token))
        });
        let stream = owner.map_or(COMMON_STREAM, |request| request.stream);
        if let Some(log) = self.streams.get_mut(&stream) {
            log.push_message(line);
        }
    }

    /// Fails every open request, and ends all streams.
    fn lose_connection(&mut self) {
        self.is_open = false;
        for (id, request) in std::mem::take(&mut self.requests) {
            let id = serde_json::from_str(&id).unwrap_or_default();
            let message =
                "the connection to the daemon was lost; the call may have run: see `sinew ledger query`";
            if let Some(log) = self.streams.get_mut(&request.stream) {
                log.push_message(&error_object(Some(&id), -32000, message).to_string());
            }
        }
        self.streams.values_mut().for_each(EventLog::finish);
    }
}

async fn route_messages(mut lines: Lines<BufReader<OwnedReadHalf>>, state: Arc<Mutex<SessionState>>) {
    while let Ok(Some(line)) = lines.next_line().await {
        lock(&state).route(&line);
    }
    lock(&state).lose_connection();
}

/// Sends the events of a stream until it is finished or the client has disconnected.
async fn forward_events(state: Arc<Mutex<SessionState>>, from: EventId, sender: mpsc::Sender<Bytes>) {
    let mut number = from.number;
    loop {
        let (events, next, changed, is_finished) = {
            let state = lock(&state);
            let Some(log) = state.streams.get(&from.stream) else { return };
            let (events, next) = log.events_from(number);
            (events, next, Arc::clone(&log.changed).notified_owned(), log.is_finished())
        };
        number = next;
        for event in events {
            if sender.send(event).await.is_err() {
                return;
            }
        }
        if is_finished {
            return;
        }
        tokio::select! {
            () = changed => {}
            () = sender.closed() => return,
            () = tokio::time::sleep(HEARTBEAT) => {
                if sender.send(Bytes::from_static(b": waiting\n\n")).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Returns the data of an event with one line of data. A position has none.
fn data_of(event: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(event).ok()?;
    let data = text.lines().find_map(|line| line.strip_prefix("data: "))?;
    (!data.is_empty()).then(|| data.to_owned())
}

fn lock(state: &Mutex<SessionState>) -> MutexGuard<'_, SessionState> {
    // Every method leaves a consistent state, so a poisoned lock is safe to use.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
