//! MCP endpoint: checks a request, and passes its message to a session or to a stateless exchange.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, Method, Request, StatusCode};
use serde_json::Value;

use super::access::AccessRules;
use super::connection_pool::ConnectionPlace;
use super::daemon_connection::DaemonConnector;
use super::event_log::EventId;
use super::message::{ClientMessage, SESSION_REVISIONS, header};
use super::reply::{self, Reply, SESSION_HEADER};
use super::session::Session;
use super::sessions::{HttpSessions, MAX_SESSIONS};
use super::stateless;

/// Path of the endpoint.
const PATH: &str = "/mcp";
/// Longest body of a request. The daemon may permit less.
const MAX_BODY_BYTES: usize = 64 << 20;
/// Time for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// State shared by all connections.
pub(super) struct Endpoint {
    access: AccessRules,
    connector: DaemonConnector,
    sessions: HttpSessions,
}

impl Endpoint {
    pub(super) fn new(access: AccessRules, connector: DaemonConnector, idle_timeout: Duration) -> Self {
        Endpoint { access, connector, sessions: HttpSessions::new(idle_timeout) }
    }

    /// Ends unused sessions, for as long as the bridge runs.
    pub(super) async fn end_idle_sessions(&self) -> ! {
        self.sessions.end_idle_sessions().await
    }

    pub(super) async fn handle(&self, request: Request<Incoming>, place: &ConnectionPlace) -> Reply {
        if let Err(denied) = self.access.check(request.headers()) {
            return reply::closing(reply::denied(denied));
        }
        if !place.become_client() {
            let problem = "too many connections are open: close one";
            return reply::closing(reply::invalid(StatusCode::SERVICE_UNAVAILABLE, None, problem));
        }
        if request.uri().path() != PATH {
            return reply::invalid(StatusCode::NOT_FOUND, None, "the endpoint is /mcp");
        }
        match *request.method() {
            Method::POST => self.post(request).await,
            Method::GET => self.get(request.headers()),
            Method::DELETE => self.delete(request.headers()),
            _ => reply::method_not_allowed("GET, POST, DELETE"),
        }
    }

