//! HTTP responses: an empty one, one JSON document, or a stream of server-sent events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde_json::Value;
use tokio::sync::mpsc;

use super::access::AccessDenied;
use super::message::error_object;

/// Header that names the session.
pub(super) const SESSION_HEADER: &str = "mcp-session-id";

/// Body of a response.
pub(crate) enum ReplyBody {
    /// Whole body, until it is taken.
    Whole(Option<Bytes>),
    /// Events, as they are sent. Dropping the body closes the channel.
    Events(mpsc::Receiver<Bytes>),
}

/// Response of the bridge.
pub(super) type Reply = Response<ReplyBody>;

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = |bytes| Ok(Frame::data(bytes));
        match self.get_mut() {
            ReplyBody::Whole(bytes) => Poll::Ready(bytes.take().map(frame)),
            ReplyBody::Events(events) => events.poll_recv(context).map(|bytes| bytes.map(frame)),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, ReplyBody::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |it| it.len() as u64)),
            ReplyBody::Events(_) => SizeHint::default(),
        }
    }
}

/// Builds a response without a body.
pub(super) fn empty(status: StatusCode) -> Reply {
    with_status(status, ReplyBody::Whole(None))
}

/// Builds a response with a JSON-RPC message.
pub(super) fn json(status: StatusCode, message: &Value) -> Reply {
    json_text(status, message.to_string())
}

/// Builds a response with a JSON-RPC message that is already encoded.
pub(super) fn json_text(status: StatusCode, message: String) -> Reply {
    let mut reply = with_status(status, ReplyBody::Whole(Some(message.into())));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// Builds a stream of events.
pub(super) fn events(receiver: mpsc::Receiver<Bytes>) -> Reply {
    let mut reply = with_status(StatusCode::OK, ReplyBody::Events(receiver));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    reply
}

/// Builds the response to a request that is refused before its body is read.
pub(super) fn denied(denied: AccessDenied) -> Reply {
    let mut reply = json(denied.status(), &error_object(None, -32600, denied.message()));
    if denied == AccessDenied::Token {
        reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    reply
}

/// Closes the connection after a response.
pub(super) fn closing(mut reply: Reply) -> Reply {
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}

/// Builds the response to a method that the endpoint does not have.
pub(super) fn method_not_allowed(allowed: &'static str) -> Reply {
    let mut reply = empty(StatusCode::METHOD_NOT_ALLOWED);
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    reply
}

/// Builds the response to a request with a problem that its sender can correct.
pub(super) fn invalid(status: StatusCode, id: Option<&Value>, message: &str) -> Reply {
    json(status, &error_object(id, -32600, message))
}

fn with_status(status: StatusCode, body: ReplyBody) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    reply
}
