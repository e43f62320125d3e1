//! A running `sinew mcp`, as a host starts it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::{Home, sinew};

/// A running bridge, killed when dropped.
pub struct Bridge {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last_id: u64,
}

impl Bridge {
    /// Starts a bridge with these arguments.
    pub fn start(home: &Home, words: &[&str]) -> Bridge {
        let mut command = sinew();
        command.arg("mcp").args(words).env("SINEW_HOME", home.root()).env("HOME", home.user_home());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("start the bridge");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("its output"));
        Bridge { child, input, output: BufReader::new(output), last_id: 0 }
    }

    /// Sends one line.
    pub fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().expect("it is open"), "{line}").expect("the bridge reads");
    }

    /// Receives the next line.
    pub fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the bridge writes");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// Sends a request with a new id, and returns the whole response.
    pub fn request(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        self.send(&message.to_string());
        let answer = self.receive();
        assert_eq!(answer["id"], self.last_id, "{answer}");
        answer
    }

    /// Completes the MCP handshake.
    pub fn handshake(&mut self) {
        self.handshake_as("host");
    }

    /// Completes the MCP handshake with this client name.
    pub fn handshake_as(&mut self, client: &str) {
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": client}});
        let answer = self.request("initialize", &params);
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    /// Closes the input and waits for the exit code.
    pub fn close(mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().expect("the bridge ends").code()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
