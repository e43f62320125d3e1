//! A client that sends raw bytes, so that a test can send input that no library would produce.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

/// Timeout for a loaded machine; only a failing test reaches it.
const TIMEOUT: Duration = Duration::from_secs(20);

/// One connection.
pub struct Client {
    reader: BufReader<UnixStream>,
    next_id: u64,
}

impl Client {
    /// Connects to a socket.
    pub fn connect(socket: &Path) -> Client {
        Client::from_stream(
            UnixStream::connect(socket).unwrap_or_else(|e| panic!("{}: {e}", socket.display())),
        )
    }

    /// Uses an existing connection.
    pub fn from_stream(stream: UnixStream) -> Client {
        stream.set_read_timeout(Some(TIMEOUT)).expect("a read timeout");
        stream.set_write_timeout(Some(TIMEOUT)).expect("a write timeout");
        Client { reader: BufReader::new(stream), next_id: 1 }
    }

    /// Calls `sinew/execute` on a daemon that may be killed; returns the response, or nothing if the
    /// connection ended.
    pub fn try_execute(&mut self, tool: &str, arguments: &Value) -> Option<Value> {
        self.try_request("sinew/execute", &json!({"tool_name": tool, "arguments": arguments}))
    }

    /// Sends a request to a daemon that may be killed; returns the response, or nothing if the connection
    /// ended.
    pub fn try_request(&mut self, method: &str, params: &Value) -> Option<Value> {
        let message = json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": params});
        self.send(format!("{message}\n").as_bytes());
        let mut line = String::new();
        let read = self.reader.read_line(&mut line).unwrap_or(0);
        // A line without a newline was cut off when the daemon was killed, so it is no response.
        (read > 0 && line.ends_with('\n')).then(|| serde_json::from_str(&line).expect("a response is JSON"))
    }

    /// Sends bytes unchanged. Errors are ignored, because the next read reports a closed connection.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.reader.get_mut().write_all(bytes);
    }

    /// Returns a second handle of the connection, to send while responses are received.
    pub fn clone_stream(&self) -> UnixStream {
        self.reader.get_ref().try_clone().expect("a second handle")
    }

    /// Receives the next message, or nothing if the peer closed the connection.
    pub fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:.200}"))),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("no answer: {error}"),
        }
    }

    /// Sends one line and waits for one message.
    pub fn exchange(&mut self, line: &str) -> Value {
        self.send(line.as_bytes());
        self.send(b"\n");
        self.receive().unwrap_or_else(|| panic!("the peer closed the connection after {line:.200}"))
    }

    /// Sends a request with a new id, and returns the whole response.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let response = self.exchange(&message.to_string());
        assert_eq!(response["id"], id, "{response}");
        response
    }

    /// Calls `sinew/execute`; returns the tool result.
    pub fn execute(&mut self, tool: &str, arguments: &Value) -> Value {
        let response = self.request("sinew/execute", &json!({"tool_name": tool, "arguments": arguments}));
        assert!(response["result"].is_object(), "{response}");
        response["result"].clone()
    }

    /// Calls `sinew/execute` with more parameters; returns the tool result.
    pub fn execute_with(&mut self, tool: &str, arguments: &Value, more: &Value) -> Value {
        let mut params = json!({"tool_name": tool, "arguments": arguments});
        let more = more.as_object().expect("an object").clone();
        params.as_object_mut().expect("an object").extend(more);
        let response = self.request("sinew/execute", &params);
        assert!(response["result"].is_object(), "{response}");
        response["result"].clone()
    }

    /// Reads until the peer closes the connection. A peer that keeps it open fails the test.
    pub fn read_until_closed(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        if let Err(error) = self.reader.read_to_end(&mut rest) {
            let waited = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            assert!(!waited, "the peer does not close the connection: {error}");
        }
        rest
    }
}
