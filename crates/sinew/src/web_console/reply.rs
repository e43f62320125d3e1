//! HTTP responses of the console. Every one has the headers that keep other sites out.

use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::http_bridge::ReplyBody;

use super::access::RequestDenied;

/// Response of the console.
pub(super) type Reply = Response<ReplyBody>;

/// Scripts and styles come from this server only, no text becomes markup or code, and no page embeds this one.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

const FIXED_HEADERS: [(HeaderName, &str); 8] = [
    (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (CACHE_CONTROL, "no-store"),
    (REFERRER_POLICY, "no-referrer"),
];

/// Builds the response with a file of the page.
pub(super) fn asset(content_type: &'static str, content: Bytes) -> Reply {
    with_type(StatusCode::OK, content_type, ReplyBody::Whole(Some(content)))
}

/// Builds the response with the result of a request.
pub(super) fn result(result: &Value) -> Reply {
    json_reply(StatusCode::OK, &json!({"result": result}))
}

/// Builds the response to a request that failed or was refused.
pub(super) fn error(status: StatusCode, code: &str, message: &str, data: &Value) -> Reply {
    let mut reply = json_reply(status, &json!({"error": {"code": code, "message": message, "data": data}}));
    if status == StatusCode::UNAUTHORIZED {
        reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    reply
}

/// Builds the response to a request that is refused before its body is read. The connection is closed, so that the
/// body is not taken for another request.
pub(super) fn denied(denied: RequestDenied) -> Reply {
    closing(error(denied.status(), "denied", denied.message(), &Value::Null))
}

/// Closes the connection after a response.
pub(super) fn closing(mut reply: Reply) -> Reply {
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}

/// Builds the response to a method that the path does not have.
pub(super) fn method_not_allowed(allowed: &'static str) -> Reply {
    let mut reply =
        error(StatusCode::METHOD_NOT_ALLOWED, "method", "this method is not supported", &Value::Null);
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    reply
}

/// Builds a stream of events.
pub(super) fn events(receiver: mpsc::Receiver<Bytes>) -> Reply {
    with_type(StatusCode::OK, "text/event-stream", ReplyBody::Events(receiver))
}

fn json_reply(status: StatusCode, body: &Value) -> Reply {
    with_type(status, "application/json", ReplyBody::Whole(Some(body.to_string().into())))
}

fn with_type(status: StatusCode, content_type: &'static str, body: ReplyBody) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    for (name, value) in FIXED_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    reply
}
