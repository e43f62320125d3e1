//! The three ways to the daemon, each with raw messages: the agent socket, `sinew mcp`, and `sinew mcp --http`.

use std::collections::VecDeque;

use serde_json::Value;
use tests::{Bridge, Client};

use super::STATELESS;
use crate::mcp::http::{HttpBridge, Response};

/// Way to the daemon.
pub(super) enum Wire {
    Socket(Client),
    Bridge(Bridge),
    Http(HttpWire),
}

impl Wire {
    pub(super) fn send(&mut self, line: &str) {
        match self {
            Wire::Socket(client) => client.send(format!("{line}\n").as_bytes()),
            Wire::Bridge(bridge) => bridge.send(line),
            Wire::Http(http) => http.send(line),
        }
    }

    pub(super) fn receive(&mut self) -> Value {
        match self {
            Wire::Socket(client) => client.receive().expect("the connection stays open"),
            Wire::Bridge(bridge) => bridge.receive(),
            Wire::Http(http) => http.receive(),
        }
    }
}

/// Client of the HTTP bridge: a request for each message, and the messages of their responses.
pub(super) struct HttpWire {
    bridge: HttpBridge,
    revision: &'static str,
    session: Option<String>,
    /// Messages of responses without a stream.
    ready: VecDeque<Value>,
    /// Open streams, the newest last.
    streams: Vec<Response>,
}

impl HttpWire {
    pub(super) fn new(bridge: HttpBridge, revision: &'static str) -> Self {
        HttpWire { bridge, revision, session: None, ready: VecDeque::new(), streams: Vec::new() }
    }

    fn send(&mut self, line: &str) {
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let field = |pointer: &str| message.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let method = field("/method");
        let name = match method {
            "tools/call" => field("/params/name"),
            _ if method.starts_with("tasks/") => field("/params/taskId"),
            _ => "",
        };
        // A header without a value is not sent.
        let headers = match self.revision {
            STATELESS => [("mcp-protocol-version", STATELESS), ("mcp-method", method), ("mcp-name", name)],
            _ => [("mcp-session-id", self.session.as_deref().unwrap_or_default()), ("", ""), ("", "")],
        };
        let response = self.bridge.send("POST", &headers, line);
        self.session = self.session.take().or_else(|| response.header("mcp-session-id"));
        match response.header("content-type").as_deref() {
            Some("application/json") => self.ready.push_back(response.json()),
            Some("text/event-stream") => self.streams.push(response),
            _ => assert_eq!(response.status, 202, "{line}"),
        }
    }

    fn receive(&mut self) -> Value {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return message;
            }
            let newest = self.streams.last_mut().expect("a response");
            match newest.next_message() {
                Some(message) => return message,
                None => drop(self.streams.pop()),
            }
        }
    }
}
