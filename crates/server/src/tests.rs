//! Tests over real Unix sockets, with a service of a few test methods in place of the execution layer.

mod client;
pub(crate) mod daemon;

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use self::daemon::{daemon, daemon_with_limits, daemon_with_state, limits};
use crate::listener::{ListenerLimits, SharedListenerState};
use crate::service::RpcMethod;
use crate::settings::ConnectionLimits;

/// Compares the methods of a socket with their descriptions, which the protocol reference is generated from.
pub(crate) fn assert_described<C>(socket: &str, methods: &[RpcMethod<C>]) {
    let descriptions: Value = serde_json::from_str(include_str!("../protocol.json")).unwrap();
    let sockets = descriptions["sockets"].as_array().unwrap();
    let described = sockets.iter().find(|described| described["socket"] == socket).unwrap();
    let mut described: Vec<&str> = described["methods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|method| method["name"].as_str().unwrap())
        .collect();
    let mut known: Vec<&str> = methods.iter().map(|method| method.name).collect();
    described.sort_unstable();
    known.sort_unstable();
    assert_eq!(known, described, "{socket}: describe each method in crates/server/protocol.json");
}

#[test]
fn replies_are_sent_as_they_become_ready() {
    let daemon = daemon(limits());
    let mut client = daemon.client();
    client.send_request(1, "wait", &json!({}));
    client.send_request("two", "echo", &json!({"say": ["é", null]}));
    assert_eq!(client.receive(), json!({"jsonrpc": "2.0", "id": "two", "result": ["é", null]}));
    daemon.release_calls(1);
    assert_eq!(client.receive()["id"], 1);
}

/// A task for each call would start them in any order, after the lines that follow.
#[test]
fn calls_that_arrive_together_start_in_the_order_of_their_lines() {
    let daemon = daemon(limits());
    let mut client = daemon.client();
    let ask = |id: u32| format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "in_turn"}));
    client.send((0..30).map(ask).collect::<String>());
    (0..30).for_each(|_| drop(client.receive()));
    assert_eq!(*daemon.context.events.lock().unwrap(), ["asked", "begun"].repeat(30));
}

#[test]
fn received_requests_start_after_the_client_disconnects() {
    let daemon = daemon(limits());
    for _ in 0..20 {
        let mut client = daemon.client();
        let ask = |id: u32| format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "mark"}));
        client.send((0..60).map(ask).collect::<String>());
        drop(client);
    }
    let asked = || daemon.context.received.load(Ordering::SeqCst);
    daemon.wait_until("many requests arrive", |_| asked() > 100);
    // A request that was dropped before its start would stay missing.
    daemon.wait_until("all of them are started", |daemon| daemon.started_calls() == asked());
}

#[test]
fn buffered_calls_start_within_the_in_flight_limit() {
    let daemon = daemon(ConnectionLimits { max_in_flight: 2, ..limits() });
    let mut client = daemon.client();
    let ask = |id: u32| format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "wait"}));
    client.send((0..5).map(ask).collect::<String>());
    for open in 2..=5 {
        daemon.wait_until("as many calls run as the limit allows", |daemon| daemon.started_calls() >= open);
        daemon.client().expect_alive();
        assert_eq!(daemon.started_calls(), open);
        daemon.release_calls(1);
        client.receive();
    }
    daemon.release_calls(1);
    client.receive();
}

