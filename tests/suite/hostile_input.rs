//! Hostile input on the real socket: each case gets a clear error, and the daemon then serves a good call.
//!
//! | property | test |
//! |---|---|
//! | no other user can connect while the sockets are created | `strangers` |
//! | another user is dropped before a byte is read | `strangers`; `server`: `foreign_user_gets_no_byte` |
//! | a sandboxed program reaches no socket | `sandbox` |
//! | a line that is too long or endless | here; `server`: `frame` |
//! | nesting | here |
//! | a duplicate key | here |
//! | a repeated idempotency key | `repeats`; `execution`: `repeats` |

use std::io::Write;
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use tests::Daemon;

/// Checks that the daemon still serves an ordinary client.
fn assert_still_serving(daemon: &Daemon) {
    let result = daemon.agent().execute("read_file", &json!({"path": "alive.txt"}));
    assert_eq!(result["output"]["content"], "yes", "{result}");
}

fn daemon() -> Daemon {
    let daemon = Daemon::start();
    daemon.home().file("alive.txt", "yes");
    daemon
}

/// Returns the resident memory of the daemon, in bytes.
fn resident(daemon: &Daemon) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", daemon.pid())).expect("statm");
    let pages: u64 = text.split(' ').nth(1).expect("resident").parse().expect("a number");
    pages * 4096
}

fn error_code(response: &Value) -> i64 {
    response["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error in {response}"))
}

#[test]
fn line_of_twenty_megabytes_is_refused_with_the_limit() {
    let daemon = daemon();
    let mut client = daemon.agent();
    let mut line = br#"{"jsonrpc":"2.0","id":1,"method":"sinew/execute","params":""#.to_vec();
    line.resize(20 << 20, b'x');
    client.send(&line);
    let response = client.receive().expect("an answer before the connection ends");
    assert!(response["error"]["message"].as_str().unwrap().contains("16777216"), "{response}");
    assert_eq!(response["error"]["data"]["code"], "frame_too_large", "{response}");
    assert_still_serving(&daemon);
}

#[test]
fn endless_line_costs_no_memory() {
    let daemon = daemon();
    assert_still_serving(&daemon);
    let before = resident(&daemon);
    let mut stream = UnixStream::connect(daemon.home().socket("agent.sock")).unwrap();
    stream.set_write_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    let chunk = vec![b'['; 1 << 20];
    let mut sent = 0_u64;
    // Bounded: 256 MiB, or until the daemon closes the connection.
    while sent < 256 && stream.write_all(&chunk).is_ok() {
        sent += 1;
    }
    let grown = resident(&daemon).saturating_sub(before);
    assert!(grown < 40 << 20, "{sent} MiB sent, {grown} bytes kept");
    assert_still_serving(&daemon);
}

