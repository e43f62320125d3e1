//! `sinew mcp`: standard input and output connected to a daemon that may restart.

use serde_json::{Value, json};
use tests::{Bridge, Client, Daemon, Home};

fn reads(bridge: &mut Bridge, name: &str) -> Value {
    let params = json!({"name": "read_file", "arguments": {"path": name}});
    bridge.request("tools/call", &params)["result"]["structuredContent"]["content"].clone()
}

fn stop_daemon(home: &Home) {
    let mut control = Client::connect(&home.socket("control.sock"));
    assert!(control.request("control/shutdown", &json!({}))["result"].is_object());
    control.read_until_closed();
}

#[test]
fn bridge_starts_the_daemon_for_its_host() {
    let home = Home::initialised();
    home.file("a.txt", "hello");
    let mut first = Bridge::start(&home, &[]);
    first.handshake();
    assert_eq!(reads(&mut first, "a.txt"), "hello");
    assert_eq!(first.close(), Some(0));
    // The daemon that the first bridge started stays, and serves the next one.
    let mut second = Bridge::start(&home, &["--no-start"]);
    second.handshake();
    assert_eq!(reads(&mut second, "a.txt"), "hello");
    assert_eq!(second.close(), Some(0));
    stop_daemon(&home);
    let starts = home.records().iter().filter(|record| record["kind"] == "start").count();
    assert_eq!(starts, 1, "one daemon for both");
}

#[test]
fn bridge_outlives_its_daemon() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "hello");
    let mut bridge = Bridge::start(daemon.home(), &["--no-start"]);
    bridge.handshake();
    assert_eq!(reads(&mut bridge, "a.txt"), "hello");
    let home = daemon.crash();
    let daemon = Daemon::start_in(home);
    // No new handshake by the client: the bridge repeats it.
    assert_eq!(reads(&mut bridge, "a.txt"), "hello");
    let records = daemon.home().records();
    let decision = records.iter().rfind(|record| tests::holds(record, "decision")).unwrap();
    assert_eq!(decision["caller"]["client"], "host", "and who speaks is known there: {decision}");
    assert_eq!(bridge.close(), Some(0));
}

#[test]
fn no_start_without_a_daemon_is_refused() {
    let home = Home::initialised();
    let refused = home.run(&["mcp", "--no-start"]).must_exit(6);
    assert!(refused.stderr().contains("agent.sock") && refused.stderr().contains("sinew serve"), "{refused}");
    assert!(refused.stdout().is_empty(), "nothing but protocol on standard output: {refused}");
}

#[test]
fn request_refused_as_a_whole_is_no_longer_pending() {
    let daemon = Daemon::start();
    let mut bridge = Bridge::start(daemon.home(), &["--no-start"]);
    bridge.handshake();
    let twice = r#"{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"name":"read_file","name":"x"}}"#;
    bridge.send(twice);
    let refused = bridge.receive();
    assert_eq!(
        (&refused["id"], &refused["error"]["data"]["code"]),
        (&json!(77), &json!("duplicate_key")),
        "{refused}"
    );
    let daemon = Daemon::start_in(daemon.crash());
    daemon.home().file("a.txt", "hello");
    // The next line is the answer to this request: the bridge does not report request 77 as interrupted.
    assert_eq!(reads(&mut bridge, "a.txt"), "hello");
}