#[test]
fn invalid_lines_get_an_error_and_the_connection_stays() {
    let daemon = daemon(limits());
    let mut client = daemon.client();
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"echo","params":{{"say":{}{}}}}}"#,
        "[".repeat(1000),
        "]".repeat(1000)
    );
    let mut check = |line: &[u8], code: i64, word: &str| {
        client.send([line, b"\n"].concat());
        let error = client.receive()["error"].take();
        let shown = line[..line.len().min(80)].escape_ascii().to_string();
        assert_eq!(
            (&error["code"], &error["data"]["code"]),
            (&json!(code), &json!(word)),
            "{shown}: {error}"
        );
        client.expect_alive();
    };
    check(b"\xff\xfe", -32700, "not_utf8");
    check(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xc3\x28\"}", -32700, "not_utf8");
    check(b"nonsense", -32700, "syntax");
    check(b"{}{}", -32700, "syntax");
    check(deep.as_bytes(), -32700, "too_deep");
    check(
        br#"{"jsonrpc":"2.0","id":1,"method":"echo","params":{"say":1,"s\u0061y":2}}"#,
        -32700,
        "duplicate_key",
    );
    check(br#"{"jsonrpc":"2.0","id":1,"method":"echo","params":{"say":"\u0000"}}"#, -32700, "nul");
    check(br#"[{"jsonrpc":"2.0","id":1,"method":"echo"}]"#, -32600, "batch");
    check(br#"{"jsonrpc":"2.0","id":1.5,"method":"echo"}"#, -32600, "bad_request");
    check(br#"{"jsonrpc":"2.0","id":1,"method":"ecoh"}"#, -32601, "unknown_method");
    check(br#"{"jsonrpc":"2.0","id":1,"method":"elsewhere"}"#, -32601, "wrong_socket");
    check(br#"{"jsonrpc":"2.0","id":1,"method":"notifications/cancelled"}"#, -32600, "bad_request");
    check(br#"{"jsonrpc":"2.0","id":1,"method":"echo","params":{"sya":1}}"#, -32602, "invalid_params");
    check(br#"{"jsonrpc":"2.0","id":1,"method":"echo","params":[]}"#, -32602, "invalid_params");
    client.send_request(1, "ecoh", &json!({}));
    assert_eq!(client.receive()["error"]["data"]["did_you_mean"], "echo");
    client.send("\n\r\n   \r\n");
    assert_eq!(client.receive_error_code(), "syntax", "spaces are not an empty line");
    client.expect_alive();
}

#[test]
fn notification_never_gets_a_reply() {
    let daemon = daemon(limits());
    let mut client = daemon.client();
    for line in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}"#,
        r#"{"jsonrpc":"2.0","method":"unknown"}"#,
        r#"{"jsonrpc":"2.0","method":"wait"}"#,
    ] {
        client.send(format!("{line}\n"));
    }
    client.expect_alive();
    assert_eq!(daemon.started_calls(), 0, "a call without an id does not run");
}

#[test]
fn cancelled_request_gets_no_reply() {
    let daemon = daemon(limits());
    let mut client = daemon.client();
    client.send_request(1, "wait", &json!({}));
    client.send_request(2, "wait", &json!({}));
    client
        .send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}\n");
    client.expect_alive();
    daemon.release_calls(2);
    assert_eq!(client.receive()["id"], 2);
    client.send_request(1, "echo", &json!({"say": "the id is free again"}));
    assert_eq!(client.receive()["result"], "the id is free again");
}

#[test]
fn open_id_is_refused_and_closed_id_can_be_reused() {
    let daemon = daemon(limits());
    let mut client = daemon.client();
    client.send_request(1, "wait", &json!({}));
    client.send_request(1, "wait", &json!({}));
    let refused = client.receive();
    assert_eq!((&refused["id"], &refused["error"]["data"]["id"]), (&Value::Null, &json!(1)));
    assert_eq!(daemon.started_calls(), 1);
    daemon.release_calls(1);
    assert_eq!(client.receive()["id"], 1);
    for _ in 0..200 {
        daemon.release_calls(1);
        client.send_request(1, "wait", &json!({}));
        let reply = client.receive();
        assert!(reply.get("result").is_some(), "a client that uses one id for all: {reply}");
    }
}

#[test]
fn at_the_limit_nothing_is_read_until_a_call_ends() {
    let daemon = daemon(ConnectionLimits { max_in_flight: 2, ..limits() });
    let (mut busy, mut other) = (daemon.client(), daemon.client());
    for id in 0..5 {
        busy.send_request(id, "wait", &json!({}));
    }
    daemon.wait_until("two calls run", |daemon| daemon.started_calls() == 2);
    other.expect_alive();
    assert_eq!(daemon.started_calls(), 2);
    for done in 1..=3 {
        daemon.release_calls(1);
        busy.receive();
        daemon.wait_until("the next is read", |daemon| daemon.started_calls() == 2 + done);
    }
    daemon.release_calls(2);
    busy.receive();
    busy.receive();
    busy.expect_alive();
}

#[test]
fn stalled_connection_answers_busy_and_hears_cancellations() {
    let queue_timeout = Duration::from_millis(100);
    let daemon = daemon(ConnectionLimits { max_in_flight: 2, queue_timeout, ..limits() });
    let mut client = daemon.client();
    let ask = |id: u32| format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "wait"}));
    client.send((0..10_000).map(ask).collect::<String>());
    for id in 2..10_000 {
        let busy = client.receive();
        assert_eq!((&busy["id"], &busy["error"]["data"]["code"]), (&json!(id), &json!("busy")), "{busy}");
        assert_eq!(busy["error"]["data"]["retry_after_ms"], 1000, "{busy}");
    }
    assert_eq!(daemon.started_calls(), 2);
    client
        .send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":0}}\n");
    let is_free = |client: &mut daemon::TestSocketClient| {
        client.send_request(8, "echo", &json!({"say": 1}));
        client.receive().get("result").is_some()
    };
    while !is_free(&mut client) {}
    client.send_request(7, "wait", &json!({}));
    daemon.wait_until("the slot of the cancelled call is used", |daemon| daemon.started_calls() == 3);
    daemon.release_calls(3);
    let mut ids = [client.receive(), client.receive()].map(|reply| reply["id"].as_u64());
    ids.sort_unstable();
    assert_eq!(ids, [Some(1), Some(7)]);
    client.expect_alive();
}