#[test]
fn deep_nesting_duplicate_keys_and_nul_are_parse_errors() {
    let daemon = daemon();
    let mut client = daemon.agent();
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    let execute = |arguments: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"sinew/execute","params":{{"tool_name":"read_file","arguments":{arguments}}}}}"#
        )
    };
    for (line, part) in [
        (deep.clone(), "nested"),
        (execute(&deep), "nested"),
        (execute(r#"{"path":"a","path":"b"}"#), "duplicate key"),
        (execute(r#"{"path":"a","p\u0061th":"b"}"#), "duplicate key"),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#.to_owned(), "duplicate key"),
        (execute(r#"{"path":"a\u0000b"}"#), "NUL"),
        (r#"{"jsonrpc":"2.0","#.to_owned(), "EOF"),
        ("hello".to_owned(), "expected"),
    ] {
        let response = client.exchange(&line);
        assert_eq!(error_code(&response), -32700, "{response}");
        assert!(response["error"]["message"].as_str().unwrap().contains(part), "{part}: {response}");
    }
    assert_still_serving(&daemon);
}

/// Up to the limit, nesting is accepted. Beyond it, no deeper value is built, dropped or written.
#[test]
fn nesting_is_limited_and_depth_costs_nothing() {
    let daemon = daemon();
    let mut client = daemon.agent();
    // The message, its parameters and the arguments are three levels.
    for (lists, fits) in [(123, true), (124, true), (125, false), (100_000, false), (1_000_000, false)] {
        let deep = format!("{}{}", "[".repeat(lists), "]".repeat(lists));
        let params = format!(r#"{{"tool_name":"read_file","arguments":{{"path":{deep}}}}}"#);
        let response = client.exchange(&format!(
            r#"{{"jsonrpc":"2.0","id":{lists},"method":"sinew/execute","params":{params}}}"#
        ));
        match fits {
            true => {
                let refusal = &response["result"]["metadata"]["refusal"];
                assert_eq!(refusal["code"], "invalid_arguments", "{lists}: {response}");
            }
            false => assert_eq!(error_code(&response), -32700, "{lists}: {response}"),
        }
        let bare = client.exchange(&deep);
        assert!(bare["error"].is_object(), "{lists}: {bare}");
    }
    assert_still_serving(&daemon);
}

/// A message with a duplicate key is ambiguous, so it is refused.
#[test]
fn duplicate_key_refuses_the_whole_message() {
    let daemon = daemon();
    let mut client = daemon.agent();
    let before = daemon.home().records().len();
    for params in [
        r#"{"tool_name":"read_file","tool_name":"write_file","arguments":{"path":"alive.txt"}}"#,
        r#"{"tool_name":"read_file","tool\u005fname":"write_file","arguments":{"path":"alive.txt"}}"#,
        r#"{"tool_name":"read_file","arguments":{"path":"alive.txt","path":".env"}}"#,
        r#"{"tool_name":"read_file","arguments":{"path":"alive.txt","p\u0061th":".env"}}"#,
        r#"{"tool_name":"read_file","arguments":{"path":"alive.txt"},"arguments":{"path":".env"}}"#,
        r#"{"tool_name":"read_file","arguments":{"path":[{"a":[{"b":1,"b":2}]}]}}"#,
    ] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"sinew/execute","params":{params}}}"#);
        let response = client.exchange(&line);
        assert_eq!(response["error"]["data"]["code"], "duplicate_key", "{params}: {response}");
    }
    let ran =
        daemon.home().records().into_iter().skip(before).any(|record| tests::holds(&record, "decision"));
    assert!(!ran, "nothing was decided");
    assert_still_serving(&daemon);
}

#[test]
fn invalid_utf8_is_a_parse_error_and_keeps_the_connection() {
    let daemon = daemon();
    let mut client = daemon.agent();
    client.send(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}\n");
    let response = client.receive().expect("an answer");
    assert_eq!(error_code(&response), -32700, "{response}");
    assert!(client.request("sinew/status", &json!({}))["result"].is_object());
}

#[test]
fn wrong_shapes_are_invalid_requests() {
    let daemon = daemon();
    let mut client = daemon.agent();
    for line in [
        r#"[]"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        r#"7"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
    ] {
        let response = client.exchange(line);
        assert_eq!(error_code(&response), -32600, "{line}: {response}");
    }
    assert_still_serving(&daemon);
}

#[test]
fn unknown_method_names_the_nearest() {
    let daemon = daemon();
    let response = daemon.agent().request("sinew/exceute", &json!({}));
    assert_eq!(error_code(&response), -32601);
    assert!(response.to_string().contains("sinew/execute"), "{response}");
}

#[test]
fn wrong_parameters_name_the_field() {
    let daemon = daemon();
    let mut client = daemon.agent();
    for (params, field) in [
        (json!({"arguments": {}}), "tool_name"),
        (json!({"tool_name": 7}), "tool_name"),
        (json!({"tool_name": "read_file", "arguments": {}, "argments": {}}), "argments"),
        (json!({"tool_name": "read_file", "arguments": {}, "deadline_ms": -1}), "deadline_ms"),
        (json!({"tool_name": "read_file", "arguments": {}, "deadline_ms": 1e300}), "deadline_ms"),
        (json!({"tool_name": "read_file", "arguments": {}, "dry_run": true}), "dry_run"),
        (json!([1]), "params"),
    ] {
        let response = client.request("sinew/execute", &params);
        assert_eq!(error_code(&response), -32602, "{params}: {response}");
        assert!(response["error"]["message"].as_str().unwrap().contains(field), "{field}: {response}");
    }
    assert_still_serving(&daemon);
}

#[test]
fn client_that_dies_during_a_call_still_has_its_record() {
    let daemon = daemon();
    let before = daemon.home().records().len();
    for _ in 0..20 {
        let mut client = daemon.agent();
        client.send(br#"{"jsonrpc":"2.0","id":1,"method":"sinew/execute","params":{"tool_name":"write_file","arguments":{"path":"w.txt","content":"x"}}}"#);
        client.send(b"\n");
        drop(client);
    }
    assert_still_serving(&daemon);
    let home = daemon.stop();
    let records = home.records();
    let new = records.get(before..).unwrap();
    let count = |kind: &str| new.iter().filter(|r| r["kind"] == kind).count();
    assert_eq!(count("decision"), count("outcome"), "every intent has its outcome");
    assert!(count("decision") > 1, "the calls of dead clients ran: {}", count("decision"));
}

#[test]
fn incomplete_line_is_no_request() {
    let daemon = daemon();
    let before = daemon.home().records().len();
    let mut client = daemon.agent();
    client.send(br#"{"jsonrpc":"2.0","id":1,"method":"sinew/execute","params":{"tool_name":"write_file","arguments":{"path":"half.txt","content":"x"}}}"#);
    drop(client);
    assert_still_serving(&daemon);
    assert!(!daemon.home().workspace().join("half.txt").exists(), "a line without its end was executed");
    assert_eq!(daemon.home().records().len(), before + 1, "only the good call is on record");
}

#[test]
fn another_protocol_is_answered_with_an_error() {
    let daemon = daemon();
    let mut client = daemon.agent();
    client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let response = client.receive().expect("an error");
    assert!(response["error"]["message"].as_str().unwrap().contains("HTTP"), "{response}");
    assert_still_serving(&daemon);
}

#[test]
fn pipelined_requests_are_all_answered() {
    let daemon = daemon();
    let mut client = daemon.agent();
    let mut lines = String::new();
    for id in 0..2000 {
        lines.push_str(&json!({"jsonrpc": "2.0", "id": id, "method": "sinew/status"}).to_string());
        lines.push('\n');
    }
    client.send(lines.as_bytes());
    let mut ids: Vec<i64> =
        (0..2000).map(|_| client.receive().expect("an answer")["id"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..2000).collect::<Vec<_>>());
}

#[test]
fn client_that_never_reads_does_not_block_the_daemon() {
    let daemon = daemon();
    assert_still_serving(&daemon);
    let before = resident(&daemon);
    let mut deaf = UnixStream::connect(daemon.home().socket("agent.sock")).unwrap();
    deaf.set_write_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    let line = format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": "sinew/tools", "params": {}}));
    let burst = line.repeat(1000);
    // Bounded: 20,000 requests whose responses are never read, or until the daemon stops reading or closes
    // the connection.
    for _ in 0..20 {
        if deaf.write_all(burst.as_bytes()).is_err() {
            break;
        }
    }
    assert_still_serving(&daemon);
    let grown = resident(&daemon).saturating_sub(before);
    assert!(grown < 48 << 20, "{grown} bytes held for a client that never reads");
}

/// The sender of a request waits for a reply with its id.
#[test]
fn every_request_with_a_readable_id_gets_that_id_back() {
    let daemon = daemon();
    let mut client = daemon.agent();
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    let long = "x".repeat(17 << 20);
    let cases = [
        (r#"{"path":"a\u0000b"}"#.to_owned(), "invalid_arguments"),
        (r#"{"path":"a","path":"b"}"#.to_owned(), "invalid_arguments"),
        (format!(r#"{{"path":{deep}}}"#), "invalid_arguments"),
        (format!(r#"{{"path":[0{}]}}"#, ",0".repeat(100_000)), "invalid_arguments"),
        (format!(r#"{{"path":"{long}"}}"#), "too_large"),
    ];
    let mut id = 0;
    for (arguments, code) in &cases {
        let params = format!(r#"{{"tool_name":"read_file","arguments":{arguments}}}"#);
        for line in [
            format!(r#"{{"jsonrpc":"2.0","id":"first","method":"sinew/execute","params":{params}}}"#),
            format!(r#"{{"method":"sinew/execute","params":{params},"jsonrpc":"2.0","id":"first"}}"#),
        ] {
            id += 1;
            let response = client.exchange(&line.replace("\"first\"", &id.to_string()));
            assert_eq!(response["id"], id, "{code}: {response}");
            let refusal = &response["error"]["data"]["refusal"];
            assert_eq!(refusal["code"], *code, "{response}");
        }
    }
    client.send(b"{\"jsonrpc\":\"2.0\",\"id\":99,\"method\":\"\xff\xfe\"}\n");
    assert_eq!(client.receive().expect("an answer")["id"], 99);
    assert!(client.request("sinew/status", &json!({}))["result"].is_object(), "the connection goes on");
    assert!(has_refusal(&daemon, "invalid_arguments"), "{:?}", daemon.home().records());
}

fn has_refusal(daemon: &Daemon, code: &str) -> bool {
    daemon.home().records().iter().any(|record| record["kind"] == "refusal" && record["code"] == code)
}

#[test]
fn message_that_is_too_long_is_recorded() {
    let daemon = daemon();
    let line = format!(
        r#"{{"params":{{"tool_name":"{}"}},"method":"sinew/execute","jsonrpc":"2.0","id":5}}"#,
        "x".repeat(17 << 20)
    );
    let response = daemon.agent().exchange(&line);
    assert_eq!(response["id"], 5);
    assert_eq!(response["error"]["data"]["refusal"]["detail"], "message_too_large", "{response}");
    assert!(has_refusal(&daemon, "too_large"), "{:?}", daemon.home().records());
}