    async fn post(&self, request: Request<Incoming>) -> Reply {
        let (head, body) = request.into_parts();
        if !names(&head.headers, CONTENT_TYPE.as_str(), "application/json") {
            let message = "the content type must be application/json";
            return reply::invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, None, message);
        }
        if !["application/json", "text/event-stream"].iter().all(|kind| accepts(&head.headers, kind)) {
            let message = "the client must accept application/json and text/event-stream";
            return reply::invalid(StatusCode::NOT_ACCEPTABLE, None, message);
        }
        let body = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await;
        let Ok(body) = body else {
            return reply::invalid(StatusCode::REQUEST_TIMEOUT, None, "the body did not arrive in time");
        };
        let Ok(body) = body else {
            return reply::invalid(StatusCode::PAYLOAD_TOO_LARGE, None, "the body is cut off or too long");
        };
        let message = match ClientMessage::parse(&body.to_bytes()) {
            Ok(message) => message,
            Err(error) => return reply::json(StatusCode::BAD_REQUEST, &error),
        };
        if message.is_stateless(&head.headers) {
            self.post_stateless(&message, &head.headers).await
        } else {
            self.post_in_session(&message, &head.headers).await
        }
    }

    async fn post_stateless(&self, message: &ClientMessage, headers: &HeaderMap) -> Reply {
        if let Err(mismatch) = message.check_headers(headers) {
            return reply::json(StatusCode::BAD_REQUEST, &mismatch);
        }
        if message.request_id().is_none() {
            // A stateless client cancels by closing its response, so no notification has an effect.
            return reply::empty(StatusCode::ACCEPTED);
        }
        match self.connector.connect().await {
            Ok(connection) => stateless::exchange(connection, message).await,
            Err(error) => reply::invalid(StatusCode::BAD_GATEWAY, message.request_id(), &error.message),
        }
    }

    async fn post_in_session(&self, message: &ClientMessage, headers: &HeaderMap) -> Reply {
        if message.method() == Some("initialize") && !headers.contains_key(SESSION_HEADER) {
            return self.initialize(message).await;
        }
        let session = match self.session(headers) {
            Ok(session) => session,
            Err(refused) => return refused,
        };
        let Some(stream) = session.send(message).await else {
            let problem = "this id belongs to a request that is still open, or the session has ended";
            return reply::invalid(StatusCode::BAD_REQUEST, message.request_id(), problem);
        };
        match message.method() {
            _ if message.request_id().is_none() => reply::empty(StatusCode::ACCEPTED),
            Some("tools/call" | "tasks/result") => follow(&session, EventId { stream, number: 0 }),
            _ => response(&session, stream, message.request_id()).await,
        }
    }

    /// Opens a session and performs its handshake.
    async fn initialize(&self, message: &ClientMessage) -> Reply {
        // Reserved before the process starts: otherwise requests that arrive together would all find the same
        // free slot.
        let Some(place) = self.sessions.reserve() else {
            let problem = format!("all {MAX_SESSIONS} sessions are in use: end one with DELETE");
            return reply::invalid(StatusCode::SERVICE_UNAVAILABLE, message.request_id(), &problem);
        };
        let session = match self.connector.connect_session().await {
            Ok(connection) => Arc::new(Session::new(connection, place)),
            Err(error) => {
                return reply::invalid(StatusCode::BAD_GATEWAY, message.request_id(), &error.message);
            }
        };
        let Some(stream) = session.send(message).await else {
            return reply::invalid(StatusCode::BAD_GATEWAY, message.request_id(), "the session has ended");
        };
        let mut answer = response(&session, stream, message.request_id()).await;
        // Visible ASCII, and impossible to guess.
        let id = uuid::Uuid::new_v4().simple().to_string();
        if let Ok(value) = HeaderValue::from_str(&id) {
            answer.headers_mut().insert(SESSION_HEADER, value);
            self.sessions.insert(id, session);
        }
        answer
    }

    /// Opens the stream of messages that belong to no request, or resumes a stream.
    fn get(&self, headers: &HeaderMap) -> Reply {
        if !accepts(headers, "text/event-stream") {
            let message = "the client must accept text/event-stream";
            return reply::invalid(StatusCode::NOT_ACCEPTABLE, None, message);
        }
        if !headers.contains_key(SESSION_HEADER) {
            return reply::method_not_allowed("POST");
        }
        let session = match self.session(headers) {
            Ok(session) => session,
            Err(refused) => return refused,
        };
        let from = match header(headers, "last-event-id").map(EventId::parse) {
            None => session.join_common_stream(),
            Some(Some(EventId { stream, number })) => EventId { stream, number: number.saturating_add(1) },
            Some(None) => return reply::invalid(StatusCode::BAD_REQUEST, None, "Last-Event-ID is unknown"),
        };
        follow(&session, from)
    }

    /// Ends a session and the calls in it.
    fn delete(&self, headers: &HeaderMap) -> Reply {
        if let Err(refused) = self.session(headers) {
            return refused;
        }
        if let Some(id) = header(headers, SESSION_HEADER) {
            self.sessions.remove(id);
        }
        reply::empty(StatusCode::NO_CONTENT)
    }

    /// Returns the session that a request names.
    fn session(&self, headers: &HeaderMap) -> Result<Arc<Session>, Reply> {
        let refuse = |status, message: &str| Err(reply::invalid(status, None, message));
        if let Some(revision) = header(headers, "mcp-protocol-version")
            && !SESSION_REVISIONS.contains(&revision)
        {
            return refuse(StatusCode::BAD_REQUEST, "MCP-Protocol-Version is not the revision of a session");
        }
        let Some(id) = header(headers, SESSION_HEADER) else {
            return refuse(StatusCode::BAD_REQUEST, "Mcp-Session-Id is missing: send `initialize` first");
        };
        let found = self.sessions.get(id);
        found.map_or_else(|| refuse(StatusCode::NOT_FOUND, "the session has ended: send `initialize`"), Ok)
    }
}

/// Streams events to the client.
fn follow(session: &Session, from: EventId) -> Reply {
    match session.follow(from) {
        Some(receiver) => reply::events(receiver),
        None => reply::invalid(StatusCode::NOT_FOUND, None, "the stream is not retained any more"),
    }
}

/// Waits for the response of a request.
async fn response(session: &Session, stream: u64, id: Option<&Value>) -> Reply {
    match session.response(stream).await {
        Some(message) => reply::json_text(StatusCode::OK, message),
        None => {
            reply::invalid(StatusCode::BAD_GATEWAY, id, "the request was cancelled, or the session has ended")
        }
    }
}

/// Returns true if a header names this media type.
fn names(headers: &HeaderMap, name: &str, kind: &str) -> bool {
    let is_kind = |part: &str| part.split(';').next().is_some_and(|it| it.trim().eq_ignore_ascii_case(kind));
    header(headers, name).is_some_and(|value| value.split(',').any(is_kind))
}

fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    ["*/*", kind].iter().any(|accepted| names(headers, ACCEPT.as_str(), accepted))
}