#[test]
fn line_over_the_limit_is_refused_and_its_connection_goes_on() {
    let daemon = daemon(limits());
    let mut other = daemon.client();
    let limit = limits().max_line_bytes;
    let line = |length: usize| {
        let frame = r#"{"jsonrpc":"2.0","id":1,"method":"echo","params":{"say":""}}"#;
        frame.replace("\"\"", &format!("\"{}\"", "x".repeat(length - frame.len()))) + "\n"
    };
    let mut client = daemon.client();
    client.send(line(limit));
    assert_eq!(client.receive()["id"], 1, "exactly the limit");
    // Simple clients write the whole line before they read anything.
    for length in [limit + 1, 20 * limit] {
        let mut client = daemon.client();
        client.send(line(length));
        let mut reply = client.receive();
        assert_eq!(reply["id"], 1, "{reply}");
        assert_eq!(reply["error"]["data"].take(), json!({"code": "frame_too_large", "limit_bytes": limit}));
        client.expect_alive();
    }
    other.expect_alive();
}

#[test]
fn endless_line_is_cut_off() {
    let daemon = daemon(limits());
    let mut client = daemon.client();
    let mut sent = 0u64;
    let chunk = [b'x'; 64 * 1024];
    client.stream.set_write_timeout(Some(Duration::from_secs(10))).unwrap();
    let error = loop {
        match client.stream.write(&chunk) {
            Ok(written) => sent += written as u64,
            Err(error) => break error,
        }
        assert!(sent < 1 << 40, "it never ends");
    };
    assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
    assert_eq!(client.receive_error_code(), "frame_too_large");
    daemon.client().expect_alive();
}

