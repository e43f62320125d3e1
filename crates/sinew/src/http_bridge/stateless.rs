//! Exchange of a stateless request: one connection to the daemon per request. The client cancels by closing
//! the response, which closes the connection.

use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Bytes;
use serde_json::Value;
use tokio::sync::mpsc;

use super::daemon_connection::{DaemonConnection, send_line};
use super::message::{ClientMessage, error_object};
use super::reply::{self, Reply};

/// Time to wait for the first message before the response begins as a stream. An error that determines the
/// status arrives at once; so do most results, which then need no stream.
const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_millis(250);
/// Interval of comments on an idle stream, which reveal a client that has disconnected.
const HEARTBEAT: Duration = Duration::from_secs(15);
const QUEUED_EVENTS: usize = 16;

const METHOD_NOT_FOUND: i64 = -32601;
/// Errors of the request itself.
const BAD_REQUEST_CODES: [i64; 6] = [-32700, -32600, -32602, -32020, -32021, -32022];

/// Sends a request and answers with its result, or with a stream if the result takes longer.
pub(super) async fn exchange(mut connection: DaemonConnection, message: &ClientMessage) -> Reply {
    let id = message.request_id().cloned().unwrap_or_default();
    if send_line(&mut connection.write, &message.to_line()).await.is_err() {
        return lost(&id);
    }
    let first = tokio::time::timeout(FIRST_MESSAGE_TIMEOUT, connection.lines.next_line()).await;
    let first = match first {
        Err(_) => None,
        Ok(Ok(Some(line))) if is_response(&line) => return reply::json_text(status_of(&line), line),
        Ok(Ok(Some(line))) => Some(line),
        Ok(Ok(None) | Err(_)) => return lost(&id),
    };
    let (sender, receiver) = mpsc::channel(QUEUED_EVENTS);
    tokio::spawn(forward(connection, first, id, sender));
    reply::events(receiver)
}

/// Forwards messages up to the response. The connection is dropped, and the call ends, if the client has
/// disconnected.
async fn forward(
    mut connection: DaemonConnection,
    first: Option<String>,
    id: Value,
    sender: mpsc::Sender<Bytes>,
) {
    let mut next = first;
    loop {
        if let Some(line) = next.take() {
            let is_last = is_response(&line);
            if sender.send(event(&line)).await.is_err() || is_last {
                return;
            }
        }
        tokio::select! {
            biased;
            () = sender.closed() => return,
            line = connection.lines.next_line() => match line {
                Ok(Some(line)) => next = Some(line),
                Ok(None) | Err(_) => next = Some(connection_lost(&id).to_string()),
            },
            () = tokio::time::sleep(HEARTBEAT) => {
                if sender.send(Bytes::from_static(b": waiting\n\n")).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn event(line: &str) -> Bytes {
    Bytes::from(format!("event: message\ndata: {line}\n\n"))
}

fn is_response(line: &str) -> bool {
    let message: Value = serde_json::from_str(line).unwrap_or_default();
    message.get("method").is_none()
}

/// Returns the HTTP status of a response.
fn status_of(line: &str) -> StatusCode {
    let message: Value = serde_json::from_str(line).unwrap_or_default();
    let is_unknown_tool = message.pointer("/error/data/code").is_some_and(|code| code == "unknown_tool");
    match message.pointer("/error/code").and_then(Value::as_i64) {
        Some(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(code) if BAD_REQUEST_CODES.contains(&code) && !is_unknown_tool => StatusCode::BAD_REQUEST,
        Some(_) | None => StatusCode::OK,
    }
}

fn lost(id: &Value) -> Reply {
    reply::json(StatusCode::BAD_GATEWAY, &connection_lost(id))
}

fn connection_lost(id: &Value) -> Value {
    error_object(Some(id), -32000, "the connection to the daemon was lost; the call may have run")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_follows_the_error_code() {
        let check = |line: &str, status: u16| assert_eq!(status_of(line).as_u16(), status, "{line}");
        check(r#"{"id":1,"result":{}}"#, 200);
        check(r#"{"id":1,"error":{"code":-32601}}"#, 404);
        check(r#"{"id":1,"error":{"code":-32602}}"#, 400);
        check(r#"{"id":1,"error":{"code":-32022}}"#, 400);
        check(r#"{"id":1,"error":{"code":-32602,"data":{"code":"unknown_tool"}}}"#, 200);
        check(r#"{"id":1,"error":{"code":-32000}}"#, 200);
        assert!(is_response(r#"{"id":1,"result":{}}"#));
        assert!(!is_response(r#"{"method":"notifications/progress","params":{}}"#));
    }
}
