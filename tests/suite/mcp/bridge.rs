//! `sinew mcp`: standard input and output, joined to a daemon that may come and go.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};
use tests::{Client, Daemon, Home, sinew};

/// A running bridge, ended with the test.
struct Bridge {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Bridge {
    fn start(home: &Home, words: &[&str]) -> Bridge {
        let mut command = sinew();
        command.arg("mcp").args(words).env("SINEW_HOME", home.root()).env("HOME", home.user());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("start the bridge");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("its output"));
        Bridge { child, input, output: BufReader::new(output), asked: 0 }
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params});
        writeln!(self.input.as_mut().unwrap(), "{message}").expect("the bridge reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the bridge writes");
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
        assert_eq!(answer["id"], self.asked, "{answer}");
        answer
    }

    fn shake(&mut self) {
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host"}});
        let answer = self.request("initialize", &params);
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
        let notice = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        writeln!(self.input.as_mut().unwrap(), "{notice}").expect("the bridge reads");
    }

    fn reads(&mut self, name: &str) -> Value {
        let params = json!({"name": "read_file", "arguments": {"path": name}});
        self.request("tools/call", &params)["result"]["structuredContent"]["content"].clone()
    }

    /// Says nothing more, and waits for its end.
    fn finish(mut self) -> Option<i32> {
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

fn stop_daemon(home: &Home) {
    let mut control = Client::connect(&home.socket("control.sock"));
    assert!(control.request("control/shutdown", &json!({}))["result"].is_object());
    control.until_closed();
}

#[test]
fn a_host_that_starts_a_command_gets_the_daemon() {
    let home = Home::initialised();
    home.file("a.txt", "hello");
    let mut first = Bridge::start(&home, &[]);
    first.shake();
    assert_eq!(first.reads("a.txt"), "hello");
    assert_eq!(first.finish(), Some(0));
    // The daemon it started stays, and serves the next one.
    let mut second = Bridge::start(&home, &["--no-start"]);
    second.shake();
    assert_eq!(second.reads("a.txt"), "hello");
    assert_eq!(second.finish(), Some(0));
    stop_daemon(&home);
    let starts = home.records().iter().filter(|record| record["kind"] == "start").count();
    assert_eq!(starts, 1, "one daemon for both");
}

#[test]
fn a_bridge_outlives_its_daemon() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "hello");
    let mut bridge = Bridge::start(daemon.home(), &["--no-start"]);
    bridge.shake();
    assert_eq!(bridge.reads("a.txt"), "hello");
    let home = daemon.crash();
    let daemon = Daemon::start_in(home);
    // No new handshake: the bridge has said it again.
    assert_eq!(bridge.reads("a.txt"), "hello");
    let records = daemon.home().records();
    let decision = records.iter().rfind(|record| record["kind"] == "decision").unwrap();
    assert_eq!(decision["caller"]["client"], "host", "and who speaks is known there: {decision}");
    assert_eq!(bridge.finish(), Some(0));
}

#[test]
fn without_a_daemon_and_without_leave_to_start_one_it_refuses() {
    let home = Home::initialised();
    let refused = home.run(&["mcp", "--no-start"]).must_exit(6);
    assert!(refused.stderr().contains("agent.sock") && refused.stderr().contains("sinew serve"), "{refused}");
    assert!(refused.stdout().is_empty(), "nothing but protocol on standard output: {refused}");
}

#[test]
fn a_request_that_was_refused_as_a_whole_is_not_still_open() {
    let daemon = Daemon::start();
    let mut bridge = Bridge::start(daemon.home(), &["--no-start"]);
    bridge.shake();
    let twice = r#"{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"read_file","name":"x"}}"#;
    writeln!(bridge.input.as_mut().unwrap(), "{twice}").expect("the bridge reads");
    let mut line = String::new();
    bridge.output.read_line(&mut line).expect("the bridge writes");
    let refused: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&refused["id"], &refused["error"]["data"]["code"]),
        (&json!(null), &json!("duplicate_key")),
        "{refused}"
    );
    let daemon = Daemon::start_in(daemon.crash());
    daemon.home().file("a.txt", "hello");
    // The next line is the answer to this one: nobody is told that 77 was under way.
    assert_eq!(bridge.reads("a.txt"), "hello");
}