#[test]
fn other_protocols_are_rejected() {
    let daemon = daemon(limits());
    for hello in
        [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], b"\x16\x03\x01\x02\x00\x01\x00\x01", b"\x00\x00"]
    {
        let mut client = daemon.client();
        client.send(hello);
        assert_eq!(client.receive_error_code(), "bad_request");
        client.expect_end();
    }
    let mut client = daemon.client();
    client.send("noise\n".repeat(16));
    for _ in 0..16 {
        assert_eq!(client.receive_error_code(), "syntax");
    }
    client.expect_end();
}

#[test]
fn half_closed_client_still_gets_its_replies() {
    let daemon = daemon(limits());
    let mut client = daemon.client();
    client.send_request(1, "wait", &json!({}));
    client.send(r#"{"jsonrpc":"2.0","id":2,"method":"echo"}"#);
    client.stream.shutdown(Shutdown::Write).unwrap();
    let unterminated = client.receive()["error"]["message"].to_string();
    assert!(unterminated.contains("newline"), "{unterminated}");
    daemon.release_calls(1);
    assert_eq!(client.receive()["id"], 1);
    client.expect_end();
}

#[test]
fn panic_affects_only_its_request() {
    let daemon = daemon(limits());
    let mut client = daemon.client();
    for method in ["panic_now", "panic_later"] {
        client.send_request(method, method, &json!({}));
        let reply = client.receive();
        assert_eq!((&reply["id"], &reply["error"]["code"]), (&json!(method), &json!(-32603)));
        client.expect_alive();
    }
    daemon.client().expect_alive();
}

#[test]
fn foreign_user_gets_no_byte() {
    let mut sockets = SharedListenerState::new(limits());
    sockets.own_uid += 1;
    let daemon = daemon_with_state(sockets);
    let mut client = daemon.client();
    client.expect_end();
    assert_eq!(daemon.shared.connections.len(), 0);
}

#[test]
fn connection_over_the_limit_gets_a_busy_error() {
    let daemon = daemon(ConnectionLimits { max_connections: 2, ..limits() });
    let (mut one, mut two) = (daemon.client(), daemon.client());
    one.expect_alive();
    two.expect_alive();
    let mut three = daemon.client();
    let error = three.receive()["error"].take();
    assert_eq!((&error["data"]["code"], &error["data"]["max_connections"]), (&json!("busy"), &json!(2)));
    three.expect_end();
    one.expect_alive();
    drop((two, three));
    daemon.wait_until("the connection slot is free again", |daemon| daemon.shared.connections.len() == 1);
    daemon.client().expect_alive();
}

#[test]
fn client_that_never_reads_is_disconnected() {
    let daemon = daemon(ConnectionLimits { max_line_bytes: 4 * 1024 * 1024, ..limits() });
    let mut client = daemon.client();
    for id in 0..64 {
        client.send_request(id, "large", &json!({"bytes": 1024 * 1024}));
    }
    client.send_request("last", "wait", &json!({}));
    daemon.wait_until("it is disconnected", |daemon| daemon.shared.connections.is_empty());
    daemon.client().expect_alive();
}

#[test]
fn reply_over_the_limit_is_an_error_not_a_broken_line() {
    let daemon = daemon(limits());
    let mut client = daemon.client();
    client.send_request(1, "large", &json!({"bytes": limits().max_line_bytes}));
    assert_eq!(client.receive_error_code(), "reply_too_large");
    client.expect_alive();
}

#[test]
fn client_that_dies_leaves_nothing_behind() {
    let daemon = daemon(limits());
    let mut client = daemon.client();
    client.send_request(1, "wait", &json!({}));
    daemon.wait_until("it runs", |daemon| daemon.started_calls() == 1);
    client.send(r#"{"jsonrpc":"2.0","id":2,"meth"#);
    drop(client);
    daemon.release_calls(1);
    daemon.wait_until("its connection is over", |daemon| daemon.shared.connections.is_empty());
    daemon.client().expect_alive();
}

#[test]
fn stop_sends_an_error_for_every_open_request() {
    let daemon = daemon(limits());
    let (mut idle, mut waiting) = (daemon.client(), daemon.client());
    idle.expect_alive();
    waiting.send_request(1, "wait", &json!({}));
    daemon.wait_until("it runs", |daemon| daemon.started_calls() == 1);
    daemon.shared.stop.cancel();
    idle.expect_end();
    let reply = waiting.receive();
    assert_eq!((&reply["id"], &reply["error"]["data"]["code"]), (&json!(1), &json!("shutting_down")));
    waiting.expect_end();
    daemon.wait_until("all are gone", |daemon| daemon.shared.connections.is_empty());
}

#[test]
fn stop_still_sends_the_reply_of_a_finished_call() {
    for _ in 0..20 {
        let daemon = daemon(ConnectionLimits { final_reply_timeout: Duration::from_secs(20), ..limits() });
        let mut client = daemon.client();
        client.send_request(1, "wait", &json!({}));
        daemon.wait_until("it runs", |daemon| daemon.started_calls() == 1);
        daemon.release_calls(1);
        daemon.shared.stop.cancel();
        assert!(client.receive().get("result").is_some());
        client.expect_end();
    }
}

/// Runs in a process of its own, because the descriptor limit applies to the whole process.
#[test]
fn daemon_recovers_from_descriptor_exhaustion() {
    const CHILD: &str = "SINEW_TEST_OUT_OF_DESCRIPTORS";
    if std::env::var_os(CHILD).is_some() {
        return out_of_descriptors();
    }
    let name = "tests::daemon_recovers_from_descriptor_exhaustion";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn out_of_descriptors() {
    use nix::sys::time::TimeValLike;

    use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
    let daemon = daemon(limits());
    let mut open = daemon.client();
    open.expect_alive();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    // The number of a new descriptor equals the count of open ones.
    let used = std::os::fd::AsRawFd::as_raw_fd(&std::fs::File::open("/dev/null").unwrap());
    let limit = u64::try_from(used).unwrap() + 3;
    let clients: Vec<UnixStream> = {
        setrlimit(Resource::RLIMIT_NOFILE, limit, hard).unwrap();
        std::iter::from_fn(|| UnixStream::connect(&daemon.path).ok()).collect()
    };
    assert!(!clients.is_empty());
    let spent = || {
        let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
        let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        Duration::from_micros(u64::try_from(microseconds).unwrap())
    };
    let before = spent();
    let watched = Duration::from_millis(1500);
    std::thread::sleep(watched);
    let used = spent() - before;
    assert!(used < watched / 10, "{used:?} of processor time in {watched:?}");
    open.expect_alive();
    drop(clients);
    let mut again = daemon.client();
    again.expect_alive();
}

#[test]
fn idle_connections_are_closed_and_followers_limited() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = ListenerLimits {
        max_connections: 4,
        max_followers: 2,
        idle_timeout: Some(Duration::from_millis(100)),
    };
    let daemon =
        daemon_with_limits(endpoint, SharedListenerState::new(limits()), folder.path().join("test.sock"));
    // Each client sends a request as soon as it connects; one that waited for another's reply could be closed
    // as idle.
    let (mut first, mut second) = (daemon.subscribed_client(), daemon.subscribed_client());
    first.send_request(2, "follow", &json!({}));
    assert!(first.receive()["result"].is_object(), "one slot covers all subscriptions of a connection");
    let mut third = daemon.client();
    third.send_request(2, "wait", &json!({}));
    third.send_request(1, "follow", &json!({}));
    assert_eq!(third.receive_error_code(), "busy");
    let mut idle = daemon.client();
    assert_eq!(idle.stream.read(&mut [0; 1]).unwrap(), 0, "an idle connection is closed");
    let mut late = daemon.client();
    late.expect_alive();
    daemon.release_calls(1);
    assert_eq!(third.receive()["id"], 2, "a client that waits for a reply is not idle");
    first.expect_alive();
    second.expect_alive();
}
